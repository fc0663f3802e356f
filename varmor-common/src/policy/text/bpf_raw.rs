//! Checks the raw rules of the BPF enforcer: their words, patterns and addresses.

use super::address;
use super::check::check_selector;
use super::cursor::Cursor;
use super::node::Value;
use super::report::Report;
use crate::matcher::Pattern;
use crate::policy::diagnostic::quoted;
use crate::policy::suggest::nearest;
use crate::policy::vocabulary as words;
use crate::rules::CAPABILITY_NAMES;

/// Longest pattern: the kernel knows no longer paths (`PATH_MAX`). The schema reports longer ones.
const LONGEST_PATTERN: usize = 4096;

/// Where rules are exceptions from a default that refuses.
const ALLOW_LIST: &str = "spec.policy.defenseInDepth.";

/// Reports everything that is wrong with raw BPF rules.
pub(super) fn check(raw: &Cursor<'_>, report: &mut Report<'_>) {
    for rule in raw.list("files").iter().chain(&raw.list("processes")) {
        check_qualifiers(rule, report);
        check_words(
            rule,
            "permissions",
            |word| words::is_all(word) || words::permission(word).is_some(),
            words::permission_names(),
            report,
        );
        not_empty(rule, "permissions", report);
        check_pattern(rule, "pattern", report);
    }
    if let Some(network) = raw.get("network") {
        check_network(&network, report);
    }
    if let Some(ptrace) = raw.get("ptrace") {
        check_qualifiers(&ptrace, report);
        check_words(
            &ptrace,
            "permissions",
            |word| words::ptrace_permission(word).is_some(),
            words::ptrace_names(),
            report,
        );
        not_empty(&ptrace, "permissions", report);
    }
    for rule in raw.list("mounts") {
        check_qualifiers(&rule, report);
        check_words(
            &rule,
            "flags",
            |word| words::mount_flag(word).is_some(),
            words::mount_flag_names(),
            report,
        );
        not_empty(&rule, "flags", report);
        check_pattern(&rule, "sourcePattern", report);
        if let Some(fstype) = rule.get("fstype").filter(|fstype| fstype.text() == Some("")) {
            report.error(
                fstype.at(),
                &fstype.path,
                "`fstype` is empty",
                "write the type, `*` for every type, or `none`",
            );
        }
    }
}

fn check_network(network: &Cursor<'_>, report: &mut Report<'_>) {
    for rule in network.list("sockets") {
        check_qualifiers(&rule, report);
        let known =
            |number: fn(&str) -> Option<u32>| move |word: &str| words::is_all(word) || number(word).is_some();
        check_words(
            &rule,
            "domains",
            known(words::domain),
            words::domain_names(),
            report,
        );
        check_words(
            &rule,
            "types",
            known(words::socket_type),
            words::type_names(),
            report,
        );
        check_words(
            &rule,
            "protocols",
            |word| words::is_all(word) || words::protocols(word).is_some(),
            words::protocol_names(),
            report,
        );
        let has = |name: &str| !rule.list(name).is_empty();
        if has("types") && has("protocols") {
            let message = "the rule has both `types` and `protocols`";
            report.error(
                rule.key_position("protocols"),
                &rule.path,
                message,
                "make it two rules",
            );
        }
        if !has("domains") && !has("types") && !has("protocols") {
            report.error(
                rule.at(),
                &rule.path,
                "the rule names no sockets",
                "add `domains: [all]` for every socket",
            );
        }
    }
    for rule in network.list("ingresses") {
        check_qualifiers(&rule, report);
        address::check(&rule, &address::LOCAL_WORDS, report);
    }
    let Some(egress) = network.get("egress") else {
        return;
    };
    for rule in egress.list("toDestinations") {
        check_qualifiers(&rule, report);
        address::check(&rule, &address::ADDRESS_WORDS, report);
    }
    for rule in egress.list("toServices") {
        check_qualifiers(&rule, report);
        check_service(&rule, report);
    }
    for rule in egress.list("toPods") {
        check_qualifiers(&rule, report);
        address::check_ports(&rule, report);
        if let Some(selector) = rule.get("podSelector") {
            check_selector(&selector, report);
        }
    }
}

fn check_service(rule: &Cursor<'_>, report: &mut Report<'_>) {
    match (rule.get("name"), rule.get("serviceSelector")) {
        (Some(_), Some(selector)) => {
            let at = rule.key_position("serviceSelector");
            report.error(
                at,
                &selector.path,
                "the rule has both `name` and `serviceSelector`",
                "keep one of them",
            );
        }
        (None, Some(selector)) => check_selector(&selector, report),
        (name, None) if name.is_none() || rule.get("namespace").is_none() => {
            let help = "add `namespace:` and `name:`, or `serviceSelector:`";
            report.error(rule.at(), &rule.path, "the rule names no Service", help);
        }
        _ => {}
    }
}

/// In an allow-list the qualifiers may be left out, and mean `allow` then.
fn check_qualifiers(rule: &Cursor<'_>, report: &mut Report<'_>) {
    let allow_list = rule.path.starts_with(ALLOW_LIST);
    let names: &[&str] = if allow_list {
        &words::ALLOW_QUALIFIERS
    } else {
        &words::QUALIFIERS
    };
    let known = |word: &str| names.iter().any(|one| one.eq_ignore_ascii_case(word));
    check_words(rule, "qualifiers", known, names.iter().copied(), report);
    let has = |word: &str| {
        rule.list("qualifiers")
            .iter()
            .any(|one| one.text().is_some_and(|text| text.eq_ignore_ascii_case(word)))
    };
    if allow_list {
        if has("allow") && has("deny") {
            let message = "the rule both allows and denies";
            report.error(
                rule.key_position("qualifiers"),
                &rule.path,
                message,
                "keep `allow` or `deny`; a denying rule wins over every allowing one",
            );
        }
        return;
    }
    if rule.get("qualifiers").is_none() {
        let message = format!("`{}` has no field `qualifiers`", rule.path);
        let help = "add `qualifiers: [deny]`, or `[audit]` to log only";
        report.error(rule.at(), &rule.path, message, help);
    }
    not_empty(rule, "qualifiers", report);
}

/// The words of `capabilities` in an allow-list.
pub(super) fn check_capabilities(profile: &Cursor<'_>, report: &mut Report<'_>) {
    let names = CAPABILITY_NAMES.into_iter().chain(["all"]);
    let known = |word: &str| words::capabilities(word).is_some();
    check_words(profile, "capabilities", known, names, report);
}

fn check_words<'k>(
    rule: &Cursor<'_>,
    field: &str,
    known: impl Fn(&str) -> bool,
    names: impl Iterator<Item = &'k str>,
    report: &mut Report<'_>,
) {
    let names: Vec<&str> = names.collect();
    for word in rule.list(field) {
        let Some(text) = word.text().filter(|text| !known(text)) else {
            continue;
        };
        let help = match nearest(text, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use {}", names.join(", ")),
        };
        report.error(
            word.at(),
            &word.path,
            format!("{} is not known in `{field}`", quoted(text)),
            help,
        );
    }
}

/// An empty list would make the rule say nothing.
fn not_empty(rule: &Cursor<'_>, field: &str, report: &mut Report<'_>) {
    if let Some(list) = rule
        .get(field)
        .filter(|list| matches!(&list.node.value, Value::List(items) if items.is_empty()))
    {
        let message = format!("`{field}` is empty: the rule would have no effect");
        report.error(list.at(), &list.path, message, "name at least one");
    }
}

fn check_pattern(rule: &Cursor<'_>, field: &str, report: &mut Report<'_>) {
    if let Some(pattern) = rule.get(field) {
        check_text(&pattern, field, report);
    }
}

/// Paths of executables, which are patterns as well.
pub(super) fn check_patterns(patterns: &[Cursor<'_>], report: &mut Report<'_>) {
    for pattern in patterns {
        check_text(pattern, "targets", report);
    }
}

fn check_text(pattern: &Cursor<'_>, field: &str, report: &mut Report<'_>) {
    let Some(text) = pattern.text().filter(|text| text.len() <= LONGEST_PATTERN) else {
        return;
    };
    if text.is_empty() {
        report.error(
            pattern.at(),
            &pattern.path,
            format!("`{field}` is empty"),
            "write a path, or `**` for everything",
        );
        return;
    }
    if text.contains('\0') {
        let message = format!(
            "the pattern {} holds a zero byte, which no path can",
            quoted(text)
        );
        report.error(pattern.at(), &pattern.path, message, "remove it");
        return;
    }
    if let Err(error) = Pattern::parse(text) {
        let place = text
            .char_indices()
            .take_while(|(index, _)| *index < error.offset)
            .count()
            + 1;
        let message = format!(
            "bad pattern {}, at character {place}: {}",
            quoted(text),
            error.message
        );
        report.error(pattern.at(), &pattern.path, message, error.help);
    }
}

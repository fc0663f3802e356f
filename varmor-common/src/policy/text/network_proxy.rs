//! Checks the settings and rules of the NetworkProxy enforcer.

use super::address;
use super::cursor::Cursor;
use super::node::Value;
use super::report::Report;
use crate::policy::diagnostic::quoted;

/// Reports everything that is wrong with the proxy's part of `spec.policy`.
pub(super) fn check(policy: &Cursor<'_>, report: &mut Report<'_>) {
    if let Some(config) = policy.get("networkProxyConfig") {
        check_ports(&config, report);
        if let Some(mitm) = config.get("mitm") {
            check_mitm(&mitm, report);
        }
    }
    let raw = policy
        .get("enhanceProtect")
        .and_then(|rules| rules.get("networkProxyRawRules"));
    let allow_list = policy
        .get("defenseInDepth")
        .and_then(|rules| rules.get("networkProxy"));
    for egress in raw
        .into_iter()
        .chain(allow_list)
        .filter_map(|rules| rules.get("egress"))
    {
        check_egress(&egress, report);
    }
}

fn check_ports(config: &Cursor<'_>, report: &mut Report<'_>) {
    let number = |name: &str| match config.node.entry(name).map(|entry| &entry.value.value) {
        Some(Value::Number(number)) => number.as_u64(),
        _ => None,
    };
    if let (Some(proxy), Some(admin)) = (number("proxyPort"), number("proxyAdminPort"))
        && proxy == admin
    {
        let at = config.get("proxyAdminPort").map_or(config.at(), |port| port.at());
        let message = format!("`proxyPort` and `proxyAdminPort` are both {proxy}");
        report.error(
            at,
            &format!("{}.proxyAdminPort", config.path),
            message,
            "use two different ports",
        );
    }
}

fn check_mitm(mitm: &Cursor<'_>, report: &mut Report<'_>) {
    let domains = mitm.list("domains");
    for domain in &domains {
        safe(domain, report);
    }
    for mutation in mitm.list("headerMutations") {
        if let Some(domain) = mutation.get("domain")
            && let Some(text) = domain.text()
            && !domains.iter().any(|one| one.text() == Some(text))
        {
            let message = format!("the domain {} is not in `mitm.domains`", quoted(text));
            report.error(
                domain.at(),
                &domain.path,
                message,
                "add it there, spelt the same way",
            );
        }
        for header in mutation.list("headers") {
            header.get("name").iter().for_each(|name| safe(name, report));
            if header.get("value").is_some() == header.get("secretRef").is_some() {
                let message = "a header needs exactly one of `value` and `secretRef`";
                report.error(header.at(), &header.path, message, "keep one of them");
            }
        }
    }
}

fn check_egress(egress: &Cursor<'_>, report: &mut Report<'_>) {
    if let Some(action) = egress.get("defaultAction")
        && let Some(text) = action.text()
        && !["allow", "deny"].iter().any(|one| one.eq_ignore_ascii_case(text))
    {
        report.error(
            action.at(),
            &action.path,
            format!("{} is not an action", quoted(text)),
            "write `allow` or `deny`",
        );
    }
    for rule in egress.list("rules") {
        check_qualifiers(&rule, report);
        address::check(&rule, &[], report);
    }
    for rule in egress.list("httpRules") {
        check_qualifiers(&rule, report);
        let Some(matches) = rule.get("match") else {
            continue;
        };
        address::check_ports(&matches, report);
        matches
            .list("hosts")
            .iter()
            .chain(&matches.list("methods"))
            .for_each(|word| safe(word, report));
        for path in matches.list("paths") {
            let parts = [path.get("exact"), path.get("prefix")];
            if parts.iter().flatten().count() != 1 {
                report.error(
                    path.at(),
                    &path.path,
                    "a path needs exactly one of `exact` and `prefix`",
                    "keep one of them",
                );
            }
            parts.iter().flatten().for_each(|part| safe(part, report));
        }
    }
}

fn check_qualifiers(rule: &Cursor<'_>, report: &mut Report<'_>) {
    let known = ["allow", "deny", "audit"];
    for word in rule.list("qualifiers") {
        if let Some(text) = word
            .text()
            .filter(|text| !known.iter().any(|one| one.eq_ignore_ascii_case(text)))
        {
            let message = format!("{} is not known in `qualifiers`", quoted(text));
            report.error(word.at(), &word.path, message, "use allow, deny, audit");
        }
    }
}

/// Refuses characters with which text could leave the string that it is written into.
fn safe(node: &Cursor<'_>, report: &mut Report<'_>) {
    let forbidden =
        |c: char| c.is_ascii_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\\' | '"');
    if let Some(text) = node.text()
        && let Some(bad) = text.chars().find(|c| forbidden(*c))
    {
        let message = format!(
            "the character {} is not allowed in `{}`",
            bad.escape_unicode(),
            node.path
        );
        report.error(
            node.at(),
            &node.path,
            message,
            "remove control characters, backslashes and quotes",
        );
    }
}

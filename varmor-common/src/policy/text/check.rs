//! What a schema cannot say about a policy: which fields need or exclude each other, which words and names exist.

use super::cursor::Cursor;
use super::report::Report;
use super::{bpf_raw, network_proxy};
use crate::policy::Enforcers;
use crate::policy::diagnostic::quoted;
use crate::policy::suggest::nearest;
use crate::policy::target::SELECTOR_OPERATORS;
use crate::rules::{self, RuleList};

/// Reports everything that is wrong with a policy beyond its schema.
pub(super) fn check(kind: &str, document: &Cursor<'_>, report: &mut Report<'_>) {
    if !matches!(kind, "VarmorPolicy" | "VarmorClusterPolicy") {
        return;
    }
    let Some(spec) = document.get("spec") else { return };
    if let Some(target) = spec.get("target") {
        check_target(&target, report);
    }
    if let Some(policy) = spec.get("policy") {
        let enforcers = check_enforcer(&policy, report);
        check_mode(&policy, enforcers, report);
        if let Some(rules) = policy.get("enhanceProtect") {
            check_enhance_protect(&rules, report);
        }
        check_allow_list(&policy, enforcers, report);
        network_proxy::check(&policy, report);
    }
    check_profile_name(kind, document, report);
}

fn check_target(target: &Cursor<'_>, report: &mut Report<'_>) {
    match (target.get("name"), target.get("selector")) {
        (None, None) => {
            let help = "add `name:` with the name of the workload, or `selector:` with its labels";
            report.error(
                target.at(),
                &target.path,
                "`spec.target` selects nothing: it has neither `name` nor `selector`",
                help,
            );
        }
        (Some(_), Some(selector)) => {
            let at = target.key_position("selector");
            report.error(
                at,
                &selector.path,
                "`spec.target` has both `name` and `selector`",
                "keep one of them",
            );
        }
        _ => {}
    }
    if let Some(selector) = target.get("selector") {
        check_selector(&selector, report);
    }
}

pub(super) fn check_selector(selector: &Cursor<'_>, report: &mut Report<'_>) {
    for expression in selector.list("matchExpressions") {
        let Some(operator) = expression.get("operator") else {
            continue;
        };
        let Some(text) = operator.text() else { continue };
        if !SELECTOR_OPERATORS.contains(&text) {
            let help = match nearest(text, SELECTOR_OPERATORS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("use one of {}", SELECTOR_OPERATORS.join(", ")),
            };
            report.error(
                operator.at(),
                &operator.path,
                format!("{} is not an operator of a selector", quoted(text)),
                help,
            );
            continue;
        }
        let values = expression.list("values").len();
        if matches!(text, "In" | "NotIn") == (values == 0) {
            let (message, help) = if values == 0 {
                (
                    format!("the operator {text} needs values"),
                    "add `values:` with at least one item",
                )
            } else {
                (format!("the operator {text} takes no values"), "remove `values`")
            };
            report.error(operator.at(), &expression.path, message, help);
        }
    }
}

fn check_enforcer(policy: &Cursor<'_>, report: &mut Report<'_>) -> Enforcers {
    let Some(enforcer) = policy.get("enforcer") else {
        return Enforcers::NONE;
    };
    let Some(text) = enforcer.text() else {
        return Enforcers::NONE;
    };
    match text.parse::<Enforcers>() {
        Ok(enforcers) => {
            let rest = Enforcers::unknown_part(text);
            if !rest.is_empty() {
                let message = format!(
                    "{} in {} is no enforcer and is ignored",
                    quoted(&rest),
                    quoted(text)
                );
                report.warning(
                    enforcer.at(),
                    &enforcer.path,
                    message,
                    format!("write `{enforcers}`"),
                );
            }
            enforcers
        }
        Err(error) => {
            let names = ["AppArmor", "BPF", "Seccomp", "NetworkProxy"];
            let help = nearest(text, names).map_or_else(
                || "use AppArmor, BPF, Seccomp, NetworkProxy or a combination such as AppArmorBPF".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            report.error(
                enforcer.at(),
                &enforcer.path,
                format!("{} names no enforcer", quoted(&error.0)),
                help,
            );
            Enforcers::NONE
        }
    }
}

fn check_mode(policy: &Cursor<'_>, enforcers: Enforcers, report: &mut Report<'_>) {
    let Some(mode) = policy.get("mode") else { return };
    let needed = match mode.text() {
        Some("EnhanceProtect") => "enhanceProtect",
        Some("BehaviorModeling") => "modelingOptions",
        Some("DefenseInDepth") => "defenseInDepth",
        _ => return,
    };
    let name = mode.text().unwrap_or_default();
    if policy.get(needed).is_none() {
        let message = format!("the mode {name} needs the field `{needed}`");
        report.error(
            mode.at(),
            &mode.path,
            message,
            format!("add `{needed}:` below `spec.policy`"),
        );
    }
    let excluded = match name {
        "BehaviorModeling" => Enforcers::NETWORK_PROXY,
        _ => Enforcers::NONE,
    };
    if !excluded.is_empty() && enforcers.contains(excluded) {
        let message = format!("the mode {name} does not work with the enforcer {excluded}");
        report.error(
            mode.at(),
            &mode.path,
            message,
            format!("remove {excluded} from `enforcer`, or choose another mode"),
        );
    }
}

fn check_enhance_protect(rules: &Cursor<'_>, report: &mut Report<'_>) {
    check_rule_ids(&rules.list("hardeningRules"), RuleList::Hardening, report);
    for entry in rules.list("attackProtectionRules") {
        check_rule_ids(&entry.list("rules"), RuleList::AttackProtection, report);
        check_targets(&entry, report);
        bpf_raw::check_patterns(&entry.list("targets"), report);
    }
    check_rule_ids(
        &rules.list("vulMitigationRules"),
        RuleList::VulnerabilityMitigation,
        report,
    );
    for entry in rules.list("appArmorRawRules") {
        check_targets(&entry, report);
    }
    if let Some(raw) = rules.get("bpfRawRules") {
        bpf_raw::check(&raw, report);
    }
}

/// The allow-list of BPF. What the mode lacks is said where the policy is given its meaning.
fn check_allow_list(policy: &Cursor<'_>, enforcers: Enforcers, report: &mut Report<'_>) {
    let Some(bpf) = policy
        .get("defenseInDepth")
        .and_then(|defense| defense.get("bpf"))
    else {
        return;
    };
    if !enforcers.is_empty() && !enforcers.contains(Enforcers::BPF) {
        let message = "`defenseInDepth.bpf` has no effect: the enforcer BPF is not chosen";
        report.warning(bpf.at(), &bpf.path, message, "add BPF to `enforcer`");
    }
    if let Some(custom) = bpf.get("customProfile") {
        bpf_raw::check(&custom, report);
        bpf_raw::check_capabilities(&custom, report);
    }
}

fn check_rule_ids(ids: &[Cursor<'_>], list: RuleList, report: &mut Report<'_>) {
    for id in ids {
        let Some(text) = id.text() else { continue };
        match rules::find(text) {
            None => {
                let help = match rules::nearest_id(text) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "the documentation lists the built-in rules".to_owned(),
                };
                report.error(
                    id.at(),
                    &id.path,
                    format!("there is no built-in rule {}", quoted(text)),
                    help,
                );
            }
            Some(rule) if rule.category.list() != list => {
                let right = rule.category.list();
                let message = format!(
                    "the rule `{}` belongs into `{right}`; it works here as well",
                    rule.id
                );
                report.warning(
                    id.at(),
                    &id.path,
                    message,
                    format!("move it to `{right}`, where other versions look for it"),
                );
            }
            Some(_) => {}
        }
    }
}

fn check_targets(entry: &Cursor<'_>, report: &mut Report<'_>) {
    for target in entry.list("targets") {
        if target.text().is_some_and(|text| !text.starts_with('/')) {
            let message = format!(
                "the target {} is not an absolute path",
                quoted(target.text().unwrap_or_default())
            );
            report.error(target.at(), &target.path, message, "start it with `/`");
        }
    }
}

/// Profile names are file names, label values and names in the kernel.
fn check_profile_name(kind: &str, document: &Cursor<'_>, report: &mut Report<'_>) {
    const LONGEST: usize = 63;
    let Some(metadata) = document.get("metadata") else {
        return;
    };
    let Some(name) = metadata.text_of("name") else {
        return;
    };
    let namespace = metadata.text_of("namespace").unwrap_or("default");
    let profile = crate::profile::profile_name((kind == "VarmorPolicy").then_some(namespace), name);
    if profile.len() > LONGEST {
        let message = format!(
            "the name of the profile, {}, has {} bytes; the limit is {LONGEST}",
            quoted(&profile),
            profile.len()
        );
        let help = format!(
            "shorten the name of the policy by {} bytes",
            profile.len() - LONGEST
        );
        let at = metadata.get("name").map_or(metadata.at(), |name| name.at());
        report.error(at, "metadata.name", message, help);
    }
}

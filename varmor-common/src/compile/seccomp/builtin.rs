//! Built-in rules -> refused system calls.

use super::filter::Entry;
use super::{Action, Compiler, Condition, RULES, part};
use crate::policy::{Enforcers, EnhanceProtect, Severity, item};
use crate::rules;
use crate::rules::syscalls::{self, Coverage, SyscallRule};

/// Adds the rules that system calls can hold; says of the others what becomes of them.
pub(super) fn add(compiler: &mut Compiler<'_>, rules: &EnhanceProtect, action: Action) {
    let lists = [
        ("hardeningRules", &rules.hardening_rules),
        ("vulMitigationRules", &rules.vul_mitigation_rules),
    ];
    for (list, ids) in lists {
        for (index, id) in ids.iter().enumerate() {
            rule(compiler, id, &item(&format!("{RULES}.{list}"), index), action);
        }
    }
    let field = format!("{RULES}.attackProtectionRules");
    for (index, entry) in rules.attack_protection_rules.iter().enumerate() {
        if !entry.targets.is_empty() {
            targets(compiler, &entry.rules, &part(&field, index, "targets"));
            continue;
        }
        for (place, id) in entry.rules.iter().enumerate() {
            rule(compiler, id, &item(&part(&field, index, "rules"), place), action);
        }
    }
}

fn rule(compiler: &mut Compiler<'_>, id: &str, field: &str, action: Action) {
    let Some(known) = rules::find(id) else {
        let message = format!("there is no built-in rule `{id}`");
        compiler.report(Severity::Error, field, message, "`varmor rules list` shows them");
        return;
    };
    match syscalls::find(known.id) {
        Some(found) => {
            add_parts(compiler, found, field, action);
            if let Coverage::Supplement(what) = found.coverage
                && alone(compiler)
            {
                let message = format!("the Seccomp enforcer holds `{}` in part: {what}", known.id);
                let help = "add AppArmor or BPF to `enforcer`";
                compiler.report(Severity::Warning, field, message, help);
            }
        }
        None if alone(compiler) => {
            let names: Vec<&str> = known.enforcers.names().collect();
            let message = format!(
                "the rule `{}` has no effect: a filter of system calls cannot hold it",
                known.id
            );
            let help = format!("add {} to `enforcer`", names.join(" or "));
            compiler.report(Severity::Warning, field, message, &help);
        }
        None => {}
    }
}

/// Adds what the rule refuses.
pub(super) fn add_parts(compiler: &mut Compiler<'_>, rule: &SyscallRule, field: &str, action: Action) {
    for part in rule.parts {
        for name in part.names {
            compiler.filter.push(Entry {
                name: (*name).to_owned(),
                action,
                errno: (action == Action::Errno).then_some(part.errno),
                args: part
                    .when
                    .iter()
                    .map(|bits| Condition::masked(bits.index, bits.mask, bits.value))
                    .collect(),
                rule: rule.id.to_owned(),
                field: field.to_owned(),
                built_in: true,
            });
        }
    }
}

/// A filter stays for ever and is inherited, so it cannot hold for one executable.
fn targets(compiler: &mut Compiler<'_>, ids: &[String], field: &str) {
    let any = ids
        .iter()
        .filter_map(|id| rules::find(id))
        .any(|rule| syscalls::find(rule.id).is_some() || rule.enforcers.contains(Enforcers::SECCOMP));
    if any || alone(compiler) {
        let message =
            "the Seccomp enforcer cannot limit rules to `targets`: these rules are not in its filter";
        let help =
            "remove `targets` to have them for the whole container, or let AppArmor or BPF enforce them";
        compiler.report(Severity::Warning, field, message.to_owned(), help);
    }
}

/// No other enforcer could hold what this one cannot.
fn alone(compiler: &Compiler<'_>) -> bool {
    let enforcers = compiler
        .document
        .spec()
        .map_or(Enforcers::NONE, |spec| spec.policy.enforcer);
    !enforcers.contains(Enforcers::BPF) && !enforcers.contains(Enforcers::APPARMOR)
}

//! The built-in rules, all at once and together with many rules of a user.

use std::fmt::Write as _;

use super::{KEY, compiled};
use crate::abi::{PERM_READ, PERM_WRITE};
use crate::matcher::{PathView, Walk};
use crate::policy;
use crate::profile::{Disk, NodeFacts, Profile, build};
use crate::rules::{RuleList, catalogue};

/// A policy with every built-in rule on top of `RuntimeDefault`, and raw rules for `folders` folders.
fn everything(folders: u32) -> Profile {
    let mut text = String::from(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {name: all, namespace: demo}\nspec:\n  \
         target: {kind: Pod, name: web}\n  policy:\n    enforcer: BPF\n    mode: EnhanceProtect\n    \
         enhanceProtect:\n",
    );
    for list in [
        RuleList::Hardening,
        RuleList::AttackProtection,
        RuleList::VulnerabilityMitigation,
    ] {
        let ids: Vec<&str> = catalogue()
            .filter(|rule| rule.category.list() == list)
            .map(|rule| rule.id)
            .collect();
        let _ = match list {
            RuleList::AttackProtection => writeln!(text, "      {list}: [{{rules: [{}]}}]", ids.join(", ")),
            _ => writeln!(text, "      {list}: [{}]", ids.join(", ")),
        };
    }
    text.push_str("      bpfRawRules:\n        files:\n");
    for number in 0..folders {
        let pattern = format!("/srv/tenant{number}/**");
        let _ = writeln!(
            text,
            "        - {{pattern: \"{pattern}\", permissions: [read, write], qualifiers: [deny]}}"
        );
    }
    let loaded = policy::load("all.yaml", text.as_bytes());
    let problems: Vec<String> = loaded.diagnostics.iter().map(policy::render).collect();
    let document = loaded
        .documents
        .first()
        .unwrap_or_else(|| panic!("{}", problems.join("\n")));
    let built = build(
        document,
        &NodeFacts {
            disk_devices: vec![Disk {
                name: "vda".to_owned(),
                major: 254,
                minor: 0,
            }],
        },
    );
    built.profile.expect("the policy is valid")
}

#[test]
fn all_builtin_rules_and_two_thousand_of_a_user_stay_small() {
    let (few, many) = (everything(1), everything(2_000));
    let (small, large) = (compiled(&few), compiled(&many));
    eprintln!(
        "all built-in rules: {} states, {} transitions, {} glob rows; with 2,000 folders: {}, {}, {}",
        small.states.len(),
        small.transitions.len(),
        small.component_globs.len(),
        large.states.len(),
        large.transitions.len(),
        large.component_globs.len(),
    );
    assert!(small.states.len() < 1_000 && small.transitions.len() < 6_000);
    assert!(large.states.len() < 40_000 && large.transitions.len() < 300_000);
    let walk = Walk::new(&large, KEY);
    let denied = |path: &str, requested| {
        walk.files(&PathView::from_path(path.as_bytes()), requested)
            .denied
    };
    assert_eq!(denied("/srv/tenant1999/a", PERM_READ), PERM_READ);
    assert_eq!(denied("/etc/shadow", PERM_READ), PERM_READ);
    assert_eq!(denied("/proc/sys/kernel/core_pattern", PERM_WRITE), PERM_WRITE);
    assert_eq!(denied("/proc/self/mounts", PERM_READ), PERM_READ);
    assert_eq!(denied("/srv/tenant2000/a", PERM_READ | PERM_WRITE), 0);
    assert_eq!(denied("/proc/sys/kernel/shmmax", PERM_WRITE), 0);
}

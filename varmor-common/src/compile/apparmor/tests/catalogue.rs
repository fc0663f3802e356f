//! Every rule of the catalogue in `AppArmor`'s text, and in the guests' table.

use super::{compiled, enhance};
use crate::policy::Enforcers;
use crate::rules::{self, BuiltinRule, RuleList};

/// What the guest suite tries, as it is written there.
const TABLES: [&str; 2] = [
    include_str!("../../../../../xtask/src/bin/guest/apparmor/table.rs"),
    include_str!("../../../../../xtask/src/bin/guest/apparmor/capabilities.rs"),
];

pub(super) fn held() -> impl Iterator<Item = &'static BuiltinRule> {
    rules::catalogue().filter(|rule| rule.enforcers.contains(Enforcers::APPARMOR))
}

/// The fields of `enhanceProtect` for these rules.
pub(super) fn fields(ids: &[&str], targets: &str) -> String {
    let of = |wanted: RuleList| -> String {
        let chosen = ids.iter().filter(|id| {
            let rule = rules::find(id).unwrap_or_else(|| panic!("{id} is no rule"));
            rule.category.list() == wanted
        });
        chosen.copied().collect::<Vec<_>>().join(", ")
    };
    format!(
        "hardeningRules: [{}]\nvulMitigationRules: [{}]\nattackProtectionRules: [{{rules: [{}], targets: [{targets}]}}]\n",
        of(RuleList::Hardening),
        of(RuleList::VulnerabilityMitigation),
        of(RuleList::AttackProtection)
    )
}

#[test]
fn every_rule_for_apparmor_adds_to_the_text() {
    let nothing = compiled(&enhance("")).text;
    for rule in held() {
        let artefact = compiled(&enhance(&fields(&[rule.id], "")));
        assert_ne!(artefact.text, nothing, "{}", rule.id);
        assert_eq!(artefact.unsupported, [], "{}", rule.id);
    }
}

#[test]
fn every_rule_for_apparmor_is_tried_in_guests() {
    for rule in held() {
        let entry = format!("\"{}\",", rule.id);
        assert!(
            TABLES.iter().any(|table| table.contains(&entry)),
            "`{}` has no entry in xtask/src/bin/guest/apparmor: say what it forbids and what it must leave alone",
            rule.id
        );
    }
}

/// What the guests try in containers beyond that.
const MORE: &str = include_str!("../../../../../xtask/src/bin/guest/rules/table.rs");

#[test]
fn every_rule_is_tried_in_containers() {
    for rule in rules::catalogue() {
        let entry = format!("\"{}\"", rule.id);
        assert!(
            TABLES.iter().chain([&MORE]).any(|table| table.contains(&entry)),
            "`{}` has no entry in xtask/src/bin/guest/{{apparmor,rules}}: say what it forbids and what it must leave alone",
            rule.id
        );
    }
}

//! Built-in rules in policies.

use super::{GOOD, said};
use crate::rules::{self, RuleList};

#[test]
fn every_rule_and_alias_is_accepted_in_its_list_in_any_spelling() {
    for rule in rules::catalogue() {
        for id in std::iter::once(rule.id).chain(rule.aliases.iter().copied()) {
            for id in [id.to_owned(), id.to_uppercase().replace('-', "_")] {
                let text = match rule.category.list() {
                    RuleList::Hardening => GOOD.replace("disallow-umount", &id),
                    RuleList::AttackProtection => GOOD.replace("disable-write-etc", &id),
                    RuleList::VulnerabilityMitigation => GOOD.replace(
                        "      bpfRawRules:",
                        &format!("      vulMitigationRules: [{id}]\n      bpfRawRules:"),
                    ),
                };
                assert_eq!(said(text), [""; 0], "{id}");
            }
        }
    }
}

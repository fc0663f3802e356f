//! Policies as text, with as many rules as a bench asks for.

use std::fmt::Write as _;

use varmor_common::policy::{self, Document, Enforcers};
use varmor_common::rules::{RuleList, catalogue};

/// How rules are written for one enforcer.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    pub name: &'static str,
    pub enforcer: Enforcers,
    /// What stands before the rules.
    head: &'static str,
    /// The line of rule n.
    rule: fn(u32) -> String,
}

/// The three enforcers, each with rules that differ in one number.
pub const LANGUAGES: &[Language] = &[
    Language {
        name: "bpf",
        enforcer: Enforcers::BPF,
        head: "      bpfRawRules:\n        files:\n",
        rule: |n| {
            format!(
                "        - {{qualifiers: [deny], pattern: \"/srv/tenant{n}/**\", permissions: [read, write]}}\n"
            )
        },
    },
    Language {
        name: "apparmor",
        enforcer: Enforcers::APPARMOR,
        head: "      appArmorRawRules:\n",
        rule: |n| format!("      - {{rules: \"deny /srv/tenant{n}/** rw,\"}}\n"),
    },
    Language {
        name: "seccomp",
        enforcer: Enforcers::SECCOMP,
        head: "      syscallRawRules:\n",
        rule: |n| {
            format!(
                "      - {{names: [ioctl], action: SCMP_ACT_ERRNO, args: [{{index: 2, value: {n}, op: SCMP_CMP_EQ}}]}}\n"
            )
        },
    },
];

/// How rules are written for this enforcer.
///
/// # Panics
/// If it is not one of the three.
#[must_use]
pub fn language(enforcer: Enforcers) -> &'static Language {
    let language = LANGUAGES.iter().find(|language| language.enforcer == enforcer);
    language.expect("BPF, AppArmor and Seccomp have rules")
}

/// A policy of `count` raw rules.
#[must_use]
pub fn numbered(language: &Language, count: u32) -> String {
    let mut text = head(language.enforcer);
    text.push_str(language.head);
    text.extend((0..count).map(language.rule));
    text
}

/// A policy of every built-in rule that the enforcer holds.
#[must_use]
pub fn built_in(language: &Language) -> String {
    let mut text = head(language.enforcer);
    for list in [
        RuleList::Hardening,
        RuleList::AttackProtection,
        RuleList::VulnerabilityMitigation,
    ] {
        let held = catalogue()
            .filter(|rule| rule.category.list() == list && rule.enforcers.contains(language.enforcer));
        let ids = held.map(|rule| rule.id).collect::<Vec<_>>().join(", ");
        let rules = if list == RuleList::AttackProtection {
            format!("[{{rules: [{ids}]}}]")
        } else {
            format!("[{ids}]")
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "      {list}: {rules}");
    }
    text
}

/// The policy of workload `number` in a fleet where no two have the same rules: five built-in ones and four of its own.
#[must_use]
pub fn of_fleet(number: u32) -> String {
    let some_of = |list: RuleList, count: usize| {
        let held: Vec<&str> = catalogue()
            .filter(|rule| rule.category.list() == list && rule.enforcers.contains(Enforcers::BPF))
            .map(|rule| rule.id)
            .collect();
        let chosen = held.iter().cycle().skip(number as usize % held.len()).take(count);
        chosen.copied().collect::<Vec<_>>().join(", ")
    };
    let (hardening, attacks) = (
        some_of(RuleList::Hardening, 2),
        some_of(RuleList::AttackProtection, 3),
    );
    let (high, low) = (number / 256 % 256, number % 256);
    let text = head(Enforcers::BPF).replace("name: bench", &format!("name: bench-{number}"));
    format!(
        "{text}      hardeningRules: [{hardening}]\n      attackProtectionRules: [{{rules: [{attacks}]}}]\n      bpfRawRules:\n        \
         files:\n        - {{qualifiers: [deny], pattern: \"/srv/app-{number}/**\", permissions: [write]}}\n        \
         - {{qualifiers: [deny], pattern: \"/etc/app-{number}/*.key\", permissions: [read]}}\n        \
         processes:\n        - {{qualifiers: [deny], pattern: \"/**/tool-{number}\", permissions: [exec]}}\n        \
         network:\n          egress:\n            toDestinations:\n            \
         - {{qualifiers: [deny], cidr: 10.{high}.{low}.0/24, ports: [{{port: 443}}]}}\n"
    )
}

/// How many built-in rules the enforcer holds.
#[must_use]
pub fn built_in_count(language: &Language) -> usize {
    catalogue()
        .filter(|rule| rule.enforcers.contains(language.enforcer))
        .count()
}

/// The one policy of a text.
///
/// # Panics
/// If the text is not valid.
#[must_use]
pub fn document(text: &str) -> Document {
    let loaded = policy::load("bench.yaml", text.as_bytes());
    let problems: Vec<String> = loaded.diagnostics.iter().map(policy::render).collect();
    let [document] = &loaded.documents[..] else {
        panic!("the policy is not valid: {}", problems.join("\n"));
    };
    document.clone()
}

fn head(enforcer: Enforcers) -> String {
    format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {{name: bench, namespace: demo}}\nspec:\n  \
         target: {{kind: Deployment, name: bench}}\n  policy:\n    enforcer: {enforcer}\n    mode: EnhanceProtect\n    \
         enhanceProtect:\n"
    )
}

#[cfg(test)]
mod tests {
    use super::{LANGUAGES, built_in, built_in_count, document, numbered};

    #[test]
    fn numbered_policies_have_as_many_rules_as_asked_for() {
        for language in LANGUAGES {
            for count in [1, 100] {
                let document = document(&numbered(language, count));
                let rules = document
                    .spec()
                    .and_then(|spec| spec.policy.enhance_protect.clone());
                let rules = rules.expect("the policy has rules");
                let files = rules.bpf_raw_rules.map_or(0, |rules| rules.files.len());
                let all = files + rules.app_armor_raw_rules.len() + rules.syscall_raw_rules.len();
                assert_eq!(u32::try_from(all), Ok(count), "{}", language.name);
            }
        }
    }

    #[test]
    fn policies_of_built_in_rules_name_every_rule_of_the_enforcer() {
        for language in LANGUAGES {
            let document = document(&built_in(language));
            let rules = document
                .spec()
                .and_then(|spec| spec.policy.enhance_protect.clone());
            let rules = rules.expect("the policy has rules");
            let named = rules.hardening_rules.len()
                + rules.attack_protection_rules[0].rules.len()
                + rules.vul_mitigation_rules.len();
            assert_eq!(named, built_in_count(language), "{}", language.name);
            assert!(named > 0, "{}", language.name);
        }
    }
}

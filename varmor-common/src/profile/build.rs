//! Policy -> profile, for the enforcers that the policy names.

use super::{
    NodeFacts, Origin, Profile, ProfileMode, Rule, Verdict, allow_list, apparmor, builtin, profile_name, raw,
};
use crate::abi::MAX_TARGETS;
use crate::compile::seccomp::{self, Inputs};
use crate::policy::{
    DefenseInDepth, Diagnostic, Document, DynamicResult, EgressAddress, EgressAddresses, EgressPeer,
    Enforcers, EnhanceProtect, Policy, PolicyMode, Severity, item,
};
use crate::rules::{RUNTIME_DEFAULT, RUNTIME_DEFAULT_ID};

/// What a policy means, and what of it its enforcers cannot hold.
#[derive(Clone, Debug)]
pub struct Built {
    /// None if and only if there is an error among the diagnostics.
    pub profile: Option<Profile>,
    /// Parts of the policy that have no effect, and why.
    pub diagnostics: Vec<Diagnostic>,
}

/// What the policy in `document` means on a node.
#[must_use]
pub fn build(document: &Document, facts: &NodeFacts) -> Built {
    build_with(document, facts, Inputs::default())
}

/// What only a cluster knows of a policy.
#[derive(Clone, Copy, Debug)]
pub struct ClusterFacts<'d> {
    /// Name of the profile, which need not be [`profile_name`].
    pub profile_name: &'d str,
    /// The addresses behind Services and Pods.
    pub egress: &'d [EgressAddresses],
}

/// The same with what was recorded of the workload, for filters that are made of it.
#[must_use]
pub fn build_with<'d>(document: &'d Document, facts: &'d NodeFacts, inputs: Inputs<'d>) -> Built {
    build_in(None, document, facts, inputs)
}

/// The same with what the cluster knows, if there is one.
#[must_use]
pub fn build_in<'d>(
    cluster: Option<ClusterFacts<'d>>,
    document: &'d Document,
    facts: &'d NodeFacts,
    inputs: Inputs<'d>,
) -> Built {
    let name = cluster.map_or_else(
        || profile_name(document.namespace(), document.name()),
        |cluster| cluster.profile_name.to_owned(),
    );
    let mut builder = Builder {
        document,
        facts,
        egress: cluster.map(|cluster| cluster.egress),
        profile: Profile {
            name,
            ..Profile::default()
        },
        diagnostics: Vec::new(),
        enforcers: Enforcers::NONE,
        executables: Vec::new(),
        allow_list: false,
        model: inputs.model,
    };
    if let Some(spec) = document.spec() {
        builder.policy(&spec.policy);
        if spec.policy.enforcer.contains(Enforcers::SECCOMP) {
            builder.seccomp(inputs);
        }
    } else {
        let message = format!("an object of kind {} is not a policy", document.kind());
        let help = "it is written by the controller; write a VarmorPolicy or a VarmorClusterPolicy";
        builder.report(Severity::Error, "kind", message, help);
    }
    let failed = builder.diagnostics.iter().any(Diagnostic::is_error);
    Built {
        profile: (!failed).then_some(builder.profile),
        diagnostics: builder.diagnostics,
    }
}

/// A profile while it is built.
pub(super) struct Builder<'d> {
    pub(super) document: &'d Document,
    pub(super) facts: &'d NodeFacts,
    /// The addresses behind Services and Pods; `None` outside of a cluster.
    pub(super) egress: Option<&'d [EgressAddresses]>,
    pub(super) profile: Profile,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// That the policy names.
    pub(super) enforcers: Enforcers,
    /// The executables that the rules are for; empty = all.
    pub(super) executables: Vec<String>,
    /// Raw rules allow unless they say otherwise.
    pub(super) allow_list: bool,
    /// What was recorded of the workload.
    pub(super) model: Option<&'d DynamicResult>,
}

const POLICY: &str = "spec.policy";
const RULES: &str = "spec.policy.enhanceProtect";

impl<'d> Builder<'d> {
    fn policy(&mut self, policy: &Policy) {
        self.enforcers(policy.enforcer);
        match (policy.mode, &policy.enhance_protect) {
            (PolicyMode::AlwaysAllow, _) => {}
            (PolicyMode::RuntimeDefault, _) => self.runtime_default(Verdict::Deny),
            (PolicyMode::EnhanceProtect, Some(rules)) => self.enhance_protect(rules),
            (PolicyMode::EnhanceProtect, None) => {
                let message = "the mode EnhanceProtect needs the field `enhanceProtect`".to_owned();
                self.report(
                    Severity::Error,
                    "spec.policy.mode",
                    message,
                    "add `enhanceProtect:` below `spec.policy`",
                );
            }
            (PolicyMode::DefenseInDepth, _) => self.defense_in_depth(policy.defense_in_depth.as_ref()),
            (PolicyMode::BehaviorModeling, _) => self.behavior_modeling(),
        }
    }

    fn enforcers(&mut self, enforcers: Enforcers) {
        let field = "spec.policy.enforcer";
        self.enforcers = enforcers;
        self.profile.enforcers = enforcers;
        if enforcers.contains(Enforcers::APPARMOR) {
            self.profile.app_armor = Some(apparmor::AppArmorPart::default());
        }
        if enforcers.without(Enforcers::NETWORK_PROXY).is_empty() {
            let message = format!("the enforcer {enforcers} is not supported yet");
            let help = "add AppArmor, BPF or Seccomp to `enforcer`";
            self.report(Severity::Error, field, message, help);
        } else if enforcers.contains(Enforcers::NETWORK_PROXY) {
            let message =
                "the enforcer NetworkProxy is not supported yet: its part of the policy has no effect";
            let help = "what the other enforcers can hold is enforced";
            self.report(Severity::Warning, field, message.to_owned(), help);
        }
    }

    /// The filter, and what its compiler has to say, unless it is said already.
    fn seccomp(&mut self, inputs: Inputs<'_>) {
        let compiled = seccomp::compile(self.document, inputs);
        for diagnostic in compiled.diagnostics {
            if !self.diagnostics.contains(&diagnostic) {
                self.diagnostics.push(diagnostic);
            }
        }
        self.profile.seccomp.extend(compiled.profile);
    }

    /// The policy's enforcers that hold rules of the profile; Seccomp has a compiler of its own.
    pub(super) fn labels(&self) -> Enforcers {
        self.enforcers.and(Enforcers::APPARMOR.union(Enforcers::BPF))
    }

    fn defense_in_depth(&mut self, defense: Option<&DefenseInDepth>) {
        if self.enforcers.contains(Enforcers::BPF) {
            allow_list::add(self, defense);
        }
        if self.enforcers.contains(Enforcers::APPARMOR) {
            apparmor::add_allow_list(self, defense);
        }
        if defense.is_some_and(|defense| defense.allow_violations) {
            self.profile.mode = ProfileMode::Complain;
        }
    }

    /// Recording is a complaining allow-list that allows nothing: whatever the workload does is logged.
    fn behavior_modeling(&mut self) {
        if self.enforcers.contains(Enforcers::BPF) {
            self.profile.mode = ProfileMode::Complain;
            allow_list::add_empty(self, "spec.policy.mode");
        } else if !self.labels().is_empty() {
            // AppArmor's own log would have to be read; the BPF enforcer sees the same and more.
            let message =
                "the mode BehaviorModeling records through the BPF enforcer, which the policy does not name";
            let help = "add BPF to `enforcer`; the model holds for every enforcer";
            self.report(Severity::Error, "spec.policy.mode", message.to_owned(), help);
        }
    }

    fn enhance_protect(&mut self, rules: &EnhanceProtect) {
        let verdict = verdict(rules);
        if let Some(verdict) = verdict {
            if !rules.privileged {
                self.runtime_default(verdict);
            }
            self.built_in(rules, verdict);
        } else if !self.labels().is_empty() {
            let mut message =
                "violations of built-in rules are neither refused nor logged: the rules have no effect"
                    .to_owned();
            if self.enforcers.contains(Enforcers::SECCOMP) {
                // A filter has no third answer: what it does not refuse there, it logs.
                message.push_str(" but in the filter of Seccomp, which logs");
            }
            let field = format!("{RULES}.allowViolations");
            self.report(
                Severity::Warning,
                &field,
                message,
                "add `auditViolations: true` to log them",
            );
        }
        if let Some(bpf) = &rules.bpf_raw_rules
            && self.enforcers.contains(Enforcers::BPF)
        {
            raw::add(self, bpf, &format!("{RULES}.bpfRawRules"));
        }
        if self.enforcers.contains(Enforcers::APPARMOR) {
            apparmor::add_raw(
                self,
                &rules.app_armor_raw_rules,
                &format!("{RULES}.appArmorRawRules"),
            );
        }
        self.foreign_rules(rules);
    }

    fn built_in(&mut self, rules: &EnhanceProtect, verdict: Verdict) {
        let list = |builder: &mut Self, field: String, ids: &[String]| {
            for (index, id) in ids.iter().enumerate() {
                builtin::add(builder, id, &item(&field, index), verdict);
            }
        };
        list(self, format!("{RULES}.hardeningRules"), &rules.hardening_rules);
        list(
            self,
            format!("{RULES}.vulMitigationRules"),
            &rules.vul_mitigation_rules,
        );
        for (index, entry) in rules.attack_protection_rules.iter().enumerate() {
            let field = item(&format!("{RULES}.attackProtectionRules"), index);
            self.for_executables(&entry.targets, &format!("{field}.targets"));
            list(self, format!("{field}.rules"), &entry.rules);
            self.executables.clear();
        }
    }

    /// What is added from now on is for these executables only.
    pub(super) fn for_executables(&mut self, targets: &[String], field: &str) {
        if targets.is_empty() {
            return;
        }
        targets.clone_into(&mut self.executables);
        self.profile.add_target(targets.to_vec(), []);
        if self.profile.targets.len() > MAX_TARGETS {
            let message = format!("these are more than {MAX_TARGETS} different lists of `targets`");
            let help = "give more rules the same targets, or the whole container";
            self.report(Severity::Error, field, message, help);
        }
    }

    /// Rules in the languages of enforcers that the policy does not name.
    fn foreign_rules(&mut self, rules: &EnhanceProtect) {
        for (present, field, enforcer) in [
            (
                !rules.app_armor_raw_rules.is_empty(),
                "appArmorRawRules",
                Enforcers::APPARMOR,
            ),
            (rules.bpf_raw_rules.is_some(), "bpfRawRules", Enforcers::BPF),
            (
                !rules.syscall_raw_rules.is_empty(),
                "syscallRawRules",
                Enforcers::SECCOMP,
            ),
            (
                rules.network_proxy_raw_rules.is_some(),
                "networkProxyRawRules",
                Enforcers::NETWORK_PROXY,
            ),
        ] {
            if present && !self.enforcers.contains(enforcer) {
                let message = format!(
                    "`{field}` are rules of the enforcer {enforcer}, which the policy does not name: they have no effect"
                );
                let help = format!("add {enforcer} to `enforcer`");
                self.report(Severity::Warning, &format!("{RULES}.{field}"), message, &help);
            }
        }
    }

    fn runtime_default(&mut self, verdict: Verdict) {
        let labels = self.labels();
        if let Some(own) = &mut self.profile.app_armor
            && verdict == Verdict::Deny
        {
            own.base = apparmor::AppArmorBase::RuntimeDefault;
        }
        if labels.is_empty() {
            return;
        }
        for contribution in RUNTIME_DEFAULT {
            builtin::contribute(
                self,
                contribution,
                RUNTIME_DEFAULT_ID,
                &format!("{POLICY}.mode"),
                verdict,
                labels,
            );
        }
    }

    pub(super) fn push(
        &mut self,
        id: &str,
        field: &str,
        verdict: Verdict,
        object: super::Object,
        enforcers: Enforcers,
    ) {
        let origin = Origin {
            policy: self.document.identity(),
            field: field.to_owned(),
        };
        let rule = Rule {
            id: id.to_owned(),
            origin,
            verdict,
            object,
            enforcers,
        };
        if self.executables.is_empty() {
            self.profile.rules.push(rule);
        } else {
            self.profile.add_target(self.executables.clone(), [rule]);
        }
    }

    /// The addresses of a peer; `None` outside of a cluster. A peer that the controller has not resolved (it is newer than
    /// the object that names it) has no address yet.
    pub(super) fn addresses(&self, peer: &EgressPeer) -> Option<&'d [EgressAddress]> {
        let known = self.egress?.iter().find(|known| known.peer == *peer);
        Some(known.map_or(&[], |known| &known.destinations))
    }

    pub(super) fn report(&mut self, severity: Severity, field: &str, message: String, help: &str) {
        self.diagnostics
            .push(self.document.diagnostic(severity, field, message, help));
    }
}

/// What the switches make of built-in rules; nothing if they neither refuse nor log.
fn verdict(rules: &EnhanceProtect) -> Option<Verdict> {
    match (rules.allow_violations, rules.audit_violations) {
        (false, _) => Some(Verdict::Deny),
        (true, true) => Some(Verdict::Audit),
        (true, false) => None,
    }
}

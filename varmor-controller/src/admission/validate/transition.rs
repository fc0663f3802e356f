//! What must not change in a policy that exists.

use serde_json::Value;
use varmor_common::policy::{Enforcers, Phase, PolicyMode, Target};

/// The parts of a policy that the rules are about; what cannot be read is refused elsewhere.
struct Version {
    target: Option<Target>,
    enforcers: Enforcers,
    mode: Option<PolicyMode>,
}

impl Version {
    fn read(spec: &Value) -> Self {
        let field = |pointer: &str| spec.pointer(pointer).cloned().unwrap_or_default();
        Self {
            target: serde_json::from_value(field("/target")).ok(),
            enforcers: serde_json::from_value(field("/policy/enforcer")).unwrap_or(Enforcers::NONE),
            mode: serde_json::from_value(field("/policy/mode")).ok(),
        }
    }
}

/// Why the object `old` cannot become `new`.
pub(super) fn refusals(old: &Value, new: &Value) -> Vec<String> {
    let phase = old.pointer("/status/phase").cloned().unwrap_or_default();
    between(
        &old["spec"],
        &new["spec"],
        serde_json::from_value(phase).unwrap_or_default(),
    )
}

/// Why a policy with the `spec` of `old`, which is in this phase, cannot have that of `new`.
pub(crate) fn between(old: &Value, new: &Value, phase: Option<Phase>) -> Vec<String> {
    let (before, after) = (Version::read(old), Version::read(new));
    let modeling = phase == Some(Phase::Modeling) && before.mode == Some(PolicyMode::BehaviorModeling);
    let mut refusals = Vec::new();
    if before.target.is_some() && before.target != after.target {
        refusals.push(
            "spec.target: the target of a policy is immutable; delete the policy and create another one"
                .to_owned(),
        );
    }
    if modeling && after.mode != Some(PolicyMode::BehaviorModeling) {
        refusals.push(
            "spec.policy.mode: the behaviour of the workloads is being recorded; wait until status.phase is Completed, \
             shorten modelingOptions.duration, or delete the policy"
                .to_owned(),
        );
    } else if modeling && after.enforcers != before.enforcers {
        refusals.push(
            "spec.policy.enforcer: the enforcers cannot change while the behaviour of the workloads is recorded; wait \
             until status.phase is Completed"
                .to_owned(),
        );
    }
    // Pods that run name these profiles; without them they could not be started again.
    let fixed = Enforcers::APPARMOR.union(Enforcers::SECCOMP);
    let removed = before.enforcers.without(after.enforcers).and(fixed);
    if !removed.is_empty() && !after.enforcers.is_empty() {
        let names: Vec<&str> = removed.names().collect();
        refusals.push(format!(
            "spec.policy.enforcer: {} cannot be removed from a policy, because running pods name its profile; keep {}, or \
             delete the policy and create another one",
            names.join(" and "),
            before.enforcers
        ));
    }
    refusals
}

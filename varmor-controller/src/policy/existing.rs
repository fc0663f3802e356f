//! The workloads that are there when a policy comes or goes: when they are rolled.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use varmor_common::policy::{ArmorProfileSpec, Enforcers};

use super::apply;
use super::desired::ROLLED;
use super::reconcile::{Error, api};
use crate::context::Context;
use crate::object::{Policy, PolicyKey, ProfileKey};
use crate::workload::{self, Cause, WorkloadKey};

/// Existing workloads are rolled when every node has the profile, so that their new pods find it; but a node that never
/// answers does not put it off for ever.
const ROLL_AT_LATEST: Duration = Duration::from_mins(1);

/// How often it is looked whether workloads can be rolled.
const ROLL_LOOK: Duration = Duration::from_secs(2);

/// Rolls the workloads that were there before the policy, once.
pub(super) async fn roll_existing(
    context: &Context,
    policy: &Policy,
    key: &ProfileKey,
    spec: &ArmorProfileSpec,
) -> Result<Option<Duration>, Error> {
    if !spec.update_existing_workloads || !is_restart_needed(spec) {
        return Ok(None);
    }
    let profile = context.world().profile(key).cloned();
    let Some(profile) = profile.filter(|one| one.annotations.get(ROLLED) != Some(&policy.uid)) else {
        return Ok(None);
    };
    let age = profile
        .created
        .map(|created| Timestamp::now().duration_since(created));
    let is_late = age.is_some_and(|age| age.as_secs() >= ROLL_AT_LATEST.as_secs().cast_signed());
    if !is_late && !context.is_everywhere(&profile) {
        return Ok(Some(ROLL_LOOK));
    }
    let refused = roll(context, &policy.key, spec, &Cause::Created.mark(&policy.uid)).await?;
    if !refused.is_empty() {
        return Err(Error::NotRolled(refused.join("; ")));
    }
    let marked = apply::mark_rolled(&context.client, key, &policy.uid).await;
    if let Some(marked) = marked.map_err(api(format!(
        "remember on the ArmorProfile {key} that workloads are rolled"
    )))? {
        context.world().set_profile(marked);
    }
    Ok(None)
}

/// Answers which workloads the API server would not change.
pub(super) async fn roll(
    context: &Context,
    key: &PolicyKey,
    spec: &ArmorProfileSpec,
    mark: &str,
) -> Result<Vec<String>, Error> {
    let Some(kind) = workload::kind_name(spec.target.kind) else {
        return Ok(Vec::new());
    };
    let pods = context
        .world()
        .workloads_of(key, &spec.target)
        .unwrap_or_default();
    let keys: Vec<WorkloadKey> = pods
        .into_iter()
        .map(|one| WorkloadKey {
            kind,
            namespace: one.namespace,
            name: one.name,
        })
        .collect();
    let rolled = workload::roll(&context.client, &keys, mark, &context.settings.match_label).await;
    let rolled = rolled.map_err(api(format!("roll the workloads of {key}")))?;
    if rolled.count > 0 {
        tracing::info!(policy = %key, workloads = rolled.count, mark, "workloads are rolled");
    }
    Ok(rolled.refused)
}

/// BPF takes and releases pods that run; what the runtime sets up at the start of a container needs a new one.
pub(super) fn is_restart_needed(spec: &ArmorProfileSpec) -> bool {
    let enforcers: Enforcers = spec.profile.enforcer.parse().unwrap_or_default();
    let restart = Enforcers::APPARMOR
        .union(Enforcers::SECCOMP)
        .union(Enforcers::NETWORK_PROXY);
    !enforcers.and(restart).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Wish, tests as objects};
    use crate::policy::desired::{Facts, spec};

    #[test]
    fn only_what_the_runtime_sets_up_needs_a_restart() {
        for (enforcer, expected) in [("BPF", false), ("AppArmor", true), ("BPFSeccomp", true)] {
            let policy = objects::policy(Some("demo"), "web", "u1", &objects::spec(enforcer));
            let wish = Wish::read(&policy.key, &objects::spec(enforcer)).unwrap();
            let spec = spec(
                &policy.key,
                1,
                serde_json::json!({}),
                &wish,
                "varmor-demo-web",
                Facts::default(),
            );
            assert_eq!(is_restart_needed(&spec), expected, "{enforcer}");
        }
    }
}

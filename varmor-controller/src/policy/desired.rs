//! What the `ArmorProfile` of a policy should be. No IO.

use std::collections::BTreeMap;

use kube::core::Resource as _;
use serde_json::{Value, json};
use varmor_common::policy::{
    ArmorProfile, ArmorProfileSpec, BehaviorModeling, EgressAddresses, NodeProfile, NodeProfileMode,
    Policy as Rules, PolicyMode, PolicySource, ProfileType, WorkloadPods,
};

use crate::object::{API_VERSION, Policy, PolicyKey, Profile, Wish};

/// Keeps an `ArmorProfile` until its policy is really gone. The name is vArmor's.
pub const FINALIZER: &str = "varmor.org/ap-protection";

/// On the `ArmorProfile`: uid of the policy for which the existing workloads have been rolled.
pub const ROLLED: &str = "controller.varmor.org/rolled";

/// Everything that only the cluster knows about a policy.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub model: Option<Value>,
    pub workloads: Option<Vec<WorkloadPods>>,
    pub egress: Vec<EgressAddresses>,
}

/// The `spec` of the `ArmorProfile`.
#[must_use]
pub fn spec(
    key: &PolicyKey,
    generation: i64,
    text: Value,
    wish: &Wish,
    profile_name: &str,
    facts: Facts,
) -> ArmorProfileSpec {
    let rules = &wish.spec.policy;
    ArmorProfileSpec {
        target: wish.spec.target.clone(),
        profile: NodeProfile {
            name: profile_name.to_owned(),
            enforcer: rules.enforcer.to_string(),
            mode: mode(rules),
            app_armor: None,
            bpf: None,
            seccomp: None,
        },
        behavior_modeling: (rules.mode == PolicyMode::BehaviorModeling).then(|| BehaviorModeling {
            enable: true,
            duration: rules
                .modeling_options
                .as_ref()
                .map_or(0, |options| options.duration),
        }),
        update_existing_workloads: wish.spec.update_existing_workloads,
        policy: Some(PolicySource {
            kind: key.kind().to_owned(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            generation,
            spec: text,
            model: facts.model,
        }),
        workloads: facts.workloads,
        egress: facts.egress,
    }
}

/// The whole object for server-side apply.
#[must_use]
pub fn apply_object(
    policy: &Policy,
    known: Option<&Profile>,
    namespace: &str,
    spec: &ArmorProfileSpec,
) -> Value {
    let mut metadata = json!({
        "name": spec.profile.name,
        "namespace": namespace,
        "labels": policy.labels,
        "ownerReferences": [owner(policy)],
        "finalizers": [FINALIZER],
    });
    // Another object of the same name is not ours to change: the API server answers with a conflict.
    if let Some(known) = known {
        metadata["uid"] = json!(known.uid);
    }
    json!({
        "apiVersion": ArmorProfile::api_version(&()),
        "kind": ArmorProfile::kind(&()),
        "metadata": metadata,
        "spec": spec,
    })
}

/// Whether the `ArmorProfile` is as it should be, so that nothing has to be written.
#[must_use]
pub fn is_current(policy: &Policy, known: &Profile, spec: &ArmorProfileSpec) -> bool {
    let has = |labels: &BTreeMap<String, String>| policy.labels == *labels;
    known.owner_uid() == Some(policy.uid.as_str())
        && known.finalizers.iter().any(|one| one == FINALIZER)
        && has(&known.labels)
        && serde_json::from_str::<Value>(&known.spec).ok() == serde_json::to_value(spec).ok()
}

/// Whether the policy asks for what was recorded of its workload.
#[must_use]
pub fn needs_model(rules: &Rules) -> bool {
    let Some(lists) = rules
        .defense_in_depth
        .as_ref()
        .filter(|_| rules.mode == PolicyMode::DefenseInDepth)
    else {
        return false;
    };
    let kinds = [
        lists.app_armor.as_ref().map(|list| list.profile_type),
        lists.bpf.as_ref().map(|list| list.profile_type),
        lists.seccomp.as_ref().map(|list| list.profile_type),
    ];
    kinds.contains(&Some(ProfileType::BehaviorModel))
}

fn mode(rules: &Rules) -> NodeProfileMode {
    let is_lenient = match rules.mode {
        PolicyMode::BehaviorModeling => true,
        PolicyMode::DefenseInDepth => rules
            .defense_in_depth
            .as_ref()
            .is_some_and(|lists| lists.allow_violations),
        _ => false,
    };
    if is_lenient {
        NodeProfileMode::Complain
    } else {
        NodeProfileMode::Enforce
    }
}

fn owner(policy: &Policy) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": policy.key.kind(),
        "name": policy.key.name,
        "uid": policy.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::tests as objects;

    fn made(policy: &Policy) -> ArmorProfileSpec {
        let text: Value = serde_json::from_str(&policy.spec).unwrap();
        let wish = Wish::read(&policy.key, &text).unwrap();
        spec(
            &policy.key,
            policy.generation,
            text,
            &wish,
            "varmor-demo-web",
            Facts::default(),
        )
    }

    fn stored(object: &Value) -> Profile {
        Profile::read(serde_json::from_value(object.clone()).unwrap()).unwrap()
    }

    #[test]
    fn a_profile_carries_its_policy_word_for_word() {
        let policy = objects::policy(Some("demo"), "web", "u1", &objects::spec("bpf,apparmor"));
        let spec = made(&policy);
        let source = spec.policy.as_ref().unwrap();
        assert_eq!(source.spec["policy"]["enforcer"], "bpf,apparmor");
        assert_eq!(spec.profile.enforcer, "AppArmorBPF");
        assert_eq!((source.kind.as_str(), source.generation), ("VarmorPolicy", 1));
    }

    #[test]
    fn nothing_is_written_twice() {
        let policy = objects::policy(Some("demo"), "web", "u1", &objects::spec("BPF"));
        let spec = made(&policy);
        let object = apply_object(&policy, None, "demo", &spec);
        let known = stored(&object);
        assert!(is_current(&policy, &known, &spec));
        assert_eq!(known.owner_uid(), Some("u1"));
        let mut other = policy.clone();
        other.labels.clear();
        assert!(!is_current(&other, &known, &spec), "labels are copied");
        let mut other = policy.clone();
        other.uid = "u2".to_owned();
        assert!(
            !is_current(&other, &known, &spec),
            "a new policy of the same name owns it"
        );
        let mut bare = object;
        bare["metadata"]["finalizers"] = json!([]);
        assert!(
            !is_current(&policy, &stored(&bare), &spec),
            "the finalizer is put back"
        );
    }

    #[test]
    fn learning_and_lenient_lists_complain() {
        let mut text = objects::spec("BPF");
        text["policy"] =
            json!({"enforcer": "BPF", "mode": "BehaviorModeling", "modelingOptions": {"duration": 5}});
        let spec = made(&objects::policy(Some("demo"), "web", "u1", &text));
        assert_eq!(spec.profile.mode, NodeProfileMode::Complain);
        assert_eq!(
            spec.behavior_modeling,
            Some(BehaviorModeling {
                enable: true,
                duration: 5
            })
        );
        let strict = made(&objects::policy(Some("demo"), "web", "u1", &objects::spec("BPF")));
        assert_eq!(
            (strict.profile.mode, strict.behavior_modeling),
            (NodeProfileMode::Enforce, None)
        );
    }

    #[test]
    fn a_model_is_needed_only_where_a_list_comes_from_it() {
        let mut text = objects::spec("AppArmorSeccomp");
        text["policy"] = json!({"enforcer": "AppArmorSeccomp", "mode": "DefenseInDepth", "defenseInDepth": {
            "appArmor": {"profileType": "BehaviorModel"},
            "seccomp": {"profileType": "Custom", "customProfile": "{}"}}});
        let rules = |text: &Value| -> Rules { serde_json::from_value(text["policy"].clone()).unwrap() };
        assert!(needs_model(&rules(&text)));
        text["policy"]["mode"] = json!("RuntimeDefault");
        assert!(!needs_model(&rules(&text)));
    }
}

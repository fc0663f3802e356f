//! Good files: what comes out of them.

use super::super::{Object, load};
use super::GOOD;
use crate::policy::{Enforcers, PolicyMode, TargetKind};

#[test]
fn a_policy_is_read_into_its_types() {
    let loaded = load("web.yaml", GOOD.as_bytes());
    let [document] = &loaded.documents[..] else {
        panic!("one document, not {loaded:?}")
    };
    assert_eq!(document.identity(), "VarmorPolicy demo/web");
    let spec = document.spec().expect("a policy has a spec");
    assert_eq!(spec.target.kind, TargetKind::Pod);
    assert_eq!(spec.policy.enforcer, Enforcers::BPF);
    assert_eq!(spec.policy.mode, PolicyMode::EnhanceProtect);
    let rules = spec.policy.enhance_protect.as_ref().expect("given");
    let raw = rules.bpf_raw_rules.as_ref().expect("given");
    assert_eq!(raw.files[0].pattern, "/prot/**");
}

#[test]
fn fields_know_their_places() {
    let loaded = load("web.yaml", GOOD.as_bytes());
    let document = &loaded.documents[0];
    assert_eq!(document.position("spec.policy.mode"), (14, 11));
    assert_eq!(
        document.position("spec.policy.enhanceProtect.attackProtectionRules[0].rules[0]"),
        (18, 17)
    );
    assert_eq!(
        document.position("spec.policy.enhanceProtect.auditViolations"),
        (16, 7),
        "the nearest thing around it"
    );
    assert_eq!(document.line(), 1);
}

#[test]
fn a_file_may_hold_several_documents() {
    let cluster = GOOD
        .replace("VarmorPolicy", "VarmorClusterPolicy")
        .replace("  namespace: demo\n", "");
    let text = format!("\u{feff}---\n{GOOD}---\n# empty\n---\n{cluster}...\n");
    let loaded = load("all.yaml", text.as_bytes());
    assert_eq!(loaded.diagnostics, []);
    let names: Vec<String> = loaded
        .documents
        .iter()
        .map(super::super::Document::identity)
        .collect();
    assert_eq!(names, ["VarmorPolicy demo/web", "VarmorClusterPolicy web"]);
    assert_eq!(loaded.documents[0].line(), 2);
}

#[test]
fn a_policy_without_a_namespace_is_in_the_default_one() {
    let loaded = load("web.yaml", GOOD.replace("  namespace: demo\n", "").as_bytes());
    assert_eq!(loaded.documents[0].namespace(), Some("default"));
}

#[test]
fn json_is_yaml() {
    let loaded = load("web.yaml", GOOD.as_bytes());
    let Object::VarmorPolicy(policy) = &loaded.documents[0].object else {
        panic!("a policy")
    };
    let json = serde_json::to_string(policy).expect("a policy is JSON");
    let again = load("web.json", json.as_bytes());
    assert_eq!(again.diagnostics, []);
    assert_eq!(again.documents[0].object, loaded.documents[0].object);
}

#[test]
fn what_the_controller_writes_is_read_as_well() {
    let profile = "apiVersion: crd.varmor.org/v1beta1\nkind: ArmorProfile\nmetadata: {name: p, namespace: demo}\nspec:\n  \
                   target: {kind: Pod, name: web}\n  updateExistingWorkloads: false\n  profile: {name: p, enforcer: BPF, mode: \
                   enforce, bpf: {mounts: [{mode: 1, mountFlags: 4294967295, reverseMountflags: 0, pattern: {flags: 2}, fstype: \
                   proc}]}}\nstatus: {desiredNumberLoaded: 1, currentNumberLoaded: 1}\n";
    let model = "apiVersion: crd.varmor.org/v1beta1\nkind: ArmorProfileModel\nmetadata: {name: p, namespace: demo}\n\
                 storageType: CRDInternal\ndata: {dynamicResult: {seccomp: {syscalls: [read]}}}\n";
    let loaded = load("p.yaml", format!("{profile}---\n{model}").as_bytes());
    assert_eq!(loaded.diagnostics, []);
    let Object::ArmorProfileModel(model) = &loaded.documents[1].object else {
        panic!("a model")
    };
    let data = model.spec.data.as_ref().expect("given");
    assert_eq!(
        data.dynamic_result
            .as_ref()
            .and_then(|all| all.seccomp.as_ref())
            .expect("given")
            .syscalls,
        ["read"]
    );
}

#[test]
fn a_status_and_annotations_do_not_disturb() {
    let text = GOOD.replace(
        "  name: web\n",
        "  name: web\n  annotations: {a/b: c}\n  labels: {x: y}\n  creationTimestamp: null\n  managedFields: []\n",
    );
    let text = format!("{text}status: {{profileName: varmor-demo-web, ready: true, phase: Protecting}}\n");
    assert_eq!(load("web.yaml", text.as_bytes()).diagnostics, []);
}

//! Filters of users: an OCI profile as JSON (first byte even), or `syscallRawRules` (odd). What is accepted is a
//! profile that reads as itself and answers every question.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varmor_common::analysis::{Judge, Operation};
use varmor_common::compile::seccomp::{self, Inputs, OciSeccomp};
use varmor_common::policy;
use varmor_common::profile::{self, NodeFacts};

fuzz_target!(|data: &[u8]| {
    let Some((&head, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let policy = if head & 1 == 0 {
        let quoted = serde_json::to_string(text).expect("a text is JSON");
        format!("mode: DefenseInDepth, defenseInDepth: {{seccomp: {{profileType: Custom, customProfile: {quoted}}}}}")
    } else {
        format!("mode: EnhanceProtect, enhanceProtect: {{syscallRawRules: {text}\n  }}")
    };
    let text = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: x}}\nspec:\n  target: \
         {{kind: Pod, name: x}}\n  policy: {{enforcer: Seccomp, {policy}}}\n"
    );
    let loaded = policy::load("policy.yaml", text.as_bytes());
    for document in loaded.documents.iter().filter(|document| document.spec().is_some()) {
        let compiled = seccomp::compile(document, Inputs::default());
        let failed = compiled.diagnostics.iter().any(policy::Diagnostic::is_error);
        assert_eq!(compiled.profile.is_none(), failed);
        let Some(filter) = &compiled.profile else { continue };
        let again: OciSeccomp = serde_json::from_str(&filter.to_json()).expect("our own JSON is read");
        assert_eq!(&again, filter);
        let Some(meaning) = profile::build(document, &NodeFacts::default()).profile else { continue };
        let judge = Judge::new(meaning, vec![compiled]).expect("a policy without path rules compiles");
        for call in ["syscall read", "syscall unshare 0x10000000", "syscall clone3"] {
            let operation: Operation = call.parse().expect("valid");
            assert_eq!(judge.outcome(&operation, 0), judge.explain(&operation, 0).outcome);
        }
    }
});

//! Operations as words: reading them ends, what is read is written as itself, and a policy answers about it.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use varmor_common::analysis::{Judge, Operation};
use varmor_common::policy;
use varmor_common::profile::{self, NodeFacts};

const POLICY: &str = "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {name: x}\nspec:\n  \
    target: {kind: Pod, name: x}\n  policy:\n    enforcer: BPF\n    mode: EnhanceProtect\n    enhanceProtect:\n      \
    hardeningRules: [disallow-mount-procfs, disable-cap-privileged]\n      attackProtectionRules: [{rules: \
    [disable-shell, disable-inet6, disable-access-shadow]}]\n      bpfRawRules:\n        files: [{qualifiers: [deny], \
    pattern: '/a/**/*.{x,y}', permissions: [write]}]\n        network: {egress: {toDestinations: [{qualifiers: [deny], \
    cidr: '10.0.0.0/8', ports: [{port: 80, endPort: 90}]}]}}\n        mounts: [{qualifiers: [deny], sourcePattern: \
    '/b/*', fstype: none, flags: [bind]}]\n";

static JUDGE: LazyLock<Judge> = LazyLock::new(|| {
    let loaded = policy::load("policy.yaml", POLICY.as_bytes());
    let built = profile::build(&loaded.documents[0], &NodeFacts::default());
    Judge::new(built.profile.expect("the policy is valid"), Vec::new()).expect("it compiles")
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<Operation>() {
        Ok(operation) => {
            let written = operation.to_string();
            let again = written.parse::<Operation>();
            assert_eq!(again.as_ref(), Ok(&operation), "`{written}` of `{text}`");
            assert_eq!(JUDGE.outcome(&operation, 0), JUDGE.explain(&operation, 0).outcome);
        }
        Err(error) => assert!(!error.message.is_empty() && !error.help.is_empty(), "{error:?}"),
    }
});

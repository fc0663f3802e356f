//! Policy files: whatever the bytes are, something sensible is said about them, and what is accepted has a meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varmor_common::policy::{self, Diagnostic};
use varmor_common::profile::{self, NodeFacts};

fuzz_target!(|data: &[u8]| {
    let loaded = policy::load("policy.yaml", data);
    for diagnostic in &loaded.diagnostics {
        assert!(diagnostic.line > 0 && diagnostic.column > 0, "{diagnostic:?}");
        assert!(policy::render(diagnostic).starts_with("policy.yaml:"));
    }
    for document in loaded.documents.iter().filter(|document| document.spec().is_some()) {
        let built = profile::build(document, &NodeFacts::default());
        let failed = built.diagnostics.iter().any(Diagnostic::is_error);
        assert_eq!(built.profile.is_none(), failed);
    }
});

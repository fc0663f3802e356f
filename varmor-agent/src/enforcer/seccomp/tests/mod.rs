//! Filters as libseccomp makes them: asked in the interpreter, and loaded into real threads.

mod cases;
mod filters;
mod threads;

use varmor_common::compile::seccomp::{self, Inputs, OciSeccomp};
use varmor_common::policy;

/// A policy of every enforcer that ends with this text.
fn document(policy: &str) -> policy::Document {
    let text = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: x}}\nspec:\n  target: \
         {{kind: Pod, name: x}}\n  policy: {{enforcer: AppArmorBPFSeccomp, {policy}}}\n"
    );
    let loaded = policy::load("test.yaml", text.as_bytes());
    let first = loaded.documents.into_iter().next();
    first.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}

/// What it compiles to.
fn profile(policy: &str) -> OciSeccomp {
    let compiled = seccomp::compile(&document(policy), Inputs::default());
    compiled
        .profile
        .unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))
}

/// The filter of some built-in rules.
fn rules(ids: &[&str]) -> OciSeccomp {
    profile(&format!(
        "mode: EnhanceProtect, enhanceProtect: {{hardeningRules: [{}]}}",
        ids.join(", ")
    ))
}

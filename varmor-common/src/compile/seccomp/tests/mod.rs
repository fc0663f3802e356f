//! From policy text to filter.

mod contradictions;
mod modes;
mod raw;

use super::*;
use crate::policy::{Loaded, load};

/// A Seccomp policy whose `policy` ends with this text.
pub(super) fn document(policy: &str) -> Document {
    let text = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {{name: web, namespace: demo}}\nspec:\n  \
         target: {{kind: Deployment, name: web}}\n  policy:\n    enforcer: Seccomp\n{policy}"
    );
    let Loaded {
        documents,
        diagnostics,
    } = load("web.yaml", text.as_bytes());
    documents
        .into_iter()
        .next()
        .unwrap_or_else(|| panic!("{diagnostics:?}\n{text}"))
}

pub(super) fn enhanced(rules: &str) -> Compiled {
    let text = format!("    mode: EnhanceProtect\n    enhanceProtect:\n{rules}");
    compile(&document(&text), Inputs::default())
}

/// A filter without anything to say about it.
pub(super) fn clean(compiled: Compiled) -> OciSeccomp {
    assert_eq!(compiled.diagnostics, [], "{:?}", compiled.diagnostics);
    compiled.profile.expect("no error")
}

/// The one diagnostic: line, column, message, help.
pub(super) fn only(compiled: &Compiled) -> (u32, u32, &str, &str) {
    let [one] = &compiled.diagnostics[..] else {
        panic!("{:?}", compiled.diagnostics)
    };
    (
        one.line,
        one.column,
        &one.message,
        one.help.as_deref().unwrap_or_default(),
    )
}

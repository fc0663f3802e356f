//! What `load` says about good, bad and hostile files.

mod arbitrary;
mod broken;
mod catalogue;
mod hostile;
mod valid;

use super::load;
use crate::policy::render;

/// A policy without a fault; tests change one of its lines.
pub(crate) const GOOD: &str = "\
apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata:
  name: web
  namespace: demo
spec:
  target:
    kind: Pod
    selector:
      matchLabels:
        app: web
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      hardeningRules: [disallow-umount]
      attackProtectionRules:
      - rules: [disable-write-etc]
      bpfRawRules:
        files:
        - qualifiers: [deny]
          pattern: /prot/**
          permissions: [read]
        network:
          egress:
            toDestinations:
            - qualifiers: [deny]
              ip: 10.0.0.1
              ports:
              - port: 80
";

/// Everything that is said about a file.
fn said(text: impl AsRef<[u8]>) -> Vec<String> {
    load("web.yaml", text.as_ref())
        .diagnostics
        .iter()
        .map(render)
        .collect()
}

/// What is said about the good policy with `from` replaced by `to`.
fn said_with(from: &str, to: &str) -> Vec<String> {
    assert_eq!(
        GOOD.matches(from).count(),
        1,
        "{from:?} must stand once in the good policy"
    );
    said(GOOD.replace(from, to))
}

/// Checks that exactly this is said about the good policy with `from` replaced by `to`.
fn check(from: &str, to: &str, expected: &[&str]) {
    assert_eq!(said_with(from, to), expected, "{to}");
}

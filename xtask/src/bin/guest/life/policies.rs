//! The policies of these tests, as files.

use std::{fmt::Write, fs};

use anyhow::Result;

/// Two versions that both deny `/life/secret` and both allow `/life/open`, by different tables.
pub(crate) const FIRST: &str = "/tmp/life-first.yaml";
pub(crate) const SECOND: &str = "/tmp/life-second.yaml";
/// Only a capability.
pub(crate) const CAPABILITY: &str = "/tmp/life-capability.yaml";

const HEAD: &str = "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {name: life, namespace: demo}\nspec:\n  \
                    target: {kind: Pod, name: any}\n  policy:\n    enforcer: BPF\n    mode: EnhanceProtect\n    enhanceProtect:\n      privileged: true\n";

pub(crate) fn write() -> Result<()> {
    fs::write(FIRST, files(&["/life/secret"]))?;
    fs::write(
        SECOND,
        files(&["/life/sec*", "/life/other/**", "/elsewhere/{a,b}/**", "/**/*.pem"]),
    )?;
    fs::write(
        CAPABILITY,
        format!("{HEAD}      hardeningRules: [disable-cap-net-raw]\n"),
    )?;
    Ok(())
}

/// A policy with some rules of its own, `number` different ones of it.
pub(crate) fn distinct(number: usize) -> String {
    let own: Vec<String> = (0..20)
        .map(|rule| format!("/srv/tenant-{number}/{rule}/**"))
        .collect();
    let mut patterns: Vec<&str> = own.iter().map(String::as_str).collect();
    patterns.push("/life/secret");
    files(&patterns)
}

fn files(patterns: &[&str]) -> String {
    let mut text = format!("{HEAD}      bpfRawRules:\n        files:\n");
    for pattern in patterns {
        let _ = writeln!(
            text,
            "        - {{qualifiers: [deny], pattern: \"{pattern}\", permissions: [read, write]}}"
        );
    }
    text
}

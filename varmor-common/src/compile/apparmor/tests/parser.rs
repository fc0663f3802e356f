//! What `apparmor_parser` of this machine says about the texts. It needs no kernel for that.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::catalogue::{fields, held};
use super::{enhance, profile};
use crate::compile::apparmor::{Features, compile};

/// Features of a kernel that has everything that version 3 of the parser knows.
const FEATURES: &str = include_str!("features.txt");
/// Combinations of rules that are compiled.
const COMBINATIONS: u32 = 240;

/// The parser's complaint, if it has one. The package apparmor is a requirement of the lab (`cargo xtask setup`).
fn complaint(text: &str) -> Option<String> {
    let folder = std::env::temp_dir();
    let features = folder.join(format!("varmor-features-{}", std::process::id()));
    std::fs::write(&features, FEATURES).expect("write the features");
    let mut child = Command::new("/usr/sbin/apparmor_parser")
        .args(["-QTK", "--config-file", "/dev/null", "--kernel-features"])
        .arg(&features)
        .arg("--policy-features")
        .arg(&features)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("apparmor_parser is needed: run `cargo xtask setup`");
    child
        .stdin
        .take()
        .expect("was piped")
        .write_all(text.as_bytes())
        .expect("write the text");
    let output = child.wait_with_output().expect("wait for the parser");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(said)
}

fn assert_parses(policy: &str) {
    let artefact = compile(&profile(policy), Features::COMMON)
        .expect("compiles")
        .expect("names AppArmor");
    if let Some(said) = complaint(&artefact.text) {
        panic!("{said}\n{policy}\n{}", artefact.text);
    }
}

#[test]
fn every_base_parses() {
    for policy in [
        "enforcer: AppArmor\nmode: AlwaysAllow",
        "enforcer: AppArmor\nmode: RuntimeDefault",
        "enforcer: AppArmor\nmode: DefenseInDepth\ndefenseInDepth: {appArmor: {profileType: Custom, customProfile: \
         \"profile x {\\n#include <abstractions/base>\\n/usr/bin/t mrix,\\n}\", appArmorRawRules: [{rules: 'deny /z r,', \
         targets: [/usr/bin/t]}]}}",
    ] {
        assert_parses(policy);
    }
    assert!(
        complaint("profile varmor-x { nonsense, }").is_some(),
        "the parser must be able to refuse"
    );
}

#[test]
fn combinations_of_rules_parse() {
    let ids: Vec<&str> = held().map(|rule| rule.id).collect();
    let choice = (
        prop::collection::vec(prop::sample::select(ids), 1..14),
        any::<[bool; 4]>(),
    );
    let mut runner = TestRunner::new(Config {
        cases: COMBINATIONS,
        ..Config::default()
    });
    let result = runner.run(&choice, |(ids, [ordinary, audit, allow, targets])| {
        let mut text = fields(&ids, if targets { "/usr/bin/t, /bin/sh" } else { "" });
        write!(
            text,
            "auditViolations: {}\nallowViolations: {allow}",
            audit || allow
        )
        .expect("writing to a String cannot fail");
        let policy = enhance(&text).replace("privileged: true", &format!("privileged: {}", !ordinary));
        assert_parses(&policy);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn raw_rules_that_are_taken_parse() {
    let rules = "deny /etc/{a,b}/** rwl, owner \"/a b\" rw, deny /bin/x x, capability net_admin, deny network inet tcp, mount \
                 fstype=(ext4, xfs) options in (ro,bind) /dev/sda -> /mnt/**, signal (send) set=(term, kill) \
                 peer=@{profile_name}, ptrace (read) peer=varmor-x, deny @{PROC}/sys/** w, deny @{HOME}.ssh/** rw, link /a -> \
                 /b, deny /a\\{b\\} r, pivot_root, umount /mnt/, remount /mnt/, deny /[^a]* w, audit deny /\u{e9} r, unix (send, receive) \
                 type=stream, dbus,";
    let text = format!("appArmorRawRules: [{{rules: '{rules}'}}]");
    assert_parses(&enhance(&text));
}

#[test]
fn every_byte_of_a_name_parses() {
    let mut profile = profile(&enhance("hardeningRules: [disallow-access-kallsyms]"));
    for byte in 1..=127_u8 {
        let letter = char::from(byte);
        let pattern = match letter {
            '/' => continue,
            letter if letter.is_ascii_punctuation() => format!("/x\\{letter}y{{a,\\{letter}}}"),
            letter => format!("/x{letter}y[!{letter}]"),
        };
        let mut rule = profile.rules[0].clone();
        rule.object = crate::profile::Object::Path {
            pattern,
            access: crate::profile::Access::READ,
        };
        profile.rules.push(rule);
    }
    let artefact = compile(&profile, Features::COMMON)
        .expect("compiles")
        .expect("named");
    if let Some(said) = complaint(&artefact.text) {
        panic!("{said}\n{}", artefact.text);
    }
}

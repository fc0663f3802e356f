//! The same rules for two enforcers: a varmor policy and an `AppArmor` profile with so many rules of each kind. None
//! of them matches what the measured task does.

use std::fmt::Write;

/// Families that the operations do not use. There is a limited number of different socket rules.
const DOMAINS: [&str; 36] = [
    "ax25",
    "ipx",
    "appletalk",
    "netrom",
    "atmpvc",
    "x25",
    "rose",
    "key",
    "packet",
    "ash",
    "econet",
    "atmsvc",
    "rds",
    "sna",
    "irda",
    "pppox",
    "wanpipe",
    "llc",
    "can",
    "tipc",
    "bluetooth",
    "iucv",
    "rxrpc",
    "isdn",
    "phonet",
    "ieee802154",
    "caif",
    "alg",
    "nfc",
    "vsock",
    "kcm",
    "qipcrtr",
    "smc",
    "xdp",
    "ib",
    "mpls",
];
const TYPES: [&str; 5] = ["raw", "stream", "dgram", "seqpacket", "rdm"];
/// Capabilities that the measuring process does without.
const CAPABILITIES: [&str; 24] = [
    "net-raw",
    "mknod",
    "sys-boot",
    "sys-module",
    "sys-rawio",
    "sys-time",
    "sys-pacct",
    "audit-write",
    "mac-admin",
    "mac-override",
    "syslog",
    "wake-alarm",
    "linux-immutable",
    "net-broadcast",
    "ipc-lock",
    "ipc-owner",
    "sys-chroot",
    "sys-tty-config",
    "lease",
    "audit-control",
    "setfcap",
    "block-suspend",
    "audit-read",
    "net-admin",
];

/// A policy file holds a limited number of values, and no operation mounts anything.
const MOST_MOUNTS: usize = 2000;

/// A policy with so many rules of each kind; of kinds that have fewer different rules, all that there are.
pub(super) fn varmor(rules: usize) -> String {
    let mut text = header("EnhanceProtect");
    text.push_str("    enhanceProtect:\n      privileged: true\n");
    if rules == 0 {
        return text;
    }
    text.push_str("      hardeningRules:\n");
    for capability in CAPABILITIES.iter().take(rules) {
        line(&mut text, format_args!("      - disable-cap-{capability}"));
    }
    text.push_str("      bpfRawRules:\n        files:\n");
    for number in 0..rules {
        let pattern = file(number);
        line(
            &mut text,
            format_args!("        - {{qualifiers: [deny], pattern: {pattern}, permissions: [all]}}"),
        );
    }
    text.push_str("        processes:\n");
    for number in 0..rules {
        let pattern = program(number);
        line(
            &mut text,
            format_args!("        - {{qualifiers: [deny], pattern: {pattern}, permissions: [exec]}}"),
        );
    }
    text.push_str("        network:\n          sockets:\n");
    for (domain, kind) in sockets().take(rules) {
        line(
            &mut text,
            format_args!("          - {{qualifiers: [deny], domains: [{domain}], types: [{kind}]}}"),
        );
    }
    text.push_str("          egress:\n            toDestinations:\n");
    for number in 0..rules {
        line(
            &mut text,
            format_args!("            - {{qualifiers: [deny], {}}}", destination(number)),
        );
    }
    text.push_str("        ptrace: {qualifiers: [deny], strictMode: false, permissions: [trace, read]}\n        mounts:\n");
    for number in 0..rules.min(MOST_MOUNTS) {
        line(
            &mut text,
            format_args!(
                "        - {{qualifiers: [deny], sourcePattern: /mnt/m{number}/**, fstype: ext4, flags: [rw]}}"
            ),
        );
    }
    text
}

/// A policy that no operation concerns: one capability.
pub(super) fn one_capability() -> String {
    let mut text = header("EnhanceProtect");
    text.push_str(
        "    enhanceProtect:\n      privileged: true\n      hardeningRules: [disable-cap-sys-boot]\n",
    );
    text
}

/// A policy that allows everything.
pub(super) fn always_allow() -> String {
    header("AlwaysAllow")
}

/// The profile with the same rules, as far as `AppArmor` has such: it knows no destinations.
pub(super) fn apparmor(name: &str, rules: usize) -> String {
    let mut text = format!(
        "abi <abi/3.0>,\nprofile {name} flags=(attach_disconnected,mediate_deleted) {{\n  file,\n  network,\n  \
         capability,\n  mount,\n  umount,\n  pivot_root,\n  ptrace,\n  signal,\n  unix,\n"
    );
    for capability in CAPABILITIES.iter().take(rules) {
        let capability = capability.replace('-', "_");
        line(&mut text, format_args!("  deny capability {capability},"));
    }
    for number in 0..rules {
        line(&mut text, format_args!("  deny {} rw,", file(number)));
        line(&mut text, format_args!("  deny {} x,", program(number)));
        line(
            &mut text,
            format_args!("  deny mount fstype=ext4 options=(rw) /mnt/m{number}/** -> /**,"),
        );
    }
    let known = [
        "ax25",
        "ipx",
        "appletalk",
        "netrom",
        "x25",
        "rose",
        "key",
        "packet",
    ];
    let known = |domain: &&str| known.contains(domain);
    for (domain, kind) in sockets().filter(|(domain, _)| known(domain)).take(rules) {
        line(&mut text, format_args!("  deny network {domain} {kind},"));
    }
    if rules > 0 {
        text.push_str("  deny ptrace (trace, read),\n");
    }
    text.push_str("}\n");
    text
}

fn header(mode: &str) -> String {
    format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {{name: bench, namespace: demo}}\nspec:\n  \
         target: {{kind: Pod, name: any}}\n  policy:\n    enforcer: BPF\n    mode: {mode}\n"
    )
}

/// Half of the rules name a folder, half a file.
fn file(number: usize) -> String {
    if number.is_multiple_of(2) {
        format!("/srv/tenant-{number}/**")
    } else {
        format!("/opt/app-{number}/secret.key")
    }
}

fn program(number: usize) -> String {
    format!("/opt/tools/tool-{number}")
}

/// Blocks, and now and then an address with a port.
fn destination(number: usize) -> String {
    let (high, low) = (number / 250, number % 250);
    if number.is_multiple_of(16) {
        format!("ip: 172.20.{high}.{low}, ports: [{{port: 6443}}]")
    } else {
        format!("cidr: 10.{high}.{low}.0/24")
    }
}

fn sockets() -> impl Iterator<Item = (&'static str, &'static str)> {
    TYPES
        .iter()
        .flat_map(|kind| DOMAINS.iter().map(move |domain| (*domain, *kind)))
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("a string takes every text");
}

#[cfg(test)]
mod tests {
    use super::{apparmor, varmor};

    #[test]
    fn rules_of_each_kind_are_as_many_as_asked_for() {
        let count = |text: &str, part: &str| text.matches(part).count();
        let text = varmor(50);
        for (part, expected) in [("permissions: [all]", 50), ("[exec]", 50), ("domains:", 50)] {
            assert_eq!(count(&text, part), expected, "{part}");
        }
        assert_eq!(count(&text, "cidr:") + count(&text, "ip: "), 50);
        assert_eq!(count(&text, "disable-cap-"), 24);
        assert_eq!(count(&apparmor("x", 50), " x,\n"), 50);
    }

    #[test]
    fn no_rule_says_nothing_about_files() {
        assert!(!varmor(0).contains("deny") && !apparmor("x", 0).contains("deny"));
    }

    #[test]
    fn large_policy_is_small_enough_to_be_read() {
        assert!(varmor(10_000).len() < 4 << 20);
    }
}

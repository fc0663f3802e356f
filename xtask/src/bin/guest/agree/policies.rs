//! Generated policies: built-in rules of the catalogue and raw rules about the suite's files, programs and addresses.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{
    generate::{ADDRESSES_V4, ADDRESSES_V6, PORTS},
    rng::Rng,
    stage::{FOLDERS, KNOWN, NAMES, OPERATOR, PLAIN, PROGRAMS},
};

/// A rule of the catalogue, as `varmor rules list --output json` says it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Builtin {
    id: String,
    list: String,
    enforcers: Vec<String>,
}

/// Rules about the disks of the node, which the commands that answer offline do not know.
const DISKS: [&str; 3] = [
    "disallow-debug-disk-device",
    "disallow-mount-disk-device",
    "mitigate-disk-device-number-leak",
];

impl Builtin {
    fn is_judged(&self) -> bool {
        self.enforcers.iter().any(|name| name == "BPF") && !DISKS.contains(&self.id.as_str())
    }
}

/// The policy with this number.
pub(super) fn policy(rng: &mut Rng, number: usize, catalogue: &[Builtin]) -> String {
    let mut text = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: agree-{number}}}\nspec:\n  \
         target: {{kind: Pod, name: x}}\n  policy:\n    enforcer: BPF\n"
    );
    match number % 8 {
        5 => allow_list(rng, &mut text),
        6 if number == 6 => text.push_str("    mode: RuntimeDefault\n"),
        kind => enhance(rng, &mut text, kind, catalogue),
    }
    text
}

fn enhance(rng: &mut Rng, text: &mut String, kind: usize, catalogue: &[Builtin]) {
    let _ = writeln!(
        text,
        "    mode: EnhanceProtect\n    enhanceProtect:\n      privileged: {}\n      auditViolations: true\n      \
         allowViolations: {}",
        kind != 4,
        kind == 7
    );
    let chosen: Vec<&Builtin> = catalogue
        .iter()
        .filter(|rule| rule.is_judged())
        .filter(|_| rng.chance(6))
        .collect();
    for list in ["hardeningRules", "vulMitigationRules"] {
        let _ = writeln!(text, "      {list}: [{}]", ids(&chosen, list));
    }
    let attack = ids(&chosen, "attackProtectionRules");
    let _ = writeln!(text, "      attackProtectionRules:\n      - rules: [{attack}]");
    for targets in [OPERATOR, "/agree/oper*", "/agree/bin/tool"] {
        if rng.chance(50) {
            let own = [
                "disable-write-etc",
                "disable-access-shadow",
                "disable-access-ssh-dir",
                "disable-write-skills",
                "disable-shell",
                "mitigate-sa-leak",
                "disable-inet6",
            ];
            let rule = rng.pick(&own);
            let _ = writeln!(text, "      - rules: [{rule}]\n        targets: ['{targets}']");
        }
    }
    text.push_str("      bpfRawRules:\n");
    raw_rules(rng, text, "        ", "deny");
}

fn ids(chosen: &[&Builtin], list: &str) -> String {
    let ids: Vec<&str> = chosen
        .iter()
        .filter(|rule| rule.list == list)
        .map(|rule| rule.id.as_str())
        .collect();
    ids.join(", ")
}

fn allow_list(rng: &mut Rng, text: &mut String) {
    text.push_str(
        "    mode: DefenseInDepth\n    defenseInDepth:\n      allowViolations: false\n      bpf:\n        profileType: \
         Custom\n        customProfile:\n          capabilities: [sys_admin, net_raw, setuid]\n",
    );
    raw_rules(rng, text, "          ", "allow");
}

/// Raw rules; most have the qualifier `usual`.
fn raw_rules(rng: &mut Rng, text: &mut String, indent: &str, usual: &str) {
    let qualifier = |rng: &mut Rng| match rng.below(10) {
        0 => "audit",
        1 if usual == "allow" => "deny",
        _ => usual,
    };
    let _ = writeln!(text, "{indent}processes:");
    if usual == "allow" {
        for own in [OPERATOR, PLAIN] {
            let _ = writeln!(
                text,
                "{indent}- {{qualifiers: [allow], pattern: {own}, permissions: [exec]}}"
            );
        }
    }
    for _ in 0..=rng.below(3) {
        let (qualifier, pattern) = (qualifier(rng), program(rng));
        let _ = writeln!(
            text,
            "{indent}- {{qualifiers: [{qualifier}], pattern: '{pattern}', permissions: [exec]}}"
        );
    }
    let _ = writeln!(text, "{indent}files:");
    for _ in 0..4 + rng.below(8) {
        let words = [
            "read",
            "write",
            "append",
            "read, write",
            "all",
            "read, append",
            "write",
        ];
        let (qualifier, pattern, permissions) = (qualifier(rng), pattern(rng), rng.pick(&words));
        let _ = writeln!(
            text,
            "{indent}- {{qualifiers: [{qualifier}], pattern: '{pattern}', permissions: [{permissions}]}}"
        );
    }
    let _ = writeln!(text, "{indent}network:\n{indent}  sockets:");
    for _ in 0..2 {
        let sockets = [
            "domains: [inet, inet6], types: [dgram]",
            "domains: [inet, unix]",
            "domains: [inet6]",
            "domains: [inet], types: [stream]",
            "domains: [packet]",
            "domains: [inet], protocols: [icmp]",
            "protocols: [tcp]",
            "domains: [netlink]",
        ];
        // Without sockets there is nothing to see about addresses, so few of these refuse much.
        let common = if rng.chance(30) { 0 } else { 3 };
        let (qualifier, sockets) = (qualifier(rng), rng.pick(&sockets[common..]));
        let _ = writeln!(text, "{indent}  - {{qualifiers: [{qualifier}], {sockets}}}");
    }
    let _ = writeln!(text, "{indent}  egress:\n{indent}    toDestinations:");
    for _ in 0..=rng.below(4) {
        let (qualifier, place) = (qualifier(rng), place(rng));
        let _ = writeln!(text, "{indent}    - {{qualifiers: [{qualifier}], {place}}}");
    }
    if rng.chance(60) {
        let _ = writeln!(text, "{indent}  ingresses:");
        for _ in 0..=rng.below(3) {
            let (qualifier, place) = (qualifier(rng), place(rng));
            let _ = writeln!(text, "{indent}  - {{qualifiers: [{qualifier}], {place}}}");
        }
    }
    if rng.chance(50) {
        let words = ["trace", "read", "traceby", "readby", "trace, read", "all"];
        let (qualifier, strict, words) = (qualifier(rng), rng.chance(50), rng.pick(&words));
        let _ = writeln!(
            text,
            "{indent}ptrace: {{qualifiers: [{qualifier}], strictMode: {strict}, permissions: [{words}]}}"
        );
    }
    if rng.chance(60) {
        let _ = writeln!(text, "{indent}mounts:");
        for _ in 0..=rng.below(3) {
            let sources = [
                "**",
                "tmpfs",
                "/agree/tree/**",
                "/agree/mounted",
                "/agree/tree/data{,/**}",
                "proc",
            ];
            let types = ["tmpfs", "none", "'*'", "proc", "none"];
            let flags = [
                "all",
                "bind",
                "umount",
                "ro",
                "remount",
                "bind, umount",
                "rw",
                "private",
            ];
            let (qualifier, source) = (qualifier(rng), rng.pick(&sources));
            let (kind, flags) = (rng.pick(&types), rng.pick(&flags));
            let _ = writeln!(
                text,
                "{indent}- {{qualifiers: [{qualifier}], sourcePattern: '{source}', fstype: {kind}, flags: [{flags}]}}"
            );
        }
    }
}

fn program(rng: &mut Rng) -> String {
    let one = *rng.pick(&PROGRAMS);
    match rng.below(5) {
        0 => "/agree/bin/*sh".to_owned(),
        1 => "/agree/bin/deep/**".to_owned(),
        2 => format!("/**/{}", name_of(one)),
        3 => "/agree/bin/{su,sudo,[t-z]*}".to_owned(),
        _ => one.to_owned(),
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// A pattern that some of the suite's paths match.
fn pattern(rng: &mut Rng) -> String {
    let (folder, name) = (*rng.pick(&FOLDERS), *rng.pick(&NAMES));
    match rng.below(16) {
        2 | 3 => format!("{folder}/**"),
        4 => format!("{folder}/*"),
        5 => format!("{folder}/*.{}", rng.pick(&["key", "txt", "log"])),
        // Of these every folder is on the way, so that no mount may cover one: few of them.
        6 if rng.chance(15) => format!("/**/{name}"),
        0 | 1 | 6 => format!("{folder}/{name}"),
        7 if rng.chance(15) => "/**/*.key".to_owned(),
        7 => format!("{folder}/**/*.key"),
        8 => format!("{folder}/{{{name},x,{}}}", rng.pick(&NAMES)),
        9 => format!("{folder}/[a-c]*"),
        10 => format!("{folder}/?.key"),
        11 => format!("/agree/*/{}/**", name_of(folder)),
        12 => folder.to_owned(),
        13 => format!("{folder}{{,/**}}"),
        14 => format!("/agree/tree/**/[!a-m]*.{}", rng.pick(&["key", "txt", "pem"])),
        _ => (*rng.pick(&KNOWN)).replace("/self/", "/**/"),
    }
}

/// An address or a block, and ports.
fn place(rng: &mut Rng) -> String {
    let address = match rng.below(12) {
        0 => "ip: localhost".to_owned(),
        1 => "ip: unspecified".to_owned(),
        2..=4 => format!("ip: '{}'", rng.pick(&ADDRESSES_V4)),
        5 | 6 => format!("ip: '{}'", rng.pick(&ADDRESSES_V6)),
        7 | 8 => (*rng.pick(&[
            "cidr: '10.9.0.0/16'",
            "cidr: '10.0.0.0/8'",
            "cidr: '10.1.2.0/30'",
            "cidr: '127.0.0.0/8'",
        ]))
        .to_owned(),
        9 | 10 => (*rng.pick(&[
            "cidr: 'fd00:aa::/64'",
            "cidr: 'fd00::/16'",
            "cidr: '2002::/16'",
            "cidr: 'fd00:bb::4/126'",
        ]))
        .to_owned(),
        _ => (*rng.pick(&["cidr: '0.0.0.0/0'", "cidr: '::/0'"])).to_owned(),
    };
    let (low, other) = (*rng.pick(&PORTS), *rng.pick(&PORTS));
    match rng.below(3) {
        // A whole family without ports would leave nothing to see.
        0 if !address.ends_with("/0'") => address,
        1 => format!("{address}, ports: [{{port: {low}}}, {{port: {other}}}]"),
        _ => format!(
            "{address}, ports: [{{port: {}, endPort: {}}}]",
            low.min(other),
            low.max(other)
        ),
    }
}

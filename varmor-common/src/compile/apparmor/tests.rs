//! Texts that `apparmor_parser` takes, and what they say.

mod catalogue;
mod parser;

use super::{Artefact, Features, compile};
use crate::policy::{Document, load};
use crate::profile::{Disk, NodeFacts, Profile, build};

/// The profile of a policy whose `spec.policy` is this YAML.
fn profile(policy: &str) -> Profile {
    let built = build(&document(policy), &facts());
    built
        .profile
        .unwrap_or_else(|| panic!("{policy}: {:?}", built.diagnostics))
}

fn facts() -> NodeFacts {
    NodeFacts {
        disk_devices: vec![Disk {
            name: "cciss!c0d0".to_owned(),
            major: 104,
            minor: 0,
        }],
    }
}

fn document(policy: &str) -> Document {
    let policy: String = policy.lines().flat_map(|line| ["    ", line, "\n"]).collect();
    let text = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {{name: web, namespace: demo}}\nspec:\n  target: \
         {{kind: Pod, name: web}}\n  policy:\n{policy}"
    );
    let mut loaded = load("p.yaml", text.as_bytes());
    assert!(!loaded.has_errors(), "{:?}\n{text}", loaded.diagnostics);
    loaded.documents.remove(0)
}

fn compiled(policy: &str) -> Artefact {
    compile(&profile(policy), Features::ALL)
        .expect("the policy compiles")
        .expect("the policy names AppArmor")
}

/// A privileged container with these fields of `enhanceProtect`.
fn enhance(fields: &str) -> String {
    let fields: String = fields.lines().flat_map(|line| ["  ", line, "\n"]).collect();
    format!("enforcer: AppArmor\nmode: EnhanceProtect\nenhanceProtect:\n  privileged: true\n{fields}")
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|one| one.trim() == line)
}

#[test]
fn a_policy_without_apparmor_has_no_text() {
    let profile = profile("enforcer: BPF\nmode: RuntimeDefault");
    assert_eq!(compile(&profile, Features::ALL), Ok(None));
}

#[test]
fn rules_for_bpf_alone_are_in_no_text() {
    let artefact = compiled(
        &enhance("bpfRawRules: {files: [{qualifiers: [deny], pattern: /only-bpf, permissions: [r]}]}\nhardeningRules: [disallow-insmod]")
            .replace("enforcer: AppArmor", "enforcer: AppArmorBPF"),
    );
    assert!(!artefact.text.contains("only-bpf"), "{}", artefact.text);
    assert!(
        has(&artefact.text, "audit deny capability sys_module,"),
        "{}",
        artefact.text
    );
}

#[test]
fn names_mean_themselves() {
    let object = |pattern: &str| {
        let mut profile = profile(&enhance("hardeningRules: [disallow-access-kallsyms]"));
        profile.rules[0].object = crate::profile::Object::Path {
            pattern: pattern.to_owned(),
            access: crate::profile::Access::READ,
        };
        let artefact = compile(&profile, Features::COMMON)
            .expect("compiles")
            .expect("named");
        let line = artefact
            .text
            .lines()
            .find(|line| line.contains(" deny ") && line.ends_with(" r,"));
        let line = line
            .unwrap_or_else(|| panic!("{pattern}: {}", artefact.text))
            .trim();
        line.trim_start_matches("audit deny \"")
            .trim_end_matches("\" r,")
            .to_owned()
    };
    for (pattern, expected) in [
        ("/etc/passwd", "/etc/passwd{,/}"),
        ("/etc/**", "/etc/**"),
        ("/**/sh", "/{**/,}sh{,/}"),
        ("*.log", "/{**/,}*.log{,/}"),
        ("/a/*/b", "/a/?*/b{,/}"),
        ("/a?c", "/a?c{,/}"),
        ("/a[bc]d", "/a[bc]d{,/}"),
        ("/a[b-dx]", "/a[b-dx]{,/}"),
        // What means something in a set stands where it means itself, and a set of one is a byte.
        ("/a[-*?x]", r"/a[-\*\?x]{,/}"),
        ("/a[x^]", "/a[x^]{,/}"),
        ("/a[-^]", "/a[-^]{,/}"),
        (r"/a[\^]b", r"/a\^b{,/}"),
        ("/a[-]b", "/a-b{,/}"),
        ("/a[,{}]", r"/a[\,\{\}]{,/}"),
        (r"/a\*b", r"/a\*b{,/}"),
        (r"/a\{b\}", r"/a\{b\}{,/}"),
        ("/@\\{PROC\\}", r"/[@]\{PROC\}{,/}"),
        ("/a$", "/a[$]{,/}"),
        ("/a b#c,d", r"/a b#c\,d{,/}"),
        ("/a\"b", r"/a\042b{,/}"),
        ("/\u{e9}", r"/\303\251{,/}"),
        ("/a\tb", r"/a\011b{,/}"),
    ] {
        assert_eq!(object(pattern), expected, "{pattern}");
    }
    let negated = object("/a[!b]");
    assert!(
        !negated.contains("[^") && !negated[2..].trim_end_matches("{,/}").contains('/'),
        "a negated set would match `/`: {negated}"
    );
}

#[test]
fn who_may_not_write_a_file_may_not_move_its_folders() {
    let text = compiled(&enhance("hardeningRules: [disallow-write-core-pattern]")).text;
    for folder in ["/proc/", "/proc/sys/", "/proc/sys/kernel/"] {
        assert!(
            has(&text, &format!("audit deny \"{folder}\" w,")),
            "{folder}: {text}"
        );
    }
}

#[test]
fn the_bases_differ_in_what_they_leave_to_others() {
    let all = compiled("enforcer: AppArmor\nmode: AlwaysAllow").text;
    let default = compiled("enforcer: AppArmor\nmode: RuntimeDefault").text;
    assert!(has(&all, "signal,") && has(&all, "ptrace (trace, read, tracedby, readby),"));
    assert!(!all.contains("deny"), "{all}");
    assert!(!has(&default, "signal,"), "{default}");
    assert!(has(&default, "ptrace (tracedby, readby),"), "{default}");
    assert!(
        has(&default, "ptrace (trace, read) peer=\"varmor-demo-web{,//**}\","),
        "{default}"
    );
    assert!(has(&default, "audit deny mount,"), "{default}");
    let privileged = compiled(&enhance("hardeningRules: [disallow-umount]")).text;
    assert!(has(&privileged, "signal,") && !has(&privileged, "audit deny mount,"));
}

#[test]
fn violations_that_are_allowed_are_logged() {
    let rules = "hardeningRules: [disallow-insmod]\nattackProtectionRules: [{rules: [disable-shell]}]\nallowViolations: \
                 true\nauditViolations: true";
    let text = compiled(&enhance(rules)).text;
    assert!(has(&text, "audit capability sys_module,"), "{text}");
    assert!(has(&text, "audit \"/{**/,}sh{,/}\" ix,"), "{text}");
    assert!(!text.contains("deny"), "{text}");
}

#[test]
fn targets_are_children_that_are_stacked_upon_the_profile() {
    let rules = "attackProtectionRules:\n- {rules: [disable-wget], targets: ['/bin/{a,b}']}\n- {rules: [disable-curl], \
                 targets: [/bin/b]}";
    let artefact = compiled(&enhance(rules));
    let text = &artefact.text;
    let children: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("profile \"t"))
        .collect();
    assert_eq!(children.len(), 2, "{text}");
    let one = text.lines().find(|line| line.contains("\"/bin/a\" px -> "));
    let both = text.lines().find(|line| line.contains("\"/bin/b\" px -> "));
    assert_eq!(one.map(|line| line.matches("//&").count()), Some(1), "{text}");
    assert_eq!(both.map(|line| line.matches("//&").count()), Some(2), "{text}");
    let wild = "attackProtectionRules: [{rules: [disable-wget], targets: ['/bin/*']}]";
    let error = compile(&profile(&enhance(wild)), Features::ALL).expect_err("a wildcard");
    assert!(error.to_string().contains("exact path"), "{error}");
}

#[test]
fn what_apparmor_cannot_hold_is_said_rule_by_rule() {
    let mut profile = profile(&enhance("hardeningRules: [disallow-create-user-ns]"));
    let old = compile(&profile, Features::COMMON)
        .expect("compiles")
        .expect("named");
    assert_eq!(old.unsupported[0].rule, "disallow-create-user-ns");
    assert!(old.unsupported[0].reason.contains("apparmor_parser 4"));
    let new = compile(&profile, Features::ALL)
        .expect("compiles")
        .expect("named");
    assert!(has(&new.text, "audit deny userns create,") && new.unsupported.is_empty());
    profile.rules[0].object = crate::profile::Object::Egress(crate::profile::EgressRule {
        network: None,
        ports: Vec::new(),
    });
    let artefact = compile(&profile, Features::ALL)
        .expect("compiles")
        .expect("named");
    assert!(artefact.unsupported[0].reason.contains("addresses"));
}

#[test]
fn a_name_that_could_be_text_is_no_name() {
    for name in [
        "varmor-x\" { file, } profile \"y",
        "other",
        "varmor-x y",
        "varmor-\u{e9}",
    ] {
        let mut profile = profile("enforcer: AppArmor\nmode: AlwaysAllow");
        profile.name = name.to_owned();
        assert!(compile(&profile, Features::ALL).is_err(), "{name}");
    }
}

#[test]
fn an_allow_list_allows_what_it_says() {
    let policy = "enforcer: AppArmor\nmode: DefenseInDepth\ndefenseInDepth:\n  appArmor:\n    profileType: Custom\n    \
                  customProfile: 'profile x { /srv/** r, }'\n    appArmorRawRules: [{rules: 'deny /srv/x r,'}, {rules: \
                  '/y r,', targets: [/bin/t]}, {rules: 'deny /z r,', targets: [/bin/t]}]";
    let artefact = compiled(policy);
    let text = &artefact.text;
    assert!(
        has(text, "\"/srv/**\" r,") && has(text, "deny \"/srv/x\" r,"),
        "{text}"
    );
    assert!(!text.lines().take(4).any(|line| line.trim() == "file,"), "{text}");
    assert!(has(text, "deny \"/z\" r,") && !has(text, "\"/y\" r,"), "{text}");
    assert!(
        artefact.unsupported[0].reason.contains("only refuse more"),
        "{:?}",
        artefact.unsupported
    );
}

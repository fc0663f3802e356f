//! Target groups: entered by executing a file, judged by the rules of every group that a task is in.

use super::{KEY, compiled, path_rule, profile};
use crate::abi::{PERM_READ, PERM_WRITE};
use crate::compile::bpf::{
    Artefact, CompileError, HookGroups, Kernel, compile, compile_after, inherited_keys,
};
use crate::matcher::{PathView, Walk};
use crate::profile::{Access, InertRule, Profile, Verdict};

fn deny(pattern: &str) -> crate::profile::Rule {
    path_rule(Verdict::Deny, pattern, Access::READ)
}

/// One group per list of executables, each of which may not read the file of its number.
fn grouped(groups: &[&[&str]]) -> Profile {
    let mut profile = profile(vec![deny("/base")]);
    for (executables, number) in groups.iter().zip(0..) {
        let executables = executables.iter().map(ToString::to_string).collect();
        profile.add_target(executables, [deny(&format!("/file{number}"))]);
    }
    profile
}

fn reads(artefact: &Artefact, domain: u32, path: &str) -> bool {
    let view = PathView::from_path(path.as_bytes());
    let walk = Walk::new(artefact.of_domain(domain), KEY);
    walk.files(&view, PERM_READ).denied == 0
}

fn entered(artefact: &Artefact, path: &str) -> u64 {
    Walk::new(artefact, KEY).targets(&PathView::from_path(path.as_bytes()))
}

#[test]
fn an_executable_enters_every_group_that_names_it() {
    let profile = grouped(&[
        &["/usr/bin/curl", "/usr/bin/wget"],
        &["/usr/bin/*"],
        &["/**/python3*"],
    ]);
    let artefact = compiled(&profile);
    for (path, groups) in [
        ("/usr/bin/curl", 0b011),
        ("/usr/bin/wget", 0b011),
        ("/usr/bin/ls", 0b010),
        ("/opt/a/python3.11", 0b100),
        ("/usr/bin/python3", 0b110),
        ("/bin/sh", 0),
        ("/usr/bin/a/curl", 0),
    ] {
        assert_eq!(entered(&artefact, path), groups, "{path}");
        for (mask, domain) in &artefact.domains {
            assert_eq!(entered(domain, path), groups, "{path} from domain {mask}");
        }
    }
    assert!(artefact.hooks.contains(HookGroups::EXEC));
}

#[test]
fn a_task_is_judged_by_the_rules_of_all_its_groups() {
    let profile = grouped(&[&["/a"], &["/b"], &["/c"]]);
    let artefact = compiled(&profile);
    assert_eq!(artefact.domains.len(), 7);
    for domain in 0..8_u32 {
        assert!(!reads(&artefact, domain, "/base"));
        for file in 0..3 {
            let allowed = domain & (1 << file) == 0;
            assert_eq!(
                reads(&artefact, domain, &format!("/file{file}")),
                allowed,
                "{file} in {domain:#b}"
            );
        }
    }
    // Bits without a group say nothing.
    assert!(reads(&artefact, 0b11_1000, "/file0"));
    assert!(!reads(&artefact, 0b11_1001, "/file0"));
}

#[test]
fn events_of_a_domain_name_the_rules_of_the_domain() {
    let profile = grouped(&[&["/a"], &["/b"]]);
    let artefact = compiled(&profile);
    for (domain, path) in [
        (1, "/file0"),
        (2, "/file1"),
        (3, "/file0"),
        (3, "/file1"),
        (3, "/base"),
    ] {
        let view = PathView::from_path(path.as_bytes());
        let site = Walk::new(artefact.of_domain(domain), KEY)
            .files(&view, PERM_READ)
            .site;
        let decided = artefact.decided_by(&profile, domain, site, PERM_READ);
        assert_eq!(decided.map(|(id, _)| id), Some(path), "domain {domain}");
    }
}

#[test]
fn a_profile_without_targets_has_no_domains() {
    let artefact = compiled(&grouped(&[]));
    assert_eq!((artefact.descriptor.targets, artefact.domains.len()), (0, 0));
    assert_eq!(entered(&artefact, "/a"), 0);
    assert!(!artefact.hooks.contains(HookGroups::EXEC));
}

#[test]
fn groups_keep_their_bits_while_others_come_and_go() {
    let after = |groups: &[&[&str]], earlier: &Artefact| {
        compile_after(&grouped(groups), KEY, &earlier.target_keys, Kernel::default()).expect("few groups")
    };
    let one = compiled(&grouped(&[&["/a"], &["/b"]]));
    let two = after(&[&["/c"], &["/b"]], &one);
    assert_eq!(entered(&two, "/b"), entered(&one, "/b"));
    assert_eq!(
        entered(&two, "/c"),
        0b100,
        "the bit of `/a` is not reused while others are free"
    );
    assert!(
        reads(&two, 0b001, "/file0"),
        "who was in `/a` is in no group any more"
    );
    let three = after(&[&["/a"], &["/c"], &["/b"]], &two);
    assert_eq!(entered(&three, "/a"), 0b001, "it is back where it was");
    let many: &[&[&str]] = &[&["/d"], &["/e"], &["/f"], &["/g"], &["/b"]];
    let four = after(many, &three);
    assert_eq!(entered(&four, "/b"), 0b010);
    let bits: std::collections::BTreeSet<u64> = ["/d", "/e", "/f", "/g"]
        .iter()
        .map(|path| entered(&four, path))
        .collect();
    assert_eq!(bits.len(), 4, "no two groups share a bit: {bits:?}");
}

#[test]
fn a_new_profile_takes_the_bits_that_its_groups_have_elsewhere() {
    let (a, b) = (grouped(&[&["/x"], &["/a"]]), grouped(&[&["/b"]]));
    let keys = [compiled(&a).target_keys, compiled(&b).target_keys];
    let both = grouped(&[&["/b"], &["/a"]]);
    let earlier = inherited_keys(&both, keys.iter());
    let artefact = compile_after(&both, KEY, &earlier, Kernel::default()).expect("few groups");
    assert_eq!((entered(&artefact, "/a"), entered(&artefact, "/b")), (0b10, 0b01));
}

#[test]
fn more_groups_than_bits_are_refused_with_their_number() {
    let names: Vec<String> = (0..7).map(|number| format!("/bin/{number}")).collect();
    let lists: Vec<Vec<&str>> = names.iter().map(|name| vec![name.as_str()]).collect();
    let groups: Vec<&[&str]> = lists.iter().map(Vec::as_slice).collect();
    let error = compile(&grouped(&groups), KEY).expect_err("seven groups");
    assert!(
        matches!(error, CompileError::TooManyTargets { count: 7, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("/bin/6"), "{error}");
    let six = compile(&grouped(&groups[..6]), KEY).expect("six groups");
    assert_eq!(six.domains.len(), 63);
}

#[test]
fn rules_without_effect_are_named() {
    let mut profile = grouped(&[&["/a"]]);
    profile.inert.push(InertRule {
        rule: path_rule(Verdict::Allow, "/lost", Access::WRITE),
        reason: "another list holds".to_owned(),
    });
    let artefact = compiled(&profile);
    let [missing] = &artefact.unsupported[..] else {
        panic!("{:?}", artefact.unsupported)
    };
    let rule = profile.every_rule().nth(missing.rule as usize);
    assert_eq!(rule.map(|rule| rule.id.as_str()), Some("/lost"));
    assert_eq!(missing.reason, "another list holds");
    let walk = Walk::new(&artefact, KEY);
    assert_eq!(walk.files(&PathView::from_path(b"/lost"), PERM_WRITE).denied, 0);
}

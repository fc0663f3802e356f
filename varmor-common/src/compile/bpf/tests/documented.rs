//! Filesystems by their own kind, modes, permissions and sites, as the documents say.

use super::{KEY, compiled, path_rule, profile};
use crate::abi::{
    AAFS_MAGIC, PERM_APPEND, PERM_EXEC, PERM_READ, PERM_STRUCT, PERM_WRITE, PROFILE_COMPLAIN,
    PROFILE_FILESYSTEMS,
};
use crate::compile::bpf::{CompileError, HookGroups, compile};
use crate::matcher::{FilesystemRoot, PathView, Walk};
use crate::profile::{Access, Kinds, Profile, ProfileMode, Verdict};

const PROC: u64 = 0x9fa0;
const SYSFS: u64 = 0x6265_6572;
const CGROUP: u64 = 0x0027_e0eb;
const CGROUP2: u64 = 0x6367_7270;

fn deny(pattern: &str) -> Profile {
    profile(vec![path_rule(Verdict::Deny, pattern, Access::READ_WRITE)])
}

#[track_caller]
fn holds(pattern: &str, view: &PathView, expected: bool) {
    let profile = deny(pattern);
    let artefact = compiled(&profile);
    let verdict = Walk::new(&artefact, KEY).files(view, PERM_WRITE);
    assert_eq!(verdict.denied != 0, expected, "{pattern} on {view:?}");
    if expected {
        assert_ne!(artefact.descriptor.flags & PROFILE_FILESYSTEMS, 0);
    }
}

fn at(path: &str, magic: u64, depth: usize) -> PathView {
    PathView::from_path(path.as_bytes()).with_filesystem(magic, depth)
}

#[test]
fn procfs_rule_holds_wherever_procfs_is_mounted() {
    let pattern = "/proc/sys/kernel/core_pattern";
    holds(pattern, &at("/proc/sys/kernel/core_pattern", PROC, 3), true);
    holds(pattern, &at("/mnt/p/sys/kernel/core_pattern", PROC, 3), true);
    holds(pattern, &at("/sys/kernel/core_pattern", PROC, 3), true);
    holds(pattern, &at("/mnt/sys/kernel/core_pattern", SYSFS, 3), false);
    holds(pattern, &at("/mnt/p/sys/kernel/core_pattern", PROC, 2), false);
    holds(pattern, &at("/mnt/p/sys/kernel/other", PROC, 3), false);
}

#[test]
fn procfs_rule_holds_in_a_bind_mount_of_a_folder() {
    let mut view = PathView::from_path(b"/mnt/kernel/core_pattern");
    view.filesystems.push(FilesystemRoot {
        magic: PROC,
        depth: 2,
        above: vec![b"sys".to_vec()],
    });
    holds("/proc/sys/kernel/core_pattern", &view, true);
    view.filesystems[0].above = vec![b"other".to_vec()];
    holds("/proc/sys/kernel/core_pattern", &view, false);
}

#[test]
fn procfs_itself_is_meant_by_its_usual_place() {
    holds("/proc", &at("/mnt/p", PROC, 0), true);
    holds("/proc/**", &at("/mnt/p", PROC, 0), false);
    holds("/proc/**", &at("/mnt/p/1", PROC, 1), true);
    holds("/proc**", &at("/mnt/p/1/mem", PROC, 2), true);
}

#[test]
fn cgroup_rule_holds_in_both_versions() {
    let pattern = "/sys/fs/cgroup/**/release_agent";
    holds(pattern, &at("/mnt/release_agent", CGROUP, 1), true);
    holds(pattern, &at("/mnt/a/b/release_agent", CGROUP2, 3), true);
    holds(pattern, &at("/mnt/a/b/release_agent", PROC, 3), false);
    holds("/sys/fs/cgroup/memory/tasks", &at("/mnt/tasks", CGROUP, 1), true);
    holds(
        "/sys/fs/cgroup/memory/tasks",
        &at("/mnt/tasks", CGROUP2, 1),
        false,
    );
}

#[test]
fn apparmor_filesystem_is_behind_its_link_and_an_allow_list_asks_for_it() {
    for pattern in [
        "/sys/kernel/security/apparmor/policy/**",
        "/sys/kernel/security/**",
    ] {
        holds(pattern, &at("/.remove", AAFS_MAGIC, 1), true);
        holds(pattern, &at("/.remove", PROC, 1), false);
    }
    holds(
        "/sys/kernel/security/apparmor/.remove",
        &at("/.remove", AAFS_MAGIC, 1),
        false,
    );
    let mut listed = profile(vec![path_rule(Verdict::Allow, "/srv/**", Access::READ_WRITE)]);
    listed.default.denied = Kinds::FILES;
    assert_ne!(compiled(&listed).descriptor.flags & PROFILE_FILESYSTEMS, 0);
}

#[test]
fn rule_about_files_anywhere_needs_no_filesystem() {
    let artefact = compiled(&deny("/**/release_agent"));
    assert_eq!(artefact.descriptor.flags & PROFILE_FILESYSTEMS, 0);
    holds_plain("/**/release_agent", "/mnt/release_agent", true);
}

fn holds_plain(pattern: &str, path: &str, expected: bool) {
    let artefact = compiled(&deny(pattern));
    let verdict = Walk::new(&artefact, KEY).files(&PathView::from_path(path.as_bytes()), PERM_WRITE);
    assert_eq!(verdict.denied != 0, expected, "{pattern} on {path}");
}

#[test]
fn permissions_of_all_matching_rules_count() {
    let profile = profile(vec![
        path_rule(Verdict::Deny, "/a/**", Access::WRITE),
        path_rule(Verdict::Audit, "/a/*", Access::READ),
        path_rule(Verdict::Deny, "*.sh", Access::EXEC),
    ]);
    let artefact = compiled(&profile);
    let walk = Walk::new(&artefact, KEY);
    let verdict = walk.files(
        &PathView::from_path(b"/a/x.sh"),
        PERM_READ | PERM_WRITE | PERM_APPEND | PERM_EXEC,
    );
    assert_eq!(verdict.denied, PERM_WRITE | PERM_APPEND | PERM_EXEC);
    assert_eq!(verdict.audited, PERM_READ);
    let rule_for = |requested| {
        let site = walk.files(&PathView::from_path(b"/a/x.sh"), requested).site;
        artefact
            .rule_at(&profile, site, requested)
            .map(|rule| rule.id.as_str())
    };
    assert_eq!(rule_for(PERM_WRITE), Some("/a/**"));
    assert_eq!(rule_for(PERM_READ), Some("/a/*"));
    assert_eq!(rule_for(PERM_EXEC), Some("*.sh"));
}

#[test]
fn audited_folders_are_not_protected() {
    let profile = profile(vec![path_rule(Verdict::Audit, "/a/b", Access::WRITE)]);
    let artefact = compiled(&profile);
    assert_eq!(artefact.descriptor.file_perms & PERM_STRUCT, 0);
}

#[test]
fn hooks_are_those_that_the_rules_need() {
    let hooks = |pattern, access| compiled(&profile(vec![path_rule(Verdict::Deny, pattern, access)])).hooks;
    assert_eq!(hooks("/**/sh", Access::EXEC), HookGroups::EXEC);
    assert_eq!(
        hooks("/bin/sh", Access::EXEC),
        HookGroups::EXEC.union(HookGroups::FILE)
    );
    assert_eq!(hooks("/a", Access::READ), HookGroups::FILE);
    assert_eq!(compiled(&profile(Vec::new())).hooks, HookGroups::default());
}

#[test]
fn complain_mode_is_a_flag() {
    let mut profile = deny("/a");
    assert_eq!(compiled(&profile).descriptor.flags & PROFILE_COMPLAIN, 0);
    profile.mode = ProfileMode::Complain;
    assert_eq!(
        compiled(&profile).descriptor.flags & PROFILE_COMPLAIN,
        PROFILE_COMPLAIN
    );
}

#[test]
fn bad_pattern_names_the_rule_the_place_and_the_fix() {
    let error = compile(&deny("/a/[b"), KEY).expect_err("an open set");
    assert!(matches!(error, CompileError::Pattern { .. }));
    let text = error.to_string();
    assert!(
        text.contains("rule `/a/[b`") && text.contains("byte 3") && text.contains(r"`\[`"),
        "{text}"
    );
}

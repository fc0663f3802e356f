//! The store against a folder that looks like securityfs.

use std::fs;

use super::*;

/// A folder with the files that the store reads and writes; nothing if there is no `apparmor_parser` here.
fn machine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("security/features/domain")).unwrap();
    fs::create_dir_all(folder.path().join("state")).unwrap();
    for file in ["profiles", ".replace", ".remove"] {
        fs::write(folder.path().join("security").join(file), "").unwrap();
    }
    folder
}

fn store(folder: &tempfile::TempDir) -> AppArmorStore {
    open_at(folder.path().join("security"), &folder.path().join("state")).unwrap()
}

#[test]
fn only_profiles_of_ours_are_listed_and_removed() {
    let folder = machine();
    let loaded = "varmor-a (enforce)\nvarmor-a//t1 (enforce)\nvarmor-other (enforce)\nsshd (enforce)\n";
    fs::write(folder.path().join("security/profiles"), loaded).unwrap();
    fs::write(
        folder.path().join("state/apparmor.json"),
        r#"["varmor-a","sshd"]"#,
    )
    .unwrap();
    let mut store = store(&folder);
    assert_eq!(store.profiles().unwrap(), ["varmor-a"]);
    for foreign in ["varmor-other", "sshd", "varmor-a//t1"] {
        store.remove(foreign).unwrap();
        assert_eq!(
            fs::read_to_string(folder.path().join("security/.remove")).unwrap(),
            "",
            "{foreign}"
        );
    }
    store.remove("varmor-a").unwrap();
    assert_eq!(
        fs::read_to_string(folder.path().join("security/.remove")).unwrap(),
        "varmor-a"
    );
}

#[test]
fn what_does_not_compile_is_not_loaded() {
    let folder = machine();
    let mut store = store(&folder);
    let profile = Profile {
        name: "no name of ours".to_owned(),
        enforcers: Enforcers::APPARMOR,
        ..Profile::default()
    };
    assert!(store.apply(&profile).is_err());
    let refused = store.parser.compile("varmor-a", "profile varmor-a { nonsense, }");
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("apparmor_parser refuses it"),
        "the parser's own words are passed on"
    );
    assert_eq!(fs::read(folder.path().join("security/.replace")).unwrap(), b"");
}

#[test]
fn garbage_is_collected_by_name_and_never_a_known_profile() {
    let folder = machine();
    let loaded = "varmor-run-1 (enforce)\nvarmor-run-2 (enforce)\nsshd (enforce)\n";
    fs::write(folder.path().join("security/profiles"), loaded).unwrap();
    fs::write(folder.path().join("state/apparmor.json"), r#"["varmor-run-2"]"#).unwrap();
    assert_eq!(store(&folder).collect(|_| true).unwrap(), 1);
    assert_eq!(
        fs::read_to_string(folder.path().join("security/.remove")).unwrap(),
        "varmor-run-1"
    );
}

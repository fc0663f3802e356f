//! What users may write in `AppArmor`'s language, and what they may not.

use proptest::prelude::*;

use super::{TextError, custom_profile, statements};

fn refused(text: &str) -> TextError {
    match statements(text) {
        Err(error) => error,
        Ok(found) => panic!("{text:?} was taken as {found:?}"),
    }
}

#[test]
fn rules_are_written_anew_in_one_spelling() {
    for (text, expected) in [
        ("deny /etc/shadow r,", "deny \"/etc/shadow\" r,"),
        (
            "audit  deny\t/etc/{a,b}/** rwl,",
            "audit deny \"/etc/{a,b}/**\" rwl,",
        ),
        ("deny r /x,", "deny \"/x\" r,"),
        ("owner \"/a b\" rw,", "owner \"/a b\" rw,"),
        ("/bin/x mrix,", "\"/bin/x\" mrix,"),
        ("deny /bin/x x,", "deny \"/bin/x\" x,"),
        ("allow /x r,", "\"/x\" r,"),
        (
            "capability net_admin sys_admin,",
            "capability net_admin sys_admin,",
        ),
        ("deny network inet tcp,", "deny network inet tcp,"),
        (
            "mount fstype=(ext4, xfs) options in (ro,bind) /dev/sda -> /mnt/**,",
            "mount fstype=(ext4 xfs) options in (ro bind) \"/dev/sda\" -> \"/mnt/**\",",
        ),
        (
            "signal (send) set=(term kill) peer=varmor-x,",
            "signal (send) set=(term kill) peer=varmor-x,",
        ),
        (
            "ptrace (read) peer=@{profile_name},",
            "ptrace (read) peer=\"@{profile_name}\",",
        ),
        ("deny @{PROC}/sys/** w,", "deny \"/proc/sys/**\" w,"),
        ("deny @{HOME}.ssh/** rw,", "deny \"/{root,home/*}/.ssh/**\" rw,"),
        ("file,", "file,"),
        ("link /a -> /b,", "link \"/a\" -> \"/b\","),
        ("deny /x r, # } profile y {", "deny \"/x\" r,"),
        ("deny /a\\{b\\} r,", "deny \"/a\\{b\\}\" r,"),
        ("pivot_root,", "pivot_root,"),
        (
            "unix (send, receive) type=stream peer=(addr=@none),",
            "unix (send receive) type=stream peer=(addr=\"@none\"),",
        ),
    ] {
        assert_eq!(
            statements(text).as_deref(),
            Ok(&[expected.to_owned()][..]),
            "{text}"
        );
    }
    assert_eq!(
        statements("deny /a r,\n  deny /b w,\n").map(|found| found.len()),
        Ok(2)
    );
    assert_eq!(statements("  # nothing\n"), Ok(Vec::new()));
}

/// Text, line and column of what is refused.
const INJECTIONS: &[(&str, u32, u32)] = &[
    ("}\nprofile host { file, }", 1, 1),
    ("deny /x r,\n}\nprofile host { file, }", 2, 1),
    ("deny /x r, } profile y {", 1, 12),
    ("profile y { file, }", 1, 1),
    ("hat y { file, }", 1, 1),
    ("^y { file, }", 1, 1),
    ("{ file, }", 1, 1),
    ("/usr/bin/x { file, }", 1, 12),
    ("#include <abstractions/base>", 1, 1),
    ("include <abstractions/base>", 1, 1),
    ("include \"/etc/shadow\"", 1, 1),
    ("deny /x r,\n  #include </etc/shadow>", 2, 3),
    ("include if exists <local/x>", 1, 1),
    ("abi <abi/3.0>,", 1, 1),
    ("@{X}=/etc", 1, 1),
    ("@{X}+=/etc", 1, 1),
    ("$x = true", 1, 1),
    ("@{UNKNOWN}/x r,", 1, 1),
    ("deny /x/${Y} r,", 1, 6),
    ("alias /a -> /b,", 1, 1),
    ("set rlimit nofile <= 1024,", 1, 19),
    ("rlimit nofile,", 1, 1),
    ("change_profile,", 1, 1),
    ("change_profile -> unconfined,", 1, 1),
    ("/bin/x ux,", 1, 8),
    ("/bin/x Ux,", 1, 8),
    ("/bin/x rPx,", 1, 8),
    ("/bin/x px -> unconfined,", 1, 8),
    ("/bin/x cx -> y,", 1, 8),
    ("/bin/x pux,", 1, 8),
    ("/bin/x rix -> unconfined,", 1, 12),
    ("pivot_root /old /new -> unconfined,", 1, 22),
    ("deny /x\\175 r,", 1, 8),
    ("deny \"/x\\\" r,", 1, 9),
    ("deny \"/x\n}\" r,", 1, 9),
    ("deny /x} r,", 1, 8),
    ("deny /x{a r,", 1, 6),
    ("deny \"/x r,", 1, 6),
    ("deny /x r, deny /y \u{0} r,", 1, 20),
    ("deny /x\u{1b} r,", 1, 8),
    ("# comment \u{7} bell", 1, 11),
    ("deny /x\"y\" r,", 1, 8),
    ("deny /x r", 1, 9),
    ("if true { file, }", 1, 1),
    ("all,", 1, 1),
    ("capability nonsense,", 1, 12),
    ("network (send) inet,", 1, 9),
    ("deny relative r,", 1, 6),
    ("mount -> /x } profile y {,", 1, 13),
    ("signal peer=\"x\n\",", 1, 15),
    ("mount /a -> /b include \"/etc/shadow\",", 1, 16),
    ("mount fstype=include /a,", 1, 14),
    ("mount options=(include) /a,", 1, 16),
    ("unix (send) include if exists <local/x>,", 1, 13),
    ("deny /x qqq,", 1, 9),
    ("/x x,", 1, 4),
    ("deny allow,", 1, 1),
    ("@@{HOME}x r,", 1, 1),
    ("dbus bus=session -> x,", 1, 18),
];

#[test]
fn attempts_to_leave_the_profile_are_refused_with_their_place() {
    const { assert!(INJECTIONS.len() >= 30) };
    let mut wrong = Vec::new();
    for (text, line, column) in INJECTIONS {
        let error = refused(text);
        if (error.line, error.column) != (*line, *column) || error.help.is_empty() {
            wrong.push(format!("{text:?}: {error}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_custom_profile_is_its_statements() {
    let text = "# made by hand\nabi <abi/3.0>,\n#include <tunables/global>\nprofile \"any name\" \
                flags=(attach_disconnected, mediate_deleted) {\n  #include <abstractions/base>\n  /srv/** r,\n  network \
                inet stream,\n}\n";
    let found = custom_profile(text).expect("a plain profile");
    assert!(found.contains(&"\"/srv/**\" r,".to_owned()), "{found:?}");
    assert!(
        found.contains(&"\"/dev/{random,urandom}\" r,".to_owned()),
        "the base is ours: {found:?}"
    );
    assert_eq!(
        custom_profile("profile x { file, }"),
        Ok(vec!["file,".to_owned()])
    );
}

#[test]
fn a_custom_profile_defines_nothing_else() {
    let mut wrong = Vec::new();
    for (text, line, column) in [
        ("", 1, 1),
        ("file,", 1, 1),
        ("profile x { file, ", 1, 17),
        ("profile x { file, }\nprofile y { file, }", 2, 1),
        ("profile x { file, } }", 1, 21),
        ("profile x { profile y { file, } }", 1, 13),
        ("profile x { ^y { file, } }", 1, 13),
        ("profile x /usr/sbin/sshd { file, }", 1, 11),
        ("/usr/sbin/sshd { file, }", 1, 1),
        ("profile x flags=(unconfined) { file, }", 1, 18),
        ("profile x flags=(complain) { file, }", 1, 18),
        ("profile x { #include <abstractions/authentication>\n }", 1, 13),
        ("#include <local/x>\nprofile x { file, }", 1, 1),
        ("@{X}=/etc\nprofile x { file, }", 1, 1),
        ("profile x { change_profile -> **, }", 1, 13),
        ("profile x { /bin/sh ux, }", 1, 21),
        ("profile { file, }", 1, 9),
        ("alias /a -> /b,\nprofile x { file, }", 1, 1),
    ] {
        let Err(error) = custom_profile(text) else {
            panic!("{text:?} was taken")
        };
        if (error.line, error.column) != (line, column) {
            wrong.push(format!("{text:?}: {error}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// Whether every brace of a statement stands in quotes, and every quote is closed.
fn is_confined(statement: &str) -> bool {
    let mut inside = false;
    for letter in statement.chars() {
        match letter {
            '"' => inside = !inside,
            '{' | '}' | '#' | '\\' | '<' | '@' | '$' | '^' | '&' if !inside => return false,
            letter if letter.is_control() => return false,
            _ => {}
        }
    }
    !inside && statement.ends_with(',')
}

/// Pieces that texts of this language are made of, good and bad.
fn pieces() -> impl Strategy<Value = String> {
    let words = [
        "deny",
        "audit",
        "owner",
        "/etc/passwd",
        "\"/a b\"",
        "r",
        "rw",
        "ix",
        "ux",
        "Px",
        ",",
        ",\n",
        "{",
        "}",
        "(",
        ")",
        "=",
        "->",
        "profile",
        "include",
        "#include",
        "<abstractions/base>",
        "@{PROC}",
        "@{X}",
        "${Y}",
        "\\",
        "\"",
        "#",
        "\n",
        "peer",
        "capability",
        "network",
        "mount",
        "options",
        "fstype",
        "signal",
        "unconfined",
        "^",
        "//&",
        "change_profile",
        "abi",
        "\\175",
        "/{a,b}",
        "/[^a]*",
        "\u{e9}",
        "\u{0}",
        "file",
        "hat",
        "in",
    ];
    let piece = prop_oneof![
        4 => prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec((piece, any::<bool>()), 0..24).prop_map(|pieces| {
        pieces
            .into_iter()
            .flat_map(|(piece, space)| [piece, if space { " ".to_owned() } else { String::new() }])
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn whatever_is_taken_stays_within_the_profile(text in pieces()) {
        for found in [statements(&text), custom_profile(&format!("profile x {{ {text} }}"))].into_iter().flatten() {
            for statement in found {
                prop_assert!(is_confined(&statement), "{text:?} -> {statement}");
                // What was written anew means the same when it is read again.
                prop_assert_eq!(statements(&statement), Ok(vec![statement.clone()]), "{}", text);
            }
        }
    }
}

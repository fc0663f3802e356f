//! Whatever the bytes are, `load` returns.

use proptest::prelude::*;

use super::super::load;
use super::GOOD;
use crate::policy::render;
use crate::profile::{Disk, NodeFacts, build};

/// Loads, renders and builds everything; the diagnostics must point into the file.
fn survives(bytes: &[u8]) {
    let loaded = load("any.yaml", bytes);
    let lines =
        u32::try_from(bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count()).expect("small") + 2;
    for diagnostic in &loaded.diagnostics {
        assert!(
            diagnostic.line >= 1 && diagnostic.line <= lines,
            "{diagnostic:?} in {lines} lines"
        );
        assert!(diagnostic.column >= 1, "{diagnostic:?}");
        assert!(!render(diagnostic).is_empty());
    }
    for document in &loaded.documents {
        let built = build(
            document,
            &NodeFacts {
                disk_devices: vec![Disk::default()],
            },
        );
        assert_eq!(
            built.profile.is_none(),
            built.diagnostics.iter().any(crate::policy::Diagnostic::is_error)
        );
    }
}

/// Pieces that YAML and policies are made of.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ": ",
            "- ",
            "? ",
            "&a ",
            "*a",
            "*a ",
            "!!str ",
            "! ",
            "!x ",
            "|\n",
            ">-\n",
            "---\n",
            "...\n",
            "\n",
            "  ",
            "\t",
            "#",
            "'",
            "\"",
            "\\",
            "\0",
            "\u{feff}",
            "\u{2028}",
            "<<: ",
            "%YAML 1.2\n",
            "~",
            "null",
            "0x",
            "1e999",
            "-9223372036854775808",
            "true",
            "kind: VarmorPolicy\n",
            "spec:\n",
            "  policy:\n",
            "[!",
            "{a,",
            "/**/",
            "\r\n",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
        (0..GOOD.len(), 0..40usize).prop_map(|(start, length)| GOOD
            .chars()
            .skip(start)
            .take(length)
            .collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        survives(&bytes);
    }

    #[test]
    fn arbitrary_yaml_never_panics(pieces in prop::collection::vec(piece(), 0..40)) {
        survives(pieces.concat().as_bytes());
    }

    #[test]
    fn a_mutated_policy_never_panics(
        edits in prop::collection::vec((0..GOOD.len(), 0..12usize, piece()), 1..6),
    ) {
        let mut text: Vec<u8> = GOOD.into();
        for (start, length, piece) in edits {
            let start = start.min(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, piece.bytes());
        }
        survives(&text);
    }
}

//! Files that are made to hurt: they cost little and are named.

use std::time::{Duration, Instant};

use super::{GOOD, said};

#[test]
fn a_byte_that_is_not_utf8_is_named_with_its_place() {
    let mut bytes = GOOD.as_bytes().to_vec();
    let at = GOOD.find("namespace: demo").expect("the good policy has it") + 4;
    bytes[at] = 0xff;
    assert_eq!(
        said(&bytes),
        ["web.yaml:5:7: error: byte 0xff is not UTF-8\n  help: save the file as UTF-8"]
    );
    assert_eq!(
        said([0xc3]),
        ["web.yaml:1:1: error: byte 0xc3 is not UTF-8\n  help: save the file as UTF-8"]
    );
}

#[test]
fn a_file_beyond_the_limit_is_not_read() {
    let said = said(vec![b'#'; (4 << 20) + 1]);
    assert_eq!(
        said,
        [
            "web.yaml:1:1: error: the file has 4194305 bytes; the limit is 4194304\n  help: split it into several files"
        ]
    );
}

#[test]
fn aliases_do_not_grow_without_limit() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let alias = format!("*a{}", level - 1);
        text.extend([format!("a{level}: &a{level} [{}]\n", vec![alias; 9].join(", "))]);
    }
    let start = Instant::now();
    let said = said(&text);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("error: the document grows beyond 300000 values when its aliases are expanded"),
        "{said:?}"
    );
    assert!(said[0].starts_with("web.yaml:6:"), "{said:?}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn nested_aliases_do_not_grow_in_depth() {
    let mut text = "a0: &a0 [[[[[[[[x]]]]]]]]\n".to_owned();
    for level in 1..10_000 {
        text.extend([format!("a{level}: &a{level} [*a{}]\n", level - 1)]);
    }
    let said = said(&text);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("error: the document is nested deeper than 64 levels"),
        "{said:?}"
    );
}

#[test]
fn deep_nesting_is_refused() {
    for bracket in ["[", "{a: ", "- ", "? "] {
        let said = said(bracket.repeat(100_000));
        assert_eq!(said.len(), 1, "{bracket}: {said:?}");
        assert!(
            said[0].contains("64 levels") || said[0].contains("this is not YAML"),
            "{bracket}: {said:?}"
        );
    }
}

#[test]
fn an_alias_to_itself_is_refused() {
    let said = said("a: &a [*a]\n");
    assert_eq!(
        said,
        [
            "web.yaml:1:8: error: the alias refers to the object that it stands in\n  help: write the value out"
        ]
    );
}

#[test]
fn aliases_and_anchors_work_within_the_limits() {
    let text = GOOD
        .replace(
            "qualifiers: [deny]\n          pattern",
            "qualifiers: &q [deny]\n          pattern",
        )
        .replace(
            "qualifiers: [deny]\n              ip",
            "qualifiers: *q\n              ip",
        );
    assert_eq!(said(text), [""; 0]);
}

#[test]
fn a_thousand_mistakes_do_not_fill_a_log() {
    let fields = lines(1000);
    let said = said(format!("{GOOD}{fields}"));
    assert_eq!(said.len(), 201);
    assert!(said[200].contains("more problems are not shown"), "{}", said[200]);
}

#[test]
fn a_map_with_many_keys_is_read_in_linear_time() {
    let fields = lines(100_000);
    let start = Instant::now();
    assert!(!said(fields).is_empty());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn control_characters_of_a_file_do_not_reach_the_terminal() {
    let said = said(GOOD.replace("[disallow-umount]", "[\"\\e[31mred\\n\"]"));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(!said[0].contains('\u{1b}'), "{said:?}");
    assert_eq!(said[0].lines().count(), 2, "{said:?}");
}

#[test]
fn ten_thousand_rules_are_read_and_built_quickly() {
    let rules: Vec<String> = (0..10_000)
        .map(|index| {
            format!("        - {{qualifiers: [deny], pattern: /data/{index}/**, permissions: [write]}}")
        })
        .collect();
    let text = GOOD.replace(
        "        files:\n",
        &format!("        files:\n{}\n", rules.join("\n")),
    );
    let start = Instant::now();
    let loaded = crate::policy::load("web.yaml", text.as_bytes());
    assert_eq!(loaded.diagnostics, []);
    let built = crate::profile::build(&loaded.documents[0], &crate::profile::NodeFacts::default());
    assert!(built.profile.is_some_and(|profile| profile.rules.len() > 10_000));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// So many different fields, one per line.
fn lines(count: usize) -> String {
    let lines: Vec<String> = (0..count).map(|index| format!("x{index}: 1")).collect();
    lines.join("\n") + "\n"
}

//! The house rules that no compiler checks.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{process, workspace};

/// What needs something that takes long to build runs in a suite of its own, and is counted as skipped elsewhere.
const RUN_ELSEWHERE: &str = "cargo xtask test --suite ";
const LONGEST_FILE: usize = 700;
/// Folders and hosts of somebody's machine have no place in the repository. Split, so that this file passes.
const FOREIGN: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("deb.deb", "ian.org"),
];
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("todo", "!("),
    concat!("unimple", "mented!("),
];

/// Every broken rule as `file:line: what is wrong and what to do`.
pub(crate) fn check() -> Result<Vec<String>> {
    let root = workspace::root();
    let files = repository_files(&root)?;
    let mut broken = Vec::new();
    let sources: Vec<&PathBuf> = files
        .iter()
        .filter(|file| file.extension().is_some_and(|ending| ending == "rs"))
        .collect();
    for file in &sources {
        let text = fs::read_to_string(root.join(file)).with_context(|| format!("read {}", file.display()))?;
        broken.extend(
            source_rules(&text)
                .into_iter()
                .map(|problem| format!("{}:{problem}", file.display())),
        );
    }
    for file in &files {
        // Binary files are not read by people.
        let Ok(text) = fs::read_to_string(root.join(file)) else {
            continue;
        };
        broken.extend(
            text_rules(&text)
                .into_iter()
                .map(|problem| format!("{}:{problem}", file.display())),
        );
    }
    broken.extend(orphans(&root, &sources)?);
    Ok(broken)
}

fn source_rules(text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if !text.lines().next().is_some_and(|line| line.starts_with("//! ")) {
        broken.push("1: the first line does not say what the file owns; begin it with `//! `".to_owned());
    }
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        broken.push(format!(
            "{lines}: more than {LONGEST_FILE} lines; split it by concept"
        ));
    }
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        if line.contains(concat!("#[ign", "ore")) && !line.contains(RUN_ELSEWHERE) {
            broken.push(format!(
                "{number}: a test that is ignored proves nothing; let it run, name the suite that runs it (`{RUN_ELSEWHERE}NAME`) or remove it"
            ));
        }
        for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
            broken.push(format!("{number}: `{word}` marks unfinished work; finish it"));
        }
    }
    broken
}

fn text_rules(text: &str) -> Vec<String> {
    let foreign = |(index, line): (usize, &str)| {
        let found = FOREIGN.iter().find(|word| line.contains(**word))?;
        Some(format!(
            "{}: `{found}` belongs to one machine; ask the machine instead",
            index + 1
        ))
    };
    text.lines().enumerate().filter_map(foreign).collect()
}

/// Files that no other file declares: they compile nowhere and rot.
fn orphans(root: &Path, sources: &[&PathBuf]) -> Result<Vec<String>> {
    let mut reached = BTreeSet::new();
    for file in sources {
        if is_crate_root(file) {
            visit(root, file, &mut reached)?;
        }
    }
    let orphan = |file: &&&PathBuf| !reached.contains(**file);
    let say = |file: &&PathBuf| {
        format!(
            "{}:1: no `mod` leads to this file; declare or remove it",
            file.display()
        )
    };
    Ok(sources.iter().filter(orphan).map(say).collect())
}

fn is_crate_root(file: &Path) -> bool {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    matches!(
        parts.as_slice(),
        [_, "src", "main.rs" | "lib.rs"]
            | [_, "build.rs"]
            | [_, "src", "bin", _]
            | [_, "src", "bin", _, "main.rs"]
            | [_, "tests" | "benches" | "examples", _]
            | [_, "tests" | "benches" | "examples", _, "main.rs"]
            | [_, "fuzz", "fuzz_targets", _]
    )
}

fn visit(root: &Path, file: &Path, reached: &mut BTreeSet<PathBuf>) -> Result<()> {
    if !reached.insert(file.to_path_buf()) {
        return Ok(());
    }
    let text = fs::read_to_string(root.join(file)).with_context(|| format!("read {}", file.display()))?;
    let parent = file.parent().unwrap_or(Path::new(""));
    let stem = file
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    let owns_folder = matches!(stem, "main" | "lib" | "mod") || is_crate_root(file);
    let folder = if owns_folder {
        parent.to_path_buf()
    } else {
        parent.join(stem)
    };
    let mut named = None;
    for line in text.lines().map(str::trim) {
        if let Some(path) = line
            .strip_prefix("#[path = \"")
            .and_then(|rest| rest.strip_suffix("\"]"))
        {
            named = Some(parent.join(path));
            continue;
        }
        let Some(module) = declared_module(line) else {
            continue;
        };
        let places = [
            folder.join(format!("{module}.rs")),
            folder.join(module).join("mod.rs"),
        ];
        for place in named.take().into_iter().chain(places) {
            if root.join(&place).is_file() {
                visit(root, &place, reached)?;
            }
        }
    }
    Ok(())
}

/// The name in `mod name;` with any visibility.
fn declared_module(line: &str) -> Option<&str> {
    let rest = line.strip_suffix(';')?;
    let (before, name) = rest.rsplit_once("mod ")?;
    let visibility = before.trim();
    let is_visibility = visibility.is_empty()
        || visibility == "pub"
        || (visibility.starts_with("pub(") && visibility.ends_with(')'));
    (is_visibility && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

/// What git would commit: tracked files and new ones that are not ignored.
fn repository_files(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.to_string_lossy();
    let arguments = [
        "-C",
        &folder,
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let list = process::output("git", arguments)?;
    let mut files: Vec<PathBuf> = list
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect();
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{declared_module, is_crate_root, source_rules, text_rules};

    #[test]
    fn file_without_its_first_line_is_reported() {
        assert!(source_rules("//! Owns nothing.\nfn main() {}\n").is_empty());
        assert_eq!(source_rules("fn main() {}\n").len(), 1);
    }

    #[test]
    fn an_ignored_test_names_the_suite_that_runs_it() {
        let source = |reason: &str| format!("//! Owns.\n{}{reason}]\nfn a() {{}}\n", concat!("#[ign", "ore"));
        assert_eq!(source_rules(&source("")).len(), 1);
        assert_eq!(source_rules(&source(" = \"slow\"")).len(), 1);
        assert!(source_rules(&source(" = \"slow: cargo xtask test --suite apiserver\"")).is_empty());
    }

    #[test]
    fn folders_of_one_machine_are_reported_with_their_line() {
        let line = ["first line", concat!("see /wo", "rk/main")].join("\n");
        let broken = text_rules(&line);
        assert_eq!(broken.len(), 1);
        assert!(broken[0].starts_with("2: "));
    }

    #[test]
    fn module_declarations_are_recognised() {
        assert_eq!(declared_module("mod a;"), Some("a"));
        assert_eq!(declared_module("pub(crate) mod a_1;"), Some("a_1"));
        assert_eq!(declared_module("pub mod a {"), None);
        assert_eq!(declared_module("let x = \"mod y\";"), None);
    }

    #[test]
    fn crate_roots_are_recognised() {
        for root in [
            "a/src/main.rs",
            "a/src/lib.rs",
            "a/src/bin/tool.rs",
            "a/src/bin/tool/main.rs",
            "a/tests/t.rs",
            "a/benches/b.rs",
        ] {
            assert!(is_crate_root(Path::new(root)), "{root}");
        }
        for other in ["a/src/thing.rs", "a/src/bin/tool/part.rs", "a/src/part/main.rs"] {
            assert!(!is_crate_root(Path::new(other)), "{other}");
        }
    }
}

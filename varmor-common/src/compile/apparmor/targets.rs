//! Child profiles for single executables.

use std::collections::BTreeMap;

use super::{CompileError, glob};
use crate::matcher::{Pattern, name_hash};
use crate::profile::Profile;

/// A group of targets of the profile.
pub(super) struct Group {
    /// Of the child profile. It does not depend on the order of the groups, so that a task keeps its rules when the
    /// policy changes.
    pub(super) name: String,
    /// Index into `Profile::targets`.
    pub(super) index: usize,
    pub(super) executables: Vec<String>,
    /// The same as they stand in `AppArmor`'s text.
    paths: Vec<String>,
}

/// Only tells groups of one profile apart, so it needs no secret.
const KEY: u64 = 0x6161_7461_7267;

/// The groups of a profile; what their executables are must be known by name.
pub(super) fn groups(profile: &Profile) -> Result<Vec<Group>, CompileError> {
    let mut groups = Vec::new();
    for (index, group) in profile.targets.iter().enumerate() {
        let mut paths = Vec::new();
        for text in &group.executables {
            let pattern = Pattern::parse(text).map_err(|source| CompileError::Target {
                pattern: text.clone(),
                source: Box::new(source),
            })?;
            for components in pattern.alternatives() {
                match glob::exact(components) {
                    Some(path) => paths.push(path),
                    None => return Err(CompileError::WildTarget(text.clone())),
                }
            }
        }
        groups.push(Group {
            name: format!(
                "t{:016x}",
                name_hash(KEY, group.executables.join("\n").as_bytes())
            ),
            index,
            executables: group.executables.clone(),
            paths,
        });
    }
    Ok(groups)
}

/// The rules that enter the groups, for the profile itself or for one of its children.
pub(super) fn transitions(groups: &[Group], name: &str, within: Option<usize>) -> Vec<String> {
    // A child needs none: the profile below it in the stack brings the task into further groups, and the child stays.
    if within.is_some() {
        return Vec::new();
    }
    let mut entered: BTreeMap<&str, String> = BTreeMap::new();
    for group in groups {
        for path in &group.paths {
            let stack = entered.entry(path).or_insert_with(|| name.to_owned());
            for part in ["//&", name, "//", group.name.as_str()] {
                stack.push_str(part);
            }
        }
    }
    entered
        .iter()
        .map(|(path, stack)| format!("\"{path}\" px -> \"{stack}\","))
        .collect()
}

/// Whether the line allows running exactly a target: then it says two things about one exec.
pub(super) fn conflicts(groups: &[Group], line: &str) -> bool {
    without_conflict(groups, line).as_deref() != Some(line)
}

/// The line without the exec that a transition is about; nothing if nothing else is left.
pub(super) fn without_conflict(groups: &[Group], line: &str) -> Option<String> {
    let is_refusal = line.starts_with("deny ") || line.starts_with("audit deny ");
    let paths = groups.iter().flat_map(|group| &group.paths);
    for path in paths {
        for spelling in [format!("\"{path}\" "), format!("\"{path}{{,/}}\" ")] {
            let Some((head, access)) = line.split_once(&spelling) else {
                continue;
            };
            if is_refusal || !access.contains("ix") {
                continue;
            }
            let rest = access.replace("ix", "");
            return (rest != ",").then(|| format!("{head}{spelling}{rest}"));
        }
    }
    Some(line.to_owned())
}

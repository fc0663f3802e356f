//! File rules and resolved mount sources -> the path automaton.

use std::collections::HashSet;

use super::defaults::with_structure;
use super::error::name_patterns;
use super::mounts::Classes;
use super::sites::Sites;
use super::targets::{self, Bits};
use super::{Artefact, CompileError, SiteRule};
use crate::abi::{MASK_ALLOW, MASK_AUDIT, MASK_DENY, PERM_STRUCT, PROFILE_FILESYSTEMS};
use crate::matcher::automaton::{self, BuildError, Sequence};
use crate::matcher::filter;
use crate::matcher::{Component, Pattern};
use crate::profile::{Object, Profile, Rule, Verdict};

/// The pattern of a rule that has one.
pub(super) fn pattern_text(rule: &Rule) -> Option<&str> {
    match &rule.object {
        Object::Path { pattern, .. } => Some(pattern),
        Object::Mount(mount) => Some(&mount.source),
        _ => None,
    }
}

/// The parsed patterns, by rule.
pub(super) fn patterns(profile: &Profile) -> Result<Vec<Option<Pattern>>, CompileError> {
    let parse = |rule: &Rule| {
        pattern_text(rule)
            .map(Pattern::parse)
            .transpose()
            .map_err(|source| CompileError::Pattern {
                rule: rule.id.clone(),
                field: rule.origin.field.clone(),
                pattern: excerpt(pattern_text(rule).unwrap_or_default()),
                source: Box::new(source),
            })
    };
    profile.rules.iter().map(parse).collect()
}

pub(super) fn compile(
    profile: &Profile,
    patterns: &[Option<Pattern>],
    classes: &Classes,
    bits: &Bits,
    key: u64,
    sites: &mut Sites,
    artefact: &mut Artefact,
) -> Result<(), CompileError> {
    let (files, mut sayings) = files(profile, patterns);
    let first_class = number(sayings.len());
    let mut mounts = Vec::new();
    for (rule, class) in &classes.of_rules {
        for components in patterns[*rule as usize].iter().flat_map(Pattern::alternatives) {
            mounts.push(Sequence {
                components: components.clone(),
                saying: first_class + class,
            });
        }
    }
    let targets = targets::patterns(profile)?;
    let first_target = first_class + classes.count();
    let executables = targets::components(&targets).map(|(group, components)| Sequence {
        components: components.clone(),
        saying: first_target + number(group),
    });
    let executables: Vec<Sequence> = executables.collect();
    for saying in sayings.iter().filter(|saying| saying.verdict != Verdict::Allow) {
        artefact.descriptor.file_perms |= saying.permissions;
    }
    let mut speak = |set: &[u32]| {
        if set[0] >= first_target {
            let bit = |saying: &u32| bits.of_groups[(saying - first_target) as usize];
            return (set.iter().fold(0, |mask, saying| mask | 1 << bit(saying)), 0);
        }
        if set[0] >= first_class {
            return (
                set.iter()
                    .fold(0, |bits, saying| bits | 1 << (saying - first_class)),
                0,
            );
        }
        let rules: Vec<SiteRule> = set.iter().map(|saying| sayings[*saying as usize]).collect();
        let masks = rules.iter().fold(0, |masks, rule| {
            masks | u64::from(rule.permissions) << shift(rule.verdict)
        });
        (masks, sites.number(rules))
    };
    let built = automaton::build(&[files, mounts, executables], key, &mut speak);
    let built = built.map_err(|error| {
        // A saying behind the file rules is a mount class, which any rule of it names, or a target group.
        sayings.truncate(first_class as usize);
        let rule_of = |saying: u32| match sayings.get(saying as usize) {
            Some(rule) => Some(rule.rule),
            None => classes
                .of_rules
                .iter()
                .find(|(_, class)| first_class + class == saying)
                .map(|(rule, _)| *rule),
        };
        let named = |sayings: Vec<u32>| name_patterns(profile, sayings.into_iter().filter_map(rule_of));
        match error {
            BuildError::Paths { sayings } => CompileError::TooManyStates {
                patterns: named(sayings),
            },
            BuildError::Names { sayings } => CompileError::TooManyGlobs {
                patterns: named(sayings),
            },
            BuildError::Collision { first, second } => CompileError::Collision {
                first: String::from_utf8_lossy(&first).into_owned(),
                second: String::from_utf8_lossy(&second).into_owned(),
            },
        }
    })?;
    let descriptor = &mut artefact.descriptor;
    filter::fill(
        built.transitions.iter().map(|(transition, _)| transition.symbol),
        &mut descriptor.filter,
        &mut descriptor.filter_several,
    );
    artefact.descriptor.file_start = built.starts[0];
    artefact.descriptor.file_start_flags = built.states[built.starts[0] as usize].flags;
    artefact.descriptor.mount_start = built.starts[1];
    artefact.descriptor.target_start = built.starts[2];
    artefact.descriptor.targets = number(profile.targets.len());
    if built.filesystems || artefact.descriptor.file_default != 0 {
        artefact.descriptor.flags |= PROFILE_FILESYSTEMS;
    }
    artefact.states = built.states;
    artefact.transitions = built.transitions;
    artefact.transitions.sort_unstable();
    artefact.component_globs = built.names.rows;
    Ok(())
}

/// The sequences of the file rules, and what each saying means. A folder that a denying rule passes through by
/// name is protected against being renamed or replaced; the first such rule speaks for it.
fn files(profile: &Profile, patterns: &[Option<Pattern>]) -> (Vec<Sequence>, Vec<SiteRule>) {
    let mut sequences = Vec::new();
    let mut sayings: Vec<SiteRule> = Vec::new();
    let mut protected: HashSet<&[Component]> = HashSet::new();
    for ((rule, pattern), index) in profile.rules.iter().zip(patterns).zip(0..) {
        let (Object::Path { access, .. }, Some(pattern)) = (&rule.object, pattern) else {
            continue;
        };
        if access.0 == 0 {
            continue;
        }
        let mut say = |permissions: u32, alternatives: &mut dyn Iterator<Item = &Vec<Component>>| {
            let saying = number(sayings.len());
            let before = sequences.len();
            sequences.extend(alternatives.map(|components| Sequence {
                components: components.clone(),
                saying,
            }));
            if sequences.len() > before {
                sayings.push(SiteRule {
                    permissions,
                    verdict: rule.verdict,
                    rule: index,
                });
            }
        };
        if rule.verdict == Verdict::Allow {
            let (trees, others): (Vec<_>, Vec<_>) = pattern
                .alternatives()
                .iter()
                .partition(|components| covers_below(components, pattern));
            say(with_structure(access.0), &mut trees.into_iter());
            say(access.0, &mut others.into_iter());
        } else {
            say(access.0, &mut pattern.alternatives().iter());
        }
        if rule.verdict != Verdict::Deny {
            continue;
        }
        let folders: Vec<&[Component]> = pattern
            .alternatives()
            .iter()
            .flat_map(|components| folders(components))
            .filter(|folder| protected.insert(folder))
            .collect();
        if !folders.is_empty() {
            let saying = number(sayings.len());
            sayings.push(SiteRule {
                permissions: PERM_STRUCT,
                verdict: Verdict::Deny,
                rule: index,
            });
            let exact = folders.into_iter().map(|folder| Sequence {
                components: folder.to_vec(),
                saying,
            });
            sequences.extend(exact);
        }
    }
    (sequences, sayings)
}

/// Whether everything below a path that these components match is matched by the pattern, too.
fn covers_below(components: &[Component], pattern: &Pattern) -> bool {
    let open = |component: &&Component| matches!(component, Component::Any | Component::Deep);
    let mut tail = components.iter().rev().take_while(open);
    if tail.any(|component| *component == Component::Deep) {
        return true;
    }
    let below = [components, &[Component::Deep, Component::Any]].concat();
    pattern.alternatives().contains(&below)
}

/// The proper prefixes that end in a name, unless the whole may stand anywhere.
fn folders(components: &[Component]) -> impl Iterator<Item = &[Component]> {
    let anchored = components.first() != Some(&Component::Deep);
    let ends = if anchored {
        1..components.len().max(1)
    } else {
        0..0
    };
    ends.map(|end| &components[..end])
        .filter(|folder| folder.last() != Some(&Component::Deep))
}

fn shift(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Deny => MASK_DENY,
        Verdict::Audit => MASK_AUDIT,
        Verdict::Allow => MASK_ALLOW,
    }
}

/// A pattern short enough for a message.
fn excerpt(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn number(length: usize) -> u32 {
    u32::try_from(length).expect("a profile has fewer rules than 2^32")
}

//! Mount rules -> mount classes and the automaton of source strings.

use std::collections::BTreeMap;

use super::error::name_patterns;
use super::sites::Sites;
use super::{CompileError, SiteRule};
use crate::abi::{
    GlobRow, MAX_MOUNT_CLASSES, MountClass, VERDICT_ALLOW, VERDICT_ANYWHERE, VERDICT_AUDIT, VERDICT_DENY,
};
use crate::matcher::{Pattern, glob, name_hash};
use crate::profile::{MountRule, Object, Profile, Verdict};

/// The classes of a profile, and which rule is in which.
pub(super) struct Classes {
    pub(super) table: Vec<MountClass>,
    /// (index into the profile's rules, index into the table)
    pub(super) of_rules: Vec<(u32, u32)>,
}

impl Classes {
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.table.len()).expect("the number of classes is checked")
    }
}

/// One class per rule as long as there is room, so that an event names the one rule; else one per distinct
/// combination.
pub(super) fn classes(
    profile: &Profile,
    patterns: &[Option<Pattern>],
    key: u64,
    sites: &mut Sites,
) -> Result<Classes, CompileError> {
    let rules: Vec<(u32, &MountRule, Verdict)> = profile
        .rules
        .iter()
        .zip(0..)
        .filter_map(|(rule, index)| match &rule.object {
            Object::Mount(mount) => Some((index, mount, rule.verdict)),
            _ => None,
        })
        .collect();
    let single = rules.len() <= MAX_MOUNT_CLASSES;
    let mut numbers: BTreeMap<_, usize> = BTreeMap::new();
    let mut members: Vec<Vec<SiteRule>> = Vec::new();
    let mut classes = Classes {
        table: Vec::new(),
        of_rules: Vec::new(),
    };
    for (index, mount, verdict) in rules {
        let bits = match verdict {
            Verdict::Deny => VERDICT_DENY,
            Verdict::Audit => VERDICT_AUDIT,
            Verdict::Allow => VERDICT_ALLOW,
        };
        let everything = |pattern: &Option<Pattern>| pattern.as_ref().is_some_and(Pattern::is_everything);
        let anywhere = patterns.get(index as usize).is_some_and(everything);
        let bits = if anywhere { bits | VERDICT_ANYWHERE } else { bits };
        let alone = single.then_some(index);
        let combination = (alone, mount.any, mount.none, mount.fstype.as_deref(), bits);
        let class = *numbers.entry(combination).or_insert_with(|| {
            let fstype = mount
                .fstype
                .as_ref()
                .map_or(0, |name| name_hash(key, name.as_bytes()));
            let class = MountClass {
                any: mount.any,
                none: mount.none,
                fstype,
                verdict: bits,
                site: 0,
            };
            classes.table.push(class);
            members.push(Vec::new());
            members.len() - 1
        });
        members[class].push(SiteRule {
            permissions: u32::MAX,
            verdict,
            rule: index,
        });
        let class = u32::try_from(class).expect("there are fewer classes than rules");
        classes.of_rules.push((index, class));
    }
    if classes.table.len() > MAX_MOUNT_CLASSES {
        let rule = &profile.rules[members[MAX_MOUNT_CLASSES][0].rule as usize];
        return Err(CompileError::TooManyMountClasses {
            count: classes.table.len(),
            rule: rule.id.clone(),
            field: rule.origin.field.clone(),
        });
    }
    for (class, members) in classes.table.iter_mut().zip(members) {
        class.site = sites.number(members);
    }
    Ok(classes)
}

/// The automaton over the strings that callers of mount(2) give.
pub(super) fn sources(
    profile: &Profile,
    patterns: &[Option<Pattern>],
    classes: &Classes,
) -> Result<Vec<GlobRow>, CompileError> {
    let sources: Vec<(&Pattern, u64)> = classes
        .of_rules
        .iter()
        .filter_map(|(rule, class)| {
            patterns[*rule as usize]
                .as_ref()
                .map(|pattern| (pattern, 1 << class))
        })
        .collect();
    glob::mount_sources(&sources).map_err(|_| CompileError::TooManyGlobs {
        patterns: name_patterns(profile, classes.of_rules.iter().map(|(rule, _)| *rule)),
    })
}

//! From the numbers of an event to a rule: the site tables of the last compilations, also those of earlier agents.
//!
//! They are files beside the hash key, one for each slot and generation, readable by root alone.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use varmor_common::compile::bpf::{Artefact, Site, SiteRule};
use varmor_common::profile::{DEFAULT_RULE, Origin, Profile, Rule, Verdict};

use crate::files;

/// Compilations per slot that are kept to explain events that are still in the ring.
const KEPT: usize = 4;

/// Which rules stand where in one compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Explanation {
    pub(super) profile: String,
    generation: u32,
    /// Rules that this enforcer cannot hold: id and reason.
    pub(super) unsupported: Vec<(String, String)>,
    /// Id, policy and field of what denies by default, in allow-list profiles.
    default: Option<RuleName>,
    /// For tasks in no target group.
    base: Table,
    /// By set of target groups.
    domains: Vec<(u32, Table)>,
    /// The target groups that exist.
    targets: u32,
}

/// Id, policy, field.
type RuleName = (String, String, String);

/// Rules, and which of them stand where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Table {
    rules: Vec<RuleName>,
    /// Permissions, verdict, index into the rules.
    sites: Vec<Vec<(u32, u8, u32)>>,
}

/// The explanations of this build, by slot, newest first.
pub(super) struct Explanations {
    folder: PathBuf,
    kept: BTreeMap<u32, VecDeque<Explanation>>,
}

impl Explanations {
    /// Reads what earlier agents left. What cannot be read explains nothing, and harms nothing.
    pub(super) fn open(folder: PathBuf) -> Self {
        let mut kept: BTreeMap<u32, VecDeque<Explanation>> = BTreeMap::new();
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some((slot, generation)) = numbers(&name) else {
                continue;
            };
            let Some(explanation) = fs::read(entry.path())
                .ok()
                .and_then(|bytes| serde_json::from_slice::<Explanation>(&bytes).ok())
                .filter(|explanation| explanation.generation == generation)
            else {
                continue;
            };
            kept.entry(slot).or_default().push_back(explanation);
        }
        for explanations in kept.values_mut() {
            explanations
                .make_contiguous()
                .sort_unstable_by_key(|explanation| std::cmp::Reverse(explanation.generation));
        }
        Self { folder, kept }
    }

    /// Keeps an explanation; to be called before the kernel can write events of that generation.
    pub(super) fn add(&mut self, slot: u32, explanation: Explanation) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let bytes = serde_json::to_vec(&explanation)?;
        files::replace(&self.path(slot, explanation.generation), &bytes)?;
        let explanations = self.kept.entry(slot).or_default();
        explanations.retain(|old| old.generation != explanation.generation);
        explanations.push_front(explanation);
        let old = if explanations.len() > KEPT {
            explanations.pop_back()
        } else {
            None
        };
        match old {
            Some(old) => remove(&self.path(slot, old.generation)),
            None => Ok(()),
        }
    }

    pub(super) fn forget(&mut self, slot: u32) -> io::Result<()> {
        for explanation in self.kept.remove(&slot).unwrap_or_default() {
            remove(&self.path(slot, explanation.generation))?;
        }
        Ok(())
    }

    pub(super) fn newest(&self, slot: u32) -> Option<&Explanation> {
        self.kept.get(&slot)?.front()
    }

    pub(super) fn get(&self, slot: u32, generation: u32) -> Option<&Explanation> {
        self.kept
            .get(&slot)?
            .iter()
            .find(|explanation| explanation.generation == generation)
    }

    fn path(&self, slot: u32, generation: u32) -> PathBuf {
        self.folder.join(format!("{slot}-{generation}.json"))
    }
}

impl Explanation {
    pub(super) fn new(profile: &Profile, artefact: &Artefact) -> Self {
        let unsupported = artefact.unsupported.iter().map(|missing| {
            let rule = profile.every_rule().nth(missing.rule as usize);
            (
                rule.map_or_else(String::new, |rule| rule.id.clone()),
                missing.reason.clone(),
            )
        });
        let origin = &profile.default.origin;
        let default = (
            DEFAULT_RULE.to_owned(),
            origin.policy.clone(),
            origin.field.clone(),
        );
        let domains = artefact.domains.iter().map(|(mask, domain)| {
            let rules = artefact.rules_of(profile, *mask);
            (*mask, Table::new(rules, domain))
        });
        Self {
            profile: profile.name.clone(),
            generation: artefact.descriptor.generation,
            unsupported: unsupported.collect(),
            default: (profile.default.kinds().0 != 0).then_some(default),
            base: Table::new(profile.rules.iter(), artefact),
            domains: domains.collect(),
            targets: artefact.target_mask(),
        }
    }

    /// Id and origin of what decided about these permissions: the rule that speaks at the site for a task in these
    /// target groups, or the default of an allow-list.
    pub(super) fn decided_by(&self, domain: u32, site: u32, requested: u32) -> Option<(String, Origin)> {
        let named = if site == 0 {
            self.default.as_ref()?
        } else {
            let mask = domain & self.targets;
            let mut domains = self.domains.iter();
            let own = domains.find(|(groups, _)| *groups == mask);
            own.map_or(&self.base, |(_, table)| table)
                .rule_at(site, requested)?
        };
        let (id, policy, field) = named.clone();
        Some((id, Origin { policy, field }))
    }
}

impl Table {
    fn new<'p>(rules: impl Iterator<Item = &'p Rule>, artefact: &Artefact) -> Self {
        let rules = rules.map(|rule| {
            (
                rule.id.clone(),
                rule.origin.policy.clone(),
                rule.origin.field.clone(),
            )
        });
        let sites = artefact.sites.iter().map(|site| {
            site.rules
                .iter()
                .map(|rule| (rule.permissions, number(rule.verdict), rule.rule))
                .collect()
        });
        Self {
            rules: rules.collect(),
            sites: sites.collect(),
        }
    }

    fn rule_at(&self, site: u32, requested: u32) -> Option<&RuleName> {
        let site = Site {
            rules: self
                .sites
                .get(site as usize)?
                .iter()
                .map(|(permissions, verdict, rule)| SiteRule {
                    permissions: *permissions,
                    verdict: self::verdict(*verdict),
                    rule: *rule,
                })
                .collect(),
        };
        self.rules.get(site.rule(requested)? as usize)
    }
}

/// `7-3.json` -> slot 7, generation 3.
fn numbers(name: &str) -> Option<(u32, u32)> {
    let (slot, generation) = name.strip_suffix(".json")?.split_once('-')?;
    Some((slot.parse().ok()?, generation.parse().ok()?))
}

fn number(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Deny => 0,
        Verdict::Audit => 1,
        Verdict::Allow => 2,
    }
}

fn verdict(number: u8) -> Verdict {
    match number {
        0 => Verdict::Deny,
        1 => Verdict::Audit,
        _ => Verdict::Allow,
    }
}

fn remove(path: &std::path::Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use varmor_common::abi::{PERM_READ, PERM_WRITE};

    use super::*;

    fn table(denying: &str) -> Table {
        Table {
            rules: vec![
                ("audit-all".into(), "VarmorPolicy demo/web".into(), "a".into()),
                (denying.into(), "VarmorPolicy demo/web".into(), "b".into()),
            ],
            sites: vec![vec![], vec![(PERM_WRITE, 0, 1), (PERM_READ | PERM_WRITE, 1, 0)]],
        }
    }

    fn explanation(generation: u32) -> Explanation {
        Explanation {
            profile: "web".to_owned(),
            generation,
            base: table("no-write"),
            domains: vec![(2, table("no-write-in-group"))],
            targets: 2,
            ..Explanation::default()
        }
    }

    #[test]
    fn rule_is_the_one_that_concerns_the_request() {
        let explanation = explanation(1);
        let id = |domain, requested| explanation.decided_by(domain, 1, requested).map(|(id, _)| id);
        assert_eq!(id(0, PERM_WRITE).as_deref(), Some("no-write"));
        assert_eq!(id(0, PERM_READ).as_deref(), Some("audit-all"));
        assert_eq!(explanation.decided_by(0, 0, PERM_READ), None);
        assert_eq!(explanation.decided_by(0, 9, PERM_READ), None);
    }

    #[test]
    fn tasks_in_target_groups_have_their_own_rules() {
        let explanation = explanation(1);
        let id = |domain| explanation.decided_by(domain, 1, PERM_WRITE).map(|(id, _)| id);
        assert_eq!(id(2).as_deref(), Some("no-write-in-group"));
        assert_eq!(
            id(1).as_deref(),
            Some("no-write"),
            "a group that is gone counts for nothing"
        );
        assert_eq!(id(3).as_deref(), Some("no-write-in-group"));
    }

    #[test]
    fn denial_without_a_rule_is_the_default_of_an_allow_list() {
        let mut explanation = explanation(1);
        explanation.default = Some((
            DEFAULT_RULE.to_owned(),
            "VarmorPolicy demo/web".into(),
            "c".into(),
        ));
        let id = explanation.decided_by(0, 0, PERM_READ).map(|(id, _)| id);
        assert_eq!(id.as_deref(), Some(DEFAULT_RULE));
    }

    #[test]
    fn next_agent_still_explains_events_of_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Explanations::open(folder.path().join("sites"));
        for generation in 1..=6 {
            first.add(3, explanation(generation)).unwrap();
        }
        let mut second = Explanations::open(folder.path().join("sites"));
        assert_eq!(second.get(3, 6), Some(&explanation(6)));
        assert_eq!(second.newest(3), Some(&explanation(6)));
        assert_eq!(second.get(3, 3), Some(&explanation(3)));
        assert_eq!(second.get(3, 2), None, "too old");
        second.forget(3).unwrap();
        assert_eq!(fs::read_dir(folder.path().join("sites")).unwrap().count(), 0);
    }

    #[test]
    fn broken_file_explains_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("3-1.json"), b"{").unwrap();
        fs::write(folder.path().join("nonsense"), b"{}").unwrap();
        assert_eq!(Explanations::open(folder.path().to_owned()).newest(3), None);
    }
}

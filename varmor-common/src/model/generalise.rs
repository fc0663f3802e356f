//! Patterns for names that will be others in the next run, each with its reason.
//!
//! What was seen stays allowed, and doing it twice changes nothing. Programs and libraries are never guessed at but for
//! their version: a pattern that may be executed is what an attacker looks for. For the same reason a pattern that may
//! be written never covers a file that is executed. Addresses stay as they are, because the next one may be that of the
//! cloud's metadata service.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::behaviour::{Behaviour, FileUse, Peer, RULED};
use super::names::{self, Why};
use super::path::{Name, Names};
use super::sensitive;
use crate::abi::{PERM_APPEND, PERM_EXEC, PERM_STRUCT, PERM_WRITE};
use crate::matcher::reference;
use crate::policy::Generalisation;

/// How much is guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// So many names of one folder, used in the same way, stand for all its names.
    pub siblings: usize,
    /// So many ports of one address stand for all its ports.
    pub ports: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            siblings: 10,
            ports: 10,
        }
    }
}

/// Two examples tell that a name is random, three that a number counts.
const RANDOM_EXAMPLES: usize = 2;
const NUMBER_EXAMPLES: usize = 3;

/// The behaviour with patterns, and what became one.
#[must_use]
pub fn generalise(seen: &Behaviour, settings: &Settings) -> (Behaviour, Vec<Generalisation>) {
    let mut general = seen.clone();
    let mut files = Files::new(seen);
    files.trees(&mut general.unhandled);
    loop {
        let before = files.entries.len();
        let changed = files.alone() | files.together(settings);
        files.absorb();
        if !changed && files.entries.len() == before {
            break;
        }
    }
    let mut said = files.explain();
    general.files = files.finish();
    general.connects = ports(&seen.connects, settings, "connections to", &mut said);
    general.binds = ports(&seen.binds, settings, "listening on", &mut said);
    (general, said)
}

#[derive(Default)]
struct Entry {
    seen: FileUse,
    why: BTreeSet<Why>,
}

struct Files {
    entries: BTreeMap<Names, Entry>,
    /// Entries that are executed, and entries that are written.
    executed: BTreeSet<Names>,
    written: BTreeSet<Names>,
}

/// A folder with all that is below.
const TREE: &str = "{,/**}";
const WRITTEN: u32 = PERM_WRITE | PERM_APPEND;

impl Files {
    fn new(behaviour: &Behaviour) -> Self {
        let mut files = Self {
            entries: BTreeMap::new(),
            executed: BTreeSet::new(),
            written: BTreeSet::new(),
        };
        for (pattern, seen) in &behaviour.files {
            let entry = Entry {
                seen: seen.clone(),
                why: BTreeSet::new(),
            };
            files.put(Names::of_pattern(pattern), entry);
        }
        files
    }

    fn put(&mut self, names: Names, entry: Entry) {
        if entry.seen.access & PERM_EXEC != 0 {
            self.executed.insert(names.clone());
        }
        if entry.seen.access & WRITTEN != 0 {
            self.written.insert(names.clone());
        }
        self.entries.insert(names, entry);
    }

    fn take(&mut self, names: &Names) -> Option<Entry> {
        self.executed.remove(names);
        self.written.remove(names);
        self.entries.remove(names)
    }

    /// Who moved a folder needs everything below it.
    fn trees(&mut self, unhandled: &mut BTreeSet<String>) {
        let moved = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.seen.access & PERM_STRUCT != 0);
        let moved: Vec<Names> = moved.map(|(names, _)| names.clone()).collect();
        for names in moved {
            let mut tree = names.clone();
            if let Some(last) = tree.0.last_mut() {
                *last = Name::Pattern(format!("{}{TREE}", last.text()));
            }
            if names.0.is_empty() || self.is_too_wide(&tree, PERM_WRITE, &names) {
                unhandled.insert(format!("moving or replacing the folder {}", plain(&names)));
            } else {
                self.merge([names.clone()], &tree, Why::Tree);
            }
            for (one, more) in [(names, 0), (tree, PERM_WRITE)] {
                if let Some(mut entry) = self.take(&one) {
                    entry.seen.access = (entry.seen.access | more) & RULED;
                    self.put(one, entry);
                }
            }
        }
    }

    /// Names that need no second example.
    fn alone(&mut self) -> bool {
        let mut changed = false;
        for names in self.entries.keys().cloned().collect::<Vec<_>>() {
            let Some(access) = self.entries.get(&names).map(|entry| entry.seen.access) else {
                continue;
            };
            for index in 0..names.0.len() {
                let Some((text, why)) = names::pattern(&names, index, true) else {
                    continue;
                };
                if self.try_merge(std::slice::from_ref(&names), index, text, why, access) {
                    changed = true;
                    break;
                }
            }
        }
        changed
    }

    /// Names that are told by others beside them.
    fn together(&mut self, settings: &Settings) -> bool {
        let mut groups: BTreeMap<(Why, Names), Vec<(Names, usize)>> = BTreeMap::new();
        for (names, entry) in &self.entries {
            for index in 0..names.0.len() {
                for (text, why) in shapes(names, index, entry.seen.access) {
                    let mut shape = names.clone();
                    shape.0[index] = Name::Pattern(text);
                    // The access is part of the shape: what is only read does not become writable.
                    let access = Name::Exact(format!("{:x}", entry.seen.access));
                    shape.0.push(access);
                    groups
                        .entry((why, shape))
                        .or_default()
                        .push((names.clone(), index));
                }
            }
        }
        let mut changed = false;
        for ((why, _), members) in groups {
            // A change before may have taken some of them; the next round counts the others.
            if !members.iter().all(|(names, _)| self.entries.contains_key(names)) {
                continue;
            }
            let needed = match why {
                Why::Siblings => settings.siblings.max(2),
                Why::Number => NUMBER_EXAMPLES,
                _ => RANDOM_EXAMPLES,
            };
            let (names, index) = (&members[0].0, members[0].1);
            let Some(access) = self.entries.get(names).map(|entry| entry.seen.access) else {
                continue;
            };
            if members.len() < needed {
                continue;
            }
            let text = if why == Why::Siblings {
                common(members.iter().map(|(names, index)| &names.0[*index]))
            } else {
                match shapes(names, index, access)
                    .into_iter()
                    .find(|(_, one)| *one == why)
                {
                    Some((text, _)) => text,
                    None => continue,
                }
            };
            let members: Vec<Names> = members.into_iter().map(|(names, _)| names).collect();
            changed |= self.try_merge(&members, index, text, why, access);
        }
        changed
    }

    fn try_merge(&mut self, members: &[Names], index: usize, text: String, why: Why, access: u32) -> bool {
        if access & PERM_EXEC != 0 && why != Why::Version {
            return false;
        }
        let mut general = members[0].clone();
        general.0[index] = Name::Pattern(text);
        if members
            .iter()
            .any(|member| self.is_too_wide(&general, access, member))
        {
            return false;
        }
        self.merge(members.iter().cloned(), &general, why);
        true
    }

    /// Whether the pattern gives away a secret, or lets somebody write what is executed.
    fn is_too_wide(&self, general: &Names, access: u32, names: &Names) -> bool {
        let own = plain(names);
        let meets = |others: &BTreeSet<Names>, but: Option<&Names>| {
            let mut others = others.iter().filter(|other| Some(*other) != but);
            others.any(|other| may_meet(general, other))
        };
        sensitive::gives_away(&general.to_string(), &|secret| own == secret)
            || (access & WRITTEN != 0 && meets(&self.executed, None))
            || (access & PERM_EXEC != 0 && meets(&self.written, Some(names)))
    }

    fn merge(&mut self, members: impl IntoIterator<Item = Names>, general: &Names, why: Why) {
        for member in members {
            let Some(old) = self.take(&member) else {
                continue;
            };
            let example = old.seen.example.clone().unwrap_or_else(|| plain(&member));
            let mut entry = self.take(general).unwrap_or_default();
            entry.seen.join(&old.seen);
            entry.seen.example.get_or_insert(example);
            entry.why.extend(old.why);
            entry.why.insert(why);
            self.put(general.clone(), entry);
        }
    }

    /// What a pattern with the same rights matches needs no entry of its own.
    fn absorb(&mut self) {
        let patterns = self.entries.iter().filter(|(names, _)| !names.is_exact());
        let patterns: Vec<(Names, u32)> = patterns
            .map(|(names, entry)| (names.clone(), entry.seen.access))
            .collect();
        for (pattern, access) in patterns {
            let covered = self.entries.iter().filter(|(names, entry)| {
                names.is_exact() && entry.seen.access & !access == 0 && matches(&pattern, names)
            });
            let covered: Vec<Names> = covered.map(|(names, _)| names.clone()).collect();
            for names in covered {
                if let (Some(old), Some(entry)) = (self.take(&names), self.entries.get_mut(&pattern)) {
                    entry.seen.join(&old.seen);
                }
            }
        }
    }

    fn explain(&self) -> Vec<Generalisation> {
        let made = self.entries.iter().filter(|(_, entry)| !entry.why.is_empty());
        made.map(|(names, entry)| Generalisation {
            from: entry.seen.example.clone().unwrap_or_default(),
            to: names.to_string(),
            examples: entry.seen.examples,
            why: entry
                .why
                .iter()
                .map(|why| why.text())
                .collect::<Vec<_>>()
                .join("; "),
        })
        .collect()
    }

    fn finish(self) -> BTreeMap<String, FileUse> {
        let entries = self.entries.into_iter();
        entries
            .map(|(names, entry)| (names.to_string(), entry.seen))
            .collect()
    }
}

/// The patterns that this name may become if others beside it have the same shape.
fn shapes(names: &Names, index: usize, access: u32) -> Vec<(String, Why)> {
    let Some(name) = names.0[index].exact() else {
        return Vec::new();
    };
    if access & PERM_EXEC != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    if sensitive::may_have_siblings(names, index) {
        found.extend(names::pattern(names, index, false));
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            found.push(("[0-9]*".to_owned(), Why::Number));
        }
        found.push(("*".to_owned(), Why::Siblings));
    }
    found
}

/// `*`, or `*.html` if all names end so.
fn common<'n>(names: impl Iterator<Item = &'n Name>) -> String {
    let extensions = names.map(|name| {
        name.exact()
            .and_then(|name| name.rsplit_once('.'))
            .map(|(_, end)| end)
    });
    let extensions: BTreeSet<Option<&str>> = extensions.collect();
    match extensions.first() {
        Some(Some(one)) if extensions.len() == 1 => format!("*.{}", super::path::escaped(one)),
        _ => "*".to_owned(),
    }
}

/// The path that the names spell, patterns as they are written.
fn plain(names: &Names) -> String {
    if names.0.is_empty() {
        return "/".to_owned();
    }
    let mut path = String::new();
    for name in &names.0 {
        path.push('/');
        match name {
            Name::Exact(name) | Name::Pattern(name) => path.push_str(name),
        }
    }
    path
}

/// Whether the pattern matches these names, one by one.
fn matches(pattern: &Names, names: &Names) -> bool {
    let is_tree = |name: &Name| matches!(name, Name::Pattern(text) if text.contains('/'));
    if pattern.0.iter().any(is_tree) {
        return reference::matches(&pattern.to_string(), plain(names).as_bytes());
    }
    pattern.0.len() == names.0.len()
        && pattern
            .0
            .iter()
            .zip(&names.0)
            .all(|(pattern, name)| match (pattern, name) {
                (Name::Pattern(pattern), Name::Exact(name)) => {
                    reference::matches(&format!("/{pattern}"), format!("/{name}").as_bytes())
                }
                (pattern, name) => pattern == name,
            })
}

/// Whether a path may match both. Of two patterns nobody knows, so it is assumed.
fn may_meet(one: &Names, other: &Names) -> bool {
    for (first, second) in one.0.iter().zip(&other.0) {
        let bases = (base(first), base(second));
        let is_tree = bases.0.is_some() || bases.1.is_some();
        let (first, second) = (
            bases.0.as_ref().unwrap_or(first),
            bases.1.as_ref().unwrap_or(second),
        );
        let meet = match (first, second) {
            (Name::Exact(first), Name::Exact(second)) => first == second,
            (Name::Pattern(pattern), Name::Exact(name)) | (Name::Exact(name), Name::Pattern(pattern)) => {
                reference::matches(&format!("/{pattern}"), format!("/{name}").as_bytes())
            }
            (Name::Pattern(_), Name::Pattern(_)) => true,
        };
        if !meet || is_tree {
            return meet;
        }
    }
    one.0.len() == other.0.len()
}

/// The folder of a tree.
fn base(name: &Name) -> Option<Name> {
    match name {
        Name::Pattern(text) => Names::of_pattern(&format!("/{}", text.strip_suffix(TREE)?))
            .0
            .pop(),
        Name::Exact(_) => None,
    }
}

fn ports(
    peers: &BTreeSet<Peer>,
    settings: &Settings,
    what: &str,
    said: &mut Vec<Generalisation>,
) -> BTreeSet<Peer> {
    let mut by_address: BTreeMap<Option<IpAddr>, Vec<Option<u16>>> = BTreeMap::new();
    for (ip, port) in peers {
        by_address.entry(*ip).or_default().push(*port);
    }
    let mut general = BTreeSet::new();
    for (ip, ports) in by_address {
        let every = ports.contains(&None);
        if !every && ports.len() < settings.ports.max(2) {
            general.extend(ports.into_iter().map(|port| (ip, port)));
            continue;
        }
        general.insert((ip, None));
        if let (false, Some(address), Some(Some(port))) = (every, ip, ports.first()) {
            said.push(Generalisation {
                from: format!("{what} {}", std::net::SocketAddr::new(address, *port)),
                to: format!("{what} every port of {address}"),
                examples: u64::try_from(ports.len()).unwrap_or(u64::MAX),
                why: "many ports of the same address were used: they are chosen anew each time".to_owned(),
            });
        }
    }
    general
}

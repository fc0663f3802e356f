//! Paths that two profiles decide differently: a search through the product of their automata.
//!
//! Both are read from the leaf to the root, name by name. Names that either spells out are tried as they are, one name
//! for each pair of glob classes (found in the product of the byte automata), and one name that nobody knows.
//! So the search is complete for paths without mounts of special filesystems, and a path that it finds is a shortest.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::abi::{GLOB_START, GlobRow, STATE_EMITS, STATE_INHERITS, STATE_SINK};
use crate::compile::bpf::Artefact;
use crate::matcher::{Component, Pattern, Walk, class_symbol, decide, glob, merge, name_hash, next};
use crate::profile::{Object, Profile};

/// Most places of the product that are visited for one permission.
const MOST: usize = 400_000;
/// Most pairs of byte states that are visited for names.
const MOST_NAMES: usize = 200_000;
/// How many names are tried for one pair of byte states: the first ones may be spelled out in a pattern, and then
/// stand for themselves only.
const VISITS: usize = 8;

/// A profile with its tables.
pub(super) struct Side<'s> {
    artefact: &'s Artefact,
    walk: Walk<'s>,
    /// The symbols with a transition, by state.
    symbols: HashMap<u32, Vec<u64>>,
}

/// A path that the sides decide differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Witness {
    pub(super) path: Vec<u8>,
    pub(super) denied_before: bool,
}

/// The sides could not be searched to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unfinished;

impl<'s> Side<'s> {
    pub(super) fn new(artefact: &'s Artefact, key: u64) -> Self {
        let mut symbols: HashMap<u32, Vec<u64>> = HashMap::new();
        for (transition, _) in &artefact.transitions {
            symbols
                .entry(transition.state)
                .or_default()
                .push(transition.symbol);
        }
        Self {
            artefact,
            walk: Walk::new(artefact, key),
            symbols,
        }
    }

    fn step(&self, place: Place, name: &[u8], key: u64, permission: u32) -> Place {
        if place.done {
            return place;
        }
        let record = &self.artefact.states[place.state as usize];
        let state = next(&self.walk, place.state, record, name_hash(key, name), || {
            let class = glob::run(&self.artefact.component_globs, name);
            u32::try_from(class)
                .ok()
                .filter(|class| *class != 0)
                .map(|class| class_symbol(key, class))
        });
        let record = &self.artefact.states[state as usize];
        let mut said = place.said;
        if record.flags & STATE_EMITS != 0 {
            said = merge(said, record.now, 0, permission) & mask(permission);
        }
        Place {
            state,
            said,
            done: record.flags & STATE_SINK != 0,
        }
    }

    fn denies(&self, place: Place, permission: u32) -> bool {
        let mut said = place.said;
        if !place.done {
            said = merge(
                said,
                self.artefact.states[place.state as usize].root,
                0,
                permission,
            );
        }
        decide(said, permission, self.artefact.descriptor.file_default).denied != 0
    }

    fn start(&self) -> Place {
        Place {
            state: self.artefact.descriptor.file_start,
            said: 0,
            done: false,
        }
    }

    /// The names that lead somewhere of their own from here.
    fn names<'n>(&self, place: Place, known: &'n HashMap<u64, Vec<u8>>) -> Vec<&'n [u8]> {
        if place.done {
            return Vec::new();
        }
        let record = &self.artefact.states[place.state as usize];
        let inherited = (record.flags & STATE_INHERITS != 0).then_some(record.default);
        [Some(place.state), inherited]
            .into_iter()
            .flatten()
            .filter_map(|state| self.symbols.get(&state))
            .flatten()
            .filter_map(|symbol| known.get(symbol).map(Vec::as_slice))
            .collect()
    }
}

/// Where a walk stands, and what has been said of the one permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    state: u32,
    said: u64,
    done: bool,
}

/// The bits of a permission in a collected word.
const fn mask(permission: u32) -> u64 {
    let bits = permission as u64;
    bits | bits << 8 | bits << 16
}

/// The shortest witnesses of both directions.
pub(super) fn witnesses(
    sides: [&Side<'_>; 2],
    known: &HashMap<u64, Vec<u8>>,
    classes: &[Vec<u8>],
    key: u64,
    permission: u32,
) -> Result<Vec<Witness>, Unfinished> {
    let [old, new] = sides;
    let mut found: BTreeMap<bool, Witness> = BTreeMap::new();
    let mut visited: Vec<([Place; 2], Option<usize>, Vec<u8>)> =
        vec![([old.start(), new.start()], None, Vec::new())];
    let mut seen: HashSet<[Place; 2]> = HashSet::from([visited[0].0]);
    let mut queue = VecDeque::from([0]);
    while let Some(at) = queue.pop_front() {
        let places = visited[at].0;
        let denied = [
            old.denies(places[0], permission),
            new.denies(places[1], permission),
        ];
        if denied[0] != denied[1] {
            found.entry(denied[0]).or_insert_with(|| Witness {
                path: path(&visited, at),
                denied_before: denied[0],
            });
            if found.len() == 2 {
                break;
            }
        }
        let own = old
            .names(places[0], known)
            .into_iter()
            .chain(new.names(places[1], known));
        for name in own.chain(classes.iter().map(Vec::as_slice)) {
            let reached = [
                old.step(places[0], name, key, permission),
                new.step(places[1], name, key, permission),
            ];
            if seen.insert(reached) {
                if visited.len() >= MOST {
                    return Err(Unfinished);
                }
                visited.push((reached, Some(at), name.to_vec()));
                queue.push_back(visited.len() - 1);
            }
        }
    }
    Ok(found.into_values().collect())
}

/// The names were read from the leaf on, so the last one read stands first.
fn path(visited: &[([Place; 2], Option<usize>, Vec<u8>)], mut at: usize) -> Vec<u8> {
    let mut text = Vec::new();
    while let (_, Some(before), name) = &visited[at] {
        text.push(b'/');
        text.extend_from_slice(name);
        at = *before;
    }
    if text.is_empty() { b"/".to_vec() } else { text }
}

/// The names that the patterns of the profiles spell out, by symbol.
pub(super) fn known_names(profiles: [&Profile; 2], key: u64) -> HashMap<u64, Vec<u8>> {
    let mut names = HashMap::new();
    let patterns = profiles
        .into_iter()
        .flat_map(Profile::in_force)
        .filter_map(|rule| match &rule.object {
            Object::Path { pattern, .. } => Pattern::parse(pattern).ok(),
            _ => None,
        });
    for pattern in patterns {
        for component in pattern.alternatives().iter().flatten() {
            if let Component::Literal(name) = component {
                names.insert(name_hash(key, name), name.clone());
            }
        }
    }
    names
}

/// One name for each pair of glob classes, and one that is in none and spelled out nowhere.
pub(super) fn class_names(
    sides: [&Side<'_>; 2],
    known: &HashMap<u64, Vec<u8>>,
) -> Result<Vec<Vec<u8>>, Unfinished> {
    let [old, new] = sides.map(|side| &side.artefact.component_globs[..]);
    let spelled: HashSet<&[u8]> = known.values().map(Vec::as_slice).collect();
    let mut found: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
    let mut visits: HashMap<(u32, u32), usize> = HashMap::new();
    let mut visited = 0;
    let mut queue = VecDeque::from([((GLOB_START, GLOB_START), Vec::new())]);
    while let Some((states, name)) = queue.pop_front() {
        let plain = !name.is_empty() && name != b"." && name != b".." && !spelled.contains(&name[..]);
        if plain {
            let classes = (accepts(old, states.0), accepts(new, states.1));
            found.entry(classes).or_insert_with(|| name.clone());
        }
        for byte in bytes() {
            let reached = (byte_step(old, states.0, byte), byte_step(new, states.1, byte));
            let visit = visits.entry(reached).or_default();
            if *visit == VISITS {
                continue;
            }
            *visit += 1;
            visited += 1;
            if visited > MOST_NAMES {
                return Err(Unfinished);
            }
            let mut longer = name.clone();
            longer.push(byte);
            queue.push_back((reached, longer));
        }
    }
    let mut names: Vec<Vec<u8>> = found.into_values().collect();
    if !found_is_complete(&names, old, new) {
        // Of so many names one is not spelled out.
        let stranger = (0..=spelled.len())
            .map(|n| format!("x{n}").into_bytes())
            .find(|name| !spelled.contains(&name[..]));
        names.extend(stranger);
    }
    Ok(names)
}

/// Some name is in no class of either side.
fn found_is_complete(names: &[Vec<u8>], old: &[GlobRow], new: &[GlobRow]) -> bool {
    names
        .iter()
        .any(|name| glob::run(old, name) == 0 && glob::run(new, name) == 0)
}

/// Bytes of names, those first that people can read.
fn bytes() -> impl Iterator<Item = u8> {
    let readable = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (b'a'..=b'z')
        .chain((1..=255).filter(move |byte| readable(byte) && !byte.is_ascii_lowercase()))
        .chain((1..=255).filter(move |byte| !readable(byte) && *byte != b'/'))
}

fn byte_step(rows: &[GlobRow], state: u32, byte: u8) -> u32 {
    rows.get(state as usize)
        .map_or(0, |row| u32::from(row.next[usize::from(byte)]))
}

fn accepts(rows: &[GlobRow], state: u32) -> u64 {
    if state == 0 {
        return 0;
    }
    rows.get(state as usize).map_or(0, |row| row.accept)
}

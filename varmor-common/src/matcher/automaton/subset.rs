//! Subset construction: which positions are active after which names.
//!
//! The active positions of a state are a *core* (positions that wait under a `**` and stay active for ever) and
//! the others. States that add others to a core inherit the core's transitions through their default.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::filesystem::MAGICS;
use super::nodes::{Node, Nodes};
use super::{BuildError, CORE_BUDGET, STATE_BUDGET, TRANSITION_BUDGET};
use crate::abi::{
    STATE_EMITS, STATE_ENDS, STATE_GLOBS, STATE_INHERITS, STATE_MOVES, STATE_SINK, State, Transition,
};
use crate::matcher::glob::NameGlobs;
use crate::matcher::{class_symbol, filesystem_symbol, name_hash};

type Tables = (Vec<State>, Vec<(Transition, u32)>, bool);
type Speak<'s> = &'s mut dyn FnMut(&[u32]) -> (u64, u32);

/// Positions that stay active, and what follows from them.
struct Core {
    /// `Deep` nodes, ascending.
    deep: Rc<[u32]>,
    /// What the `Deep` nodes wait for, ascending.
    waiting: Vec<u32>,
    next: Successors,
}

/// What a set of positions does with the next name.
#[derive(Default)]
struct Successors {
    literals: BTreeMap<u32, Vec<u32>>,
    globs: BTreeMap<u32, Vec<u32>>,
    any: Vec<u32>,
    /// Sayings at the root of the mount tree.
    ends: Vec<u32>,
    /// Sayings at the root of a filesystem, by index into `MAGICS`.
    filesystems: BTreeMap<usize, BTreeSet<u32>>,
}

/// What makes a state: its core, the other active positions, and what was said on entering it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Active {
    core: usize,
    others: Rc<[u32]>,
    now: Rc<[u32]>,
}

pub(super) struct Builder<'n> {
    nodes: &'n Nodes,
    names: &'n NameGlobs,
    key: u64,
    /// Symbols of the literals.
    symbols: Vec<u64>,
    /// By glob: the classes that hold it.
    glob_classes: Vec<Vec<u32>>,
    cores: Vec<Core>,
    core_ids: HashMap<Rc<[u32]>, usize>,
    /// Positions in all cores.
    core_size: usize,
    ids: HashMap<Active, u32>,
    states: Vec<Active>,
    transitions: Vec<(Transition, u32)>,
    filesystems: bool,
}

impl<'n> Builder<'n> {
    pub(super) fn new(nodes: &'n Nodes, names: &'n NameGlobs, key: u64) -> Result<Self, BuildError> {
        let mut owners: HashMap<u64, &[u8]> = HashMap::new();
        let mut symbols = Vec::new();
        for name in nodes.literals() {
            let symbol = name_hash(key, name);
            if let Some(first) = owners.insert(symbol, name) {
                return Err(BuildError::Collision {
                    first: first.to_vec(),
                    second: name.clone(),
                });
            }
            symbols.push(symbol);
        }
        let mut glob_classes = vec![Vec::new(); nodes.globs().len()];
        for (globs, class) in names.classes.iter().zip(0..) {
            for &glob in globs {
                glob_classes[glob as usize].push(class);
            }
        }
        let mut builder = Self {
            nodes,
            names,
            key,
            symbols,
            glob_classes,
            cores: Vec::new(),
            core_ids: HashMap::new(),
            core_size: 0,
            ids: HashMap::new(),
            states: Vec::new(),
            transitions: Vec::new(),
            filesystems: false,
        };
        let empty = builder.core(Vec::new())?;
        builder.intern(Active {
            core: empty,
            others: Rc::from([]),
            now: Rc::from([]),
        })?;
        Ok(builder)
    }

    /// The state before the first name of these sequences.
    pub(super) fn start(&mut self, positions: &[u32]) -> Result<u32, BuildError> {
        self.enter(0, positions.to_vec(), &[])
    }

    /// Expands every state that is reachable from the starts.
    pub(super) fn run(mut self, speak: Speak<'_>) -> Result<Tables, BuildError> {
        let mut records = Vec::new();
        let mut said: HashMap<Rc<[u32]>, (u64, u32)> = HashMap::new();
        let mut say = |sayings: Rc<[u32]>| {
            if sayings.is_empty() {
                (0, 0)
            } else {
                *said.entry(sayings.clone()).or_insert_with(|| speak(&sayings))
            }
        };
        let mut at = 0;
        while let Some(active) = self.states.get(at).cloned() {
            let (mut record, ends) = self.expand(at, &active)?;
            (record.now, record.now_site) = say(active.now);
            (record.root, record.root_site) = say(ends);
            for (set, flag) in [
                (record.now != 0, STATE_EMITS),
                (record.root != 0, STATE_ENDS),
                (record.default != number(at), STATE_MOVES),
            ] {
                record.flags |= if set { flag } else { 0 };
            }
            records.push(record);
            at += 1;
        }
        Ok((records, self.transitions, self.filesystems))
    }

    /// One state with its transitions, and what it says at the root.
    fn expand(&mut self, at: usize, active: &Active) -> Result<(State, Rc<[u32]>), BuildError> {
        let id = number(at);
        let core = active.core;
        let own = self.successors(&active.others);
        let default = self.enter(core, own.any.clone(), &[])?;
        let pure = self.intern(Active {
            core,
            others: Rc::from([]),
            now: Rc::from([]),
        })?;
        let inherits = default == pure && id != pure && core != 0;

        let mut literals: BTreeSet<u32> = own.literals.keys().copied().collect();
        let mut globs: BTreeSet<u32> = own.globs.keys().copied().collect();
        let mut filesystems: BTreeSet<usize> = own.filesystems.keys().copied().collect();
        let pending = &self.cores[core].next;
        if inherits {
            let matched = globs.iter().flat_map(|glob| self.nodes.literals_of(*glob));
            literals.extend(matched.filter(|literal| pending.literals.contains_key(literal)));
        } else {
            literals.extend(pending.literals.keys());
            globs.extend(pending.globs.keys());
            filesystems.extend(pending.filesystems.keys());
        }
        let has_globs = !globs.is_empty() || (inherits && !pending.globs.is_empty());

        for literal in literals {
            let matching = self.nodes.globs_of(literal);
            let target = self.target(default, core, &own, Some(literal), matching)?;
            if inherits || target != default || !matching.is_empty() {
                self.transition(id, self.symbols[literal as usize], target)?;
            }
        }
        let classes: BTreeSet<u32> = globs
            .iter()
            .flat_map(|glob| self.glob_classes[*glob as usize].iter().copied())
            .collect();
        for class in classes {
            let target = self.target(default, core, &own, None, &self.names.classes[class as usize])?;
            if inherits || target != default {
                self.transition(id, class_symbol(self.key, class), target)?;
            }
        }
        for index in filesystems {
            let sayings = |next: &Successors| next.filesystems.get(&index).cloned().unwrap_or_default();
            let now: BTreeSet<u32> = &sayings(&own) | &sayings(&self.cores[core].next);
            let now = now.into_iter().collect();
            let target = self.intern(Active {
                core: 0,
                others: Rc::from([]),
                now,
            })?;
            self.transition(id, filesystem_symbol(self.key, MAGICS[index]), target)?;
            self.filesystems = true;
        }
        let mut flags = 0;
        for (set, flag) in [
            (has_globs, STATE_GLOBS),
            (inherits, STATE_INHERITS),
            (core == 0 && active.others.is_empty(), STATE_SINK),
        ] {
            flags |= if set { flag } else { 0 };
        }
        Ok((
            State {
                default,
                flags,
                ..State::default()
            },
            own.ends.into(),
        ))
    }

    /// The state after a name that is this literal and matches these globs: what any name leads to (`default`),
    /// and what these add.
    fn target(
        &mut self,
        default: u32,
        core: usize,
        own: &Successors,
        literal: Option<u32>,
        globs: &[u32],
    ) -> Result<u32, BuildError> {
        let any = self.states[default as usize].clone();
        let mut positions = any.others.to_vec();
        for next in [own, &self.cores[core].next] {
            let by_name = literal.iter().filter_map(|literal| next.literals.get(literal));
            let by_glob = globs.iter().filter_map(|glob| next.globs.get(glob));
            positions.extend(by_name.chain(by_glob).flatten());
        }
        self.enter(any.core, positions, &any.now)
    }

    fn successors(&self, positions: &[u32]) -> Successors {
        let mut next = Successors::default();
        for &position in positions {
            match self.nodes.get(position) {
                Node::End { saying } => next.ends.push(saying),
                Node::Literal {
                    literal,
                    next: behind,
                } => next.literals.entry(literal).or_default().push(behind),
                Node::Glob { glob, next: behind } => next.globs.entry(glob).or_default().push(behind),
                Node::Any { next: behind } => next.any.push(behind),
                Node::Finished { .. } | Node::Deep { .. } => {}
            }
            let bits = self.nodes.filesystems(position);
            for index in (0..MAGICS.len()).filter(|index| bits & (1 << index) != 0) {
                next.filesystems
                    .entry(index)
                    .or_default()
                    .insert(self.nodes.saying(position));
            }
        }
        next.ends.sort_unstable();
        next.ends.dedup();
        next
    }

    /// The state in which the core and these positions are active, after `now` has been said.
    fn enter(&mut self, core: usize, mut positions: Vec<u32>, now: &[u32]) -> Result<u32, BuildError> {
        positions.sort_unstable();
        positions.dedup();
        let mut now = now.to_vec();
        let mut fresh = Vec::new();
        let mut others = Vec::new();
        for position in positions {
            match self.nodes.get(position) {
                Node::Finished { saying } => now.push(saying),
                Node::Deep { .. } => fresh.push(position),
                _ => others.push(position),
            }
        }
        fresh.retain(|position| self.cores[core].deep.binary_search(position).is_err());
        let core = if fresh.is_empty() {
            core
        } else {
            fresh.extend(&*self.cores[core].deep);
            fresh.sort_unstable();
            self.core(fresh)?
        };
        others.retain(|position| self.cores[core].waiting.binary_search(position).is_err());
        now.sort_unstable();
        now.dedup();
        self.intern(Active {
            core,
            others: others.into(),
            now: now.into(),
        })
    }

    fn core(&mut self, deep: Vec<u32>) -> Result<usize, BuildError> {
        let deep: Rc<[u32]> = deep.into();
        if let Some(&id) = self.core_ids.get(&deep) {
            return Ok(id);
        }
        self.core_size += deep.len();
        if self.core_size > CORE_BUDGET {
            return Err(self.multiplying());
        }
        let mut waiting: Vec<u32> = deep
            .iter()
            .filter_map(|position| match self.nodes.get(*position) {
                Node::Deep { next } => Some(next),
                _ => None,
            })
            .collect();
        waiting.sort_unstable();
        let mut next = self.successors(&waiting);
        // What waits under a `**` reaches a place over names in between, too.
        next.filesystems = self.successors(&deep).filesystems;
        let id = self.cores.len();
        self.cores.push(Core {
            deep: Rc::clone(&deep),
            waiting,
            next,
        });
        self.core_ids.insert(deep, id);
        Ok(id)
    }

    fn intern(&mut self, active: Active) -> Result<u32, BuildError> {
        if let Some(&id) = self.ids.get(&active) {
            return Ok(id);
        }
        if self.states.len() >= STATE_BUDGET {
            return Err(self.multiplying());
        }
        let id = number(self.states.len());
        self.states.push(active.clone());
        self.ids.insert(active, id);
        Ok(id)
    }

    fn transition(&mut self, state: u32, symbol: u64, target: u32) -> Result<(), BuildError> {
        if self.transitions.len() >= TRANSITION_BUDGET {
            return Err(self.multiplying());
        }
        self.transitions.push((
            Transition {
                symbol,
                state,
                _pad: 0,
            },
            target,
        ));
        Ok(())
    }

    /// The sequences that are active in about half of all states: those that multiply.
    fn multiplying(&self) -> BuildError {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for core in &self.cores {
            for &position in &*core.deep {
                *counts.entry(self.nodes.saying(position)).or_default() += 1;
            }
        }
        if self.cores.len() < 16 {
            for active in &self.states {
                for &position in &*active.others {
                    *counts.entry(self.nodes.saying(position)).or_default() += 1;
                }
            }
        }
        let total = self.cores.len().max(counts.values().copied().max().unwrap_or(0));
        let mut ranked: Vec<(usize, u32)> = counts
            .into_iter()
            .map(|(saying, count)| (total - count.min(total - count), saying))
            .collect();
        ranked.sort_unstable();
        BuildError::Paths {
            sayings: ranked.into_iter().map(|(_, saying)| saying).collect(),
        }
    }
}

fn number(length: usize) -> u32 {
    u32::try_from(length).expect("the state budget is far below 2^32")
}

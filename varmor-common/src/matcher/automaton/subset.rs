//! Subset construction: which positions are active after which names.
//!
//! The active positions of a state are a *core* (positions that wait under a `**` and stay active for ever) and
//! the others. States that add others to a core inherit the core's transitions through their default.

use std::hash::BuildHasher;
use std::rc::Rc;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::filesystem::MAGICS;
use super::late;
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
    literals: Edges,
    globs: Edges,
    any: Vec<u32>,
    /// Sayings at the root of the mount tree.
    ends: Vec<u32>,
    /// Sayings at the root of a filesystem, by index into `MAGICS`.
    filesystems: Edges,
}

/// From labels to what is behind them: pairs in ascending order, each once.
#[derive(Default)]
struct Edges(Vec<(u32, u32)>);

impl Edges {
    fn put_in_order(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }

    /// Each label once, ascending.
    fn labels(&self) -> impl Iterator<Item = u32> {
        self.0.chunk_by(|one, next| one.0 == next.0).map(|same| same[0].0)
    }

    fn has(&self, label: u32) -> bool {
        self.0.binary_search_by_key(&label, |edge| edge.0).is_ok()
    }

    fn behind(&self, label: u32) -> impl Iterator<Item = u32> {
        let first = self.0.partition_point(|edge| edge.0 < label);
        let edges = self.0[first..].iter();
        edges.take_while(move |edge| edge.0 == label).map(|edge| edge.1)
    }
}

/// What makes a state: its core, the other active positions, and what was said on entering it.
#[derive(Clone)]
struct Active {
    core: usize,
    others: Rc<[u32]>,
    now: Rc<[u32]>,
}

/// Lists that `enter` works with: it is called for every transition, and most lead to a state that is known.
#[derive(Default)]
struct Scratch {
    positions: Vec<u32>,
    fresh: Vec<u32>,
    others: Vec<u32>,
    now: Vec<u32>,
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
    /// Numbers of the states by what makes them.
    ids: HashTable<u32>,
    hasher: DefaultHashBuilder,
    states: Vec<Active>,
    /// Empty between two uses.
    scratch: Scratch,
    transitions: Vec<(Transition, u32)>,
    /// What classes of globs lead to, by the state that they lead from.
    class_targets: Vec<(u32, u32)>,
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
            ids: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            states: Vec::new(),
            scratch: Scratch::default(),
            transitions: Vec::new(),
            class_targets: Vec::new(),
            filesystems: false,
        };
        let empty = builder.core(Vec::new())?;
        builder.intern(empty, &[], &[])?;
        Ok(builder)
    }

    /// The state before the first name of these sequences.
    pub(super) fn start(&mut self, positions: &[u32]) -> Result<u32, BuildError> {
        self.enter(0, positions.iter().copied(), &[])
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
        late::mark(&mut records, &self.class_targets);
        Ok((records, self.transitions, self.filesystems))
    }

    /// One state with its transitions, and what it says at the root.
    fn expand(&mut self, at: usize, active: &Active) -> Result<(State, Rc<[u32]>), BuildError> {
        let id = number(at);
        let core = active.core;
        let own = self.successors(&active.others);
        let default = self.enter(core, own.any.iter().copied(), &[])?;
        let pure = self.intern(core, &[], &[])?;
        let inherits = default == pure && id != pure && core != 0;

        let pending = &self.cores[core].next;
        let mut literals: Vec<u32> = own.literals.labels().collect();
        let mut globs: Vec<u32> = own.globs.labels().collect();
        let mut filesystems: Vec<u32> = own.filesystems.labels().collect();
        if inherits {
            let matched = globs.iter().flat_map(|glob| self.nodes.literals_of(*glob));
            literals.extend(matched.filter(|literal| pending.literals.has(**literal)));
        } else {
            literals.extend(pending.literals.labels());
            globs.extend(pending.globs.labels());
            filesystems.extend(pending.filesystems.labels());
        }
        let has_globs = !globs.is_empty() || (inherits && !pending.globs.0.is_empty());
        for labels in [&mut literals, &mut globs, &mut filesystems] {
            labels.sort_unstable();
            labels.dedup();
        }

        for literal in literals {
            let matching = self.nodes.globs_of(literal);
            let target = self.target(default, core, &own, Some(literal), matching)?;
            if inherits || target != default || !matching.is_empty() {
                self.transition(id, self.symbols[literal as usize], target)?;
            }
        }
        let mut classes: Vec<u32> = globs
            .iter()
            .flat_map(|glob| self.glob_classes[*glob as usize].iter().copied())
            .collect();
        classes.sort_unstable();
        classes.dedup();
        for class in classes {
            let target = self.target(default, core, &own, None, &self.names.classes[class as usize])?;
            if inherits || target != default {
                self.transition(id, class_symbol(self.key, class), target)?;
                self.class_targets.push((id, target));
            }
        }
        for index in filesystems {
            let pending = self.cores[core].next.filesystems.behind(index);
            let mut now: Vec<u32> = own.filesystems.behind(index).chain(pending).collect();
            now.sort_unstable();
            now.dedup();
            let target = self.intern(0, &[], &now)?;
            self.transition(id, filesystem_symbol(self.key, MAGICS[index as usize]), target)?;
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
        let mut added = std::mem::take(&mut self.scratch.positions);
        for next in [own, &self.cores[core].next] {
            let by_name = literal.iter().flat_map(|literal| next.literals.behind(*literal));
            let by_glob = globs.iter().flat_map(|glob| next.globs.behind(*glob));
            added.extend(by_name.chain(by_glob));
        }
        let state = self.enter(any.core, any.others.iter().chain(&added).copied(), &any.now);
        added.clear();
        self.scratch.positions = added;
        state
    }

    fn successors(&self, positions: &[u32]) -> Successors {
        let mut next = Successors::default();
        for &position in positions {
            match self.nodes.get(position) {
                Node::End { saying } => next.ends.push(saying),
                Node::Literal {
                    literal,
                    next: behind,
                } => next.literals.0.push((literal, behind)),
                Node::Glob { glob, next: behind } => next.globs.0.push((glob, behind)),
                Node::Any { next: behind } => next.any.push(behind),
                Node::Finished { .. } | Node::Deep { .. } => {}
            }
            let bits = self.nodes.filesystems(position);
            for index in (0..).take(MAGICS.len()).filter(|index| bits & (1 << index) != 0) {
                next.filesystems.0.push((index, self.nodes.saying(position)));
            }
        }
        next.ends.sort_unstable();
        next.ends.dedup();
        for edges in [&mut next.literals, &mut next.globs, &mut next.filesystems] {
            edges.put_in_order();
        }
        next
    }

    /// The state in which the core and these positions are active, after `now` has been said.
    fn enter(
        &mut self,
        core: usize,
        positions: impl Iterator<Item = u32>,
        now: &[u32],
    ) -> Result<u32, BuildError> {
        let mut lists = std::mem::take(&mut self.scratch);
        let state = self.enter_with(core, positions, now, &mut lists);
        for list in [&mut lists.fresh, &mut lists.others, &mut lists.now] {
            list.clear();
        }
        self.scratch = lists;
        state
    }

    fn enter_with(
        &mut self,
        core: usize,
        positions: impl Iterator<Item = u32>,
        now: &[u32],
        lists: &mut Scratch,
    ) -> Result<u32, BuildError> {
        let Scratch {
            fresh,
            others,
            now: sayings,
            ..
        } = lists;
        sayings.extend(now);
        for position in positions {
            match self.nodes.get(position) {
                Node::Finished { saying } => sayings.push(saying),
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
            fresh.dedup();
            self.core(fresh.clone())?
        };
        others.retain(|position| self.cores[core].waiting.binary_search(position).is_err());
        for list in [&mut *others, &mut *sayings] {
            list.sort_unstable();
            list.dedup();
        }
        self.intern(core, others, sayings)
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

    fn intern(&mut self, core: usize, others: &[u32], now: &[u32]) -> Result<u32, BuildError> {
        let hash = self.hasher.hash_one((core, others, now));
        let is_it = |id: &u32| {
            let active = &self.states[*id as usize];
            active.core == core && *active.others == *others && *active.now == *now
        };
        if let Some(&id) = self.ids.find(hash, is_it) {
            return Ok(id);
        }
        if self.states.len() >= STATE_BUDGET {
            return Err(self.multiplying());
        }
        let id = number(self.states.len());
        self.states.push(Active {
            core,
            others: others.into(),
            now: now.into(),
        });
        let (states, hasher) = (&self.states, &self.hasher);
        self.ids.insert_unique(hash, id, |id| {
            let active = &states[*id as usize];
            hasher.hash_one((active.core, &*active.others, &*active.now))
        });
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

//! Subset construction over bytes.
//!
//! A node that loops on every byte stays active for ever, so the active nodes are split into a *core* of such
//! nodes, shared by many states and expanded once, and the few others. That keeps thousands of globs that begin
//! with a star linear.

use std::rc::Rc;

use hashbrown::{HashMap, HashSet};

use super::{ByteSet, TooManyRows};
use crate::abi::MAX_GLOB_STATES;

/// Non-deterministic byte automaton; nodes refer to later or earlier nodes by index.
#[derive(Default)]
pub(super) struct Nfa {
    nodes: Vec<Node>,
}

#[derive(Clone, Default)]
struct Node {
    edge: Option<(ByteSet, u32)>,
    epsilon: Vec<u32>,
    /// Loops on every byte.
    sticky: bool,
    accept: Option<u32>,
}

/// Bytes that no set of the automaton tells apart lead to the same nodes: one of each class is enough.
struct ByteClasses {
    /// By byte: its class. Classes are numbered by their first bytes.
    of: [u8; 256],
    /// By class: its first byte.
    first: Vec<u8>,
}

impl ByteClasses {
    fn of_sets(sets: impl Iterator<Item = ByteSet>) -> Self {
        let mut of = [0; 256];
        let mut count = 1_usize;
        let sets: HashSet<ByteSet> = sets.collect();
        for set in sets {
            // Each class that the set divides gets a new half; 256 bytes cannot have more classes than that.
            let mut halves = [None; 256];
            let whole = of;
            let divided = |class: u8| {
                let mut members = (0..=u8::MAX).filter(|byte| whole[usize::from(*byte)] == class);
                members.any(|byte| !set.contains(byte))
            };
            for byte in set.iter() {
                let class = whole[usize::from(byte)];
                let half = *halves[usize::from(class)].get_or_insert_with(|| {
                    if divided(class) {
                        count += 1;
                        u8::try_from(count - 1).expect("no more classes than bytes")
                    } else {
                        class
                    }
                });
                of[usize::from(byte)] = half;
            }
        }
        Self::in_order(&of)
    }

    /// Numbers the classes by their first bytes.
    fn in_order(names: &[u8; 256]) -> Self {
        let mut number: [Option<u8>; 256] = [None; 256];
        let mut first = Vec::new();
        let mut of = [0; 256];
        for byte in 0..=u8::MAX {
            let name = names[usize::from(byte)];
            of[usize::from(byte)] = *number[usize::from(name)].get_or_insert_with(|| {
                first.push(byte);
                u8::try_from(first.len() - 1).expect("no more classes than bytes")
            });
        }
        Self { of, first }
    }

    /// The classes of a set, ascending.
    fn iter(&self, set: ByteSet) -> impl Iterator<Item = usize> {
        (0..)
            .zip(&self.first)
            .filter(move |(_, first)| set.contains(**first))
            .map(|(class, _)| class)
    }

    /// From an entry for each class to one for each byte.
    fn spread(&self, row: &[u16]) -> [u16; 256] {
        self.of.map(|class| row[usize::from(class)])
    }
}

/// One deterministic state: successors and the accepted tags in ascending order.
pub(super) struct Row {
    pub(super) next: [u16; 256],
    pub(super) accept: Vec<u32>,
}

impl Nfa {
    /// A node that says `tag` when the text ends here.
    pub(super) fn accept(&mut self, tag: u32) -> u32 {
        self.push(Node {
            accept: Some(tag),
            ..Node::default()
        })
    }

    /// A node that reads one byte of the set.
    pub(super) fn edge(&mut self, set: ByteSet, target: u32) -> u32 {
        self.push(Node {
            edge: Some((set, target)),
            ..Node::default()
        })
    }

    /// A node that reads any number of bytes of the set and then goes to the target.
    pub(super) fn run(&mut self, set: ByteSet, target: u32) -> u32 {
        let node = self.push(Node {
            epsilon: vec![target],
            ..Node::default()
        });
        if set == ByteSet::ALL {
            self.nodes[node as usize].sticky = true;
        } else {
            self.nodes[node as usize].edge = Some((set, node));
        }
        node
    }

    /// A node that is all the targets at once.
    pub(super) fn either(&mut self, targets: Vec<u32>) -> u32 {
        self.push(Node {
            epsilon: targets,
            ..Node::default()
        })
    }

    /// Lets a node be another one as well: closes loops.
    pub(super) fn also(&mut self, node: u32, target: u32) {
        self.nodes[node as usize].epsilon.push(target);
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("the pattern limits keep nodes far below 2^32")
    }

    /// The deterministic automaton: row 0 is dead, row 1 the start.
    pub(super) fn determinise(&self, start: &[u32]) -> Result<Vec<Row>, TooManyRows> {
        let sets = self.nodes.iter().filter_map(|node| Some(node.edge?.0));
        let mut builder = Builder {
            nfa: self,
            bytes: ByteClasses::of_sets(sets),
            cores: Vec::new(),
            core_ids: HashMap::new(),
            ids: HashMap::new(),
            states: Vec::new(),
        };
        let empty = builder.core(Vec::new());
        builder.intern(empty, Vec::new())?;
        builder.enter(empty, start)?;
        let mut rows = Vec::new();
        let mut at = 0;
        while at < builder.states.len() {
            rows.push(builder.row(at)?);
            at += 1;
        }
        Ok(rows)
    }
}

/// Active nodes that stay active for ever, and what follows from them.
struct Core {
    /// Sticky nodes, ascending.
    sticky: Vec<u32>,
    /// They and everything they reach without reading, ascending.
    closure: Vec<u32>,
    next: Rc<Targets>,
    accept: Vec<u32>,
    /// The state that has nothing but this core: where each class of bytes leads.
    pure: Option<Rc<[u16]>>,
}

struct Builder<'n> {
    nfa: &'n Nfa,
    bytes: ByteClasses,
    cores: Vec<Core>,
    core_ids: HashMap<Vec<u32>, usize>,
    ids: HashMap<(usize, Rc<[u32]>), u16>,
    states: Vec<(usize, Rc<[u32]>)>,
}

impl Builder<'_> {
    fn node(&self, index: u32) -> &Node {
        &self.nfa.nodes[index as usize]
    }

    /// Everything reachable without reading, ascending.
    fn closure(&self, from: &[u32]) -> Vec<u32> {
        let mut seen: Vec<u32> = Vec::new();
        let mut known = HashSet::new();
        let mut stack = from.to_vec();
        while let Some(node) = stack.pop() {
            if known.insert(node) {
                seen.push(node);
                stack.extend(&self.node(node).epsilon);
            }
        }
        seen.sort_unstable();
        seen
    }

    fn core(&mut self, sticky: Vec<u32>) -> usize {
        if let Some(&id) = self.core_ids.get(&sticky) {
            return id;
        }
        let closure = self.closure(&sticky);
        let edges = closure.iter().filter_map(|&index| self.node(index).edge);
        let next = Rc::new(self.targets(edges));
        let mut accept: Vec<u32> = closure
            .iter()
            .filter_map(|&index| self.node(index).accept)
            .collect();
        accept.sort_unstable();
        accept.dedup();
        let id = self.cores.len();
        self.cores.push(Core {
            sticky: sticky.clone(),
            closure,
            next,
            accept,
            pure: None,
        });
        self.core_ids.insert(sticky, id);
        id
    }

    fn intern(&mut self, core: usize, others: Vec<u32>) -> Result<u16, TooManyRows> {
        let others: Rc<[u32]> = others.into();
        if let Some(&id) = self.ids.get(&(core, Rc::clone(&others))) {
            return Ok(id);
        }
        if self.states.len() >= MAX_GLOB_STATES as usize {
            return Err(TooManyRows);
        }
        let id = u16::try_from(self.states.len()).map_err(|_| TooManyRows)?;
        self.states.push((core, Rc::clone(&others)));
        self.ids.insert((core, others), id);
        Ok(id)
    }

    /// The state in which the core and these nodes are active.
    fn enter(&mut self, core: usize, nodes: &[u32]) -> Result<u16, TooManyRows> {
        let closure = self.closure(nodes);
        let fresh: Vec<u32> = closure
            .iter()
            .copied()
            .filter(|&node| self.node(node).sticky && self.cores[core].sticky.binary_search(&node).is_err())
            .collect();
        let core = if fresh.is_empty() {
            core
        } else {
            let mut sticky = self.cores[core].sticky.clone();
            sticky.extend(fresh);
            sticky.sort_unstable();
            self.core(sticky)
        };
        let known = &self.cores[core].closure;
        let says = |node: &Node| node.edge.is_some() || node.accept.is_some();
        let others = closure
            .into_iter()
            .filter(|&node| says(self.node(node)) && known.binary_search(&node).is_err())
            .collect();
        self.intern(core, others)
    }

    fn targets(&self, edges: impl Iterator<Item = (ByteSet, u32)>) -> Targets {
        let mut by_class = vec![Vec::new(); self.bytes.first.len()];
        for (set, target) in edges {
            for class in self.bytes.iter(set) {
                by_class[class].push(target);
            }
        }
        by_class
    }

    /// Where the state that has only the core leads.
    fn pure(&mut self, core: usize) -> Result<Rc<[u16]>, TooManyRows> {
        if let Some(row) = &self.cores[core].pure {
            return Ok(Rc::clone(row));
        }
        // Most bytes lead nowhere new.
        let mut row = vec![self.enter(core, &[])?; self.bytes.first.len()];
        let next = Rc::clone(&self.cores[core].next);
        let mut known = Known::default();
        for (entry, nodes) in row.iter_mut().zip(&*next).filter(|(_, nodes)| !nodes.is_empty()) {
            *entry = self.enter_once(core, nodes, &mut known)?;
        }
        let row: Rc<[u16]> = row.into();
        self.cores[core].pure = Some(Rc::clone(&row));
        Ok(row)
    }

    fn row(&mut self, at: usize) -> Result<Row, TooManyRows> {
        let (core, others) = self.states[at].clone();
        let mut next = self.pure(core)?.to_vec();
        let mut accept = self.cores[core].accept.clone();
        accept.extend(others.iter().filter_map(|&index| self.node(index).accept));
        let own = self.targets(others.iter().filter_map(|&index| self.node(index).edge));
        let pending = Rc::clone(&self.cores[core].next);
        let mut known = Known::default();
        for (class, nodes) in own.iter().enumerate().filter(|(_, nodes)| !nodes.is_empty()) {
            let nodes = [&nodes[..], &pending[class][..]].concat();
            next[class] = self.enter_once(core, &nodes, &mut known)?;
        }
        accept.sort_unstable();
        accept.dedup();
        Ok(Row {
            next: self.bytes.spread(&next),
            accept,
        })
    }

    /// As `enter`; of the bytes of one row, most lead to the same nodes.
    fn enter_once(&mut self, core: usize, nodes: &[u32], known: &mut Known) -> Result<u16, TooManyRows> {
        if let Some(&state) = known.get(nodes) {
            return Ok(state);
        }
        let state = self.enter(core, nodes)?;
        known.insert(nodes.to_vec(), state);
        Ok(state)
    }
}

/// By class of bytes: the nodes that it leads to.
type Targets = Vec<Vec<u32>>;
/// The states that sets of nodes became, within one row.
type Known = HashMap<Vec<u32>, u16>;

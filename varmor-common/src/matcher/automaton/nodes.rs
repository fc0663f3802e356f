//! The positions in the reversed sequences, each stored once.

use hashbrown::HashMap;

use super::Sequence;
use super::filesystem::{MAGICS, PLACES};
use crate::matcher::Component;
use crate::matcher::glob::{Glob, NameGlobs};

/// One position: what may be read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The path must end here.
    End {
        saying: u32,
    },
    /// Whatever follows matches.
    Finished {
        saying: u32,
    },
    Literal {
        literal: u32,
        next: u32,
    },
    Glob {
        glob: u32,
        next: u32,
    },
    Any {
        next: u32,
    },
    /// Any names may follow before `next`, which is a literal or a glob.
    Deep {
        next: u32,
    },
}

/// All positions of all sequences.
#[derive(Default)]
pub(super) struct Nodes {
    list: Vec<Node>,
    ids: HashMap<Node, u32>,
    literals: Vec<Vec<u8>>,
    literal_ids: HashMap<Vec<u8>, u32>,
    globs: Vec<Glob>,
    glob_ids: HashMap<Glob, u32>,
    /// By node: bit n = the rest matches a place of `MAGICS[n]`.
    filesystems: Vec<u16>,
    /// By literal: the globs that match it too.
    literal_globs: Vec<Vec<u32>>,
    /// By glob: the literals that it matches.
    glob_literals: Vec<Vec<u32>>,
}

impl Nodes {
    /// Adds a sequence and gives the position before its last name.
    pub(super) fn add(&mut self, sequence: &Sequence) -> u32 {
        let mut node = self.intern(Node::End {
            saying: sequence.saying,
        });
        let mut rest = &sequence.components[..];
        while let Some((component, behind)) = rest.split_first() {
            node = match component {
                Component::Literal(name) => {
                    let literal = number(&mut self.literals, &mut self.literal_ids, name);
                    self.intern(Node::Literal { literal, next: node })
                }
                Component::Glob(pattern) => {
                    let glob = number(&mut self.globs, &mut self.glob_ids, pattern);
                    self.intern(Node::Glob { glob, next: node })
                }
                Component::Any | Component::Deep => {
                    // The order within a run has no meaning. Read from the leaf, the single names come first, so
                    // that what stays pending always waits for a literal or a glob.
                    let run = rest
                        .iter()
                        .take_while(|next| matches!(next, Component::Any | Component::Deep));
                    let (length, anys) = run.fold((0, 0), |(length, anys), next| {
                        (length + 1, anys + usize::from(*next == Component::Any))
                    });
                    rest = &rest[length..];
                    let deep = if anys == length { node } else { self.deep(node) };
                    node = (0..anys).fold(deep, |node, _| self.intern(Node::Any { next: node }));
                    continue;
                }
            };
            rest = behind;
        }
        node
    }

    /// Matches the globs against the literals and every position against the places of filesystems.
    pub(super) fn resolve(&mut self, names: &NameGlobs) {
        self.glob_literals = vec![Vec::new(); self.globs.len()];
        for (name, literal) in self.literals.iter().zip(0..) {
            let globs = names.matching(name).to_vec();
            for &glob in &globs {
                self.glob_literals[glob as usize].push(literal);
            }
            self.literal_globs.push(globs);
        }
        self.filesystems = (0..self.list.len())
            .map(|node| {
                PLACES.iter().fold(0, |bits, place| {
                    let index = MAGICS.iter().position(|magic| *magic == place.magic);
                    let bit = index.map_or(0, |index| 1 << index);
                    let fits = || self.reaches(names, node, place.path, place.spelled());
                    if bits & bit == 0 && fits() {
                        bits | bit
                    } else {
                        bits
                    }
                })
            })
            .collect();
    }

    pub(super) fn get(&self, node: u32) -> Node {
        self.list[node as usize]
    }

    pub(super) fn literals(&self) -> &[Vec<u8>] {
        &self.literals
    }

    pub(super) fn globs(&self) -> &[Glob] {
        &self.globs
    }

    pub(super) fn globs_of(&self, literal: u32) -> &[u32] {
        &self.literal_globs[literal as usize]
    }

    pub(super) fn literals_of(&self, glob: u32) -> &[u32] {
        &self.glob_literals[glob as usize]
    }

    pub(super) fn filesystems(&self, node: u32) -> u16 {
        self.filesystems[node as usize]
    }

    /// What is said where the positions behind this one end.
    pub(super) fn saying(&self, mut node: u32) -> u32 {
        loop {
            match self.get(node) {
                Node::End { saying } | Node::Finished { saying } => return saying,
                Node::Literal { next, .. }
                | Node::Glob { next, .. }
                | Node::Any { next }
                | Node::Deep { next } => {
                    node = next;
                }
            }
        }
    }

    /// The sayings of sequences with globs, longest glob first.
    pub(super) fn sayings_with_globs(&self) -> Vec<u32> {
        let mut found: Vec<(std::cmp::Reverse<usize>, u32)> = (0..)
            .zip(&self.list)
            .filter_map(|(index, node)| match node {
                Node::Glob { glob, .. } => Some((
                    std::cmp::Reverse(self.globs[*glob as usize].0.len()),
                    self.saying(index),
                )),
                _ => None,
            })
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, saying)| saying).collect()
    }

    fn deep(&mut self, next: u32) -> u32 {
        match self.get(next) {
            Node::End { saying } => self.intern(Node::Finished { saying }),
            _ => self.intern(Node::Deep { next }),
        }
    }

    fn intern(&mut self, node: Node) -> u32 {
        *self.ids.entry(node).or_insert_with(|| {
            self.list.push(node);
            count(self.list.len() - 1)
        })
    }

    /// Whether the rest of a sequence matches the path of a place, the first `spelled` names of which must be
    /// spelled out.
    fn reaches(&self, names: &NameGlobs, node: usize, place: &[Option<&str>], spelled: usize) -> bool {
        let open = spelled == 0 || place.len() > spelled;
        let up = |next: u32, fits: &dyn Fn(&str) -> bool| {
            let Some((name, rest)) = place.split_last() else {
                return false;
            };
            name.is_none_or(fits) && self.reaches(names, next as usize, rest, spelled)
        };
        match self.list[node] {
            Node::End { .. } => place.is_empty(),
            Node::Finished { .. } => spelled == 0,
            Node::Deep { next } => {
                (spelled..=place.len()).any(|end| self.reaches(names, next as usize, &place[..end], spelled))
            }
            Node::Any { next } => open && up(next, &|_| true),
            Node::Literal { literal, next } => {
                up(next, &|name| self.literals[literal as usize] == name.as_bytes())
            }
            Node::Glob { glob, next } => {
                open && up(next, &|name| names.matching(name.as_bytes()).contains(&glob))
            }
        }
    }
}

fn number<T: Clone + Eq + std::hash::Hash>(list: &mut Vec<T>, ids: &mut HashMap<T, u32>, item: &T) -> u32 {
    if let Some(&id) = ids.get(item) {
        return id;
    }
    let id = count(list.len());
    list.push(item.clone());
    ids.insert(item.clone(), id);
    id
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("the pattern limits keep positions far below 2^32")
}

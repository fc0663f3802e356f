//! From sequences of components to the path automaton: subset construction over reversed paths.
//!
//! A path is read from the leaf, so a sequence whose last name does not fit is out after one step, and rules of
//! the form `/**/name` are finished there. What has to stay pending (`/dir/**`) is stored once and inherited.

mod filesystem;
mod late;
mod nodes;
mod subset;

use crate::abi::{State, Transition};
use crate::matcher::{Component, glob};

use nodes::Nodes;
use subset::Builder;

pub use filesystem::{PLACES, Place};

/// What one path is about: the components from the root to the leaf, and the number of what is said on a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub components: Vec<Component>,
    pub saying: u32,
}

/// The tables of the automaton.
#[derive(Clone, Debug, Default)]
pub struct Automaton {
    /// State 0 is a sink that says nothing.
    pub states: Vec<State>,
    pub transitions: Vec<(Transition, u32)>,
    /// One start state per list of sequences.
    pub starts: Vec<u32>,
    pub names: glob::NameGlobs,
    /// Some transition is taken at the root of a filesystem.
    pub filesystems: bool,
}

/// Most states that are built; a profile that needs more multiplies.
pub const STATE_BUDGET: usize = 1 << 19;
/// Most transitions that are built.
pub const TRANSITION_BUDGET: usize = 1 << 22;
/// Most positions in all cores together: bounds the memory of a build that will be refused.
const CORE_BUDGET: usize = 1 << 20;

/// Why there is no automaton. `sayings` are those of the sequences that multiply, worst first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    Paths {
        sayings: Vec<u32>,
    },
    Names {
        sayings: Vec<u32>,
    },
    /// Two names have one symbol under this key.
    Collision {
        first: Vec<u8>,
        second: Vec<u8>,
    },
}

/// Builds one automaton with a start state per list. `speak` turns a set of sayings (ascending, not empty) into
/// the value and the site of a state.
pub fn build(
    lists: &[Vec<Sequence>],
    key: u64,
    speak: &mut dyn FnMut(&[u32]) -> (u64, u32),
) -> Result<Automaton, BuildError> {
    let mut nodes = Nodes::default();
    let roots: Vec<Vec<u32>> = lists
        .iter()
        .map(|list| list.iter().map(|sequence| nodes.add(sequence)).collect())
        .collect();
    let names = glob::name_globs(nodes.globs()).map_err(|_| BuildError::Names {
        sayings: nodes.sayings_with_globs(),
    })?;
    nodes.resolve(&names);
    let mut builder = Builder::new(&nodes, &names, key)?;
    let mut starts = Vec::new();
    for list in &roots {
        starts.push(builder.start(list)?);
    }
    let (states, transitions, filesystems) = builder.run(speak)?;
    Ok(Automaton {
        states,
        transitions,
        starts,
        names,
        filesystems,
    })
}

//! The byte automaton of name globs, and the classes of names that it tells apart.

use hashbrown::HashMap;

use super::determinise::Nfa;
use super::{ByteSet, Glob, Item, TooManyRows, run};
use crate::abi::GlobRow;

/// The globs of a profile as one automaton. A glob is known by its index in the list it was built from.
#[derive(Clone, Debug, Default)]
pub struct NameGlobs {
    /// `accept` is the class of a name; 0 = no glob matches it.
    pub rows: Vec<GlobRow>,
    /// By class: which globs match its names, ascending. Class 0 is empty.
    pub classes: Vec<Vec<u32>>,
}

impl NameGlobs {
    /// The globs that match a name.
    #[must_use]
    pub fn matching(&self, name: &[u8]) -> &[u32] {
        let class = usize::try_from(run(&self.rows, name)).unwrap_or(usize::MAX);
        self.classes.get(class).map_or(&[], Vec::as_slice)
    }
}

/// Builds the automaton; an empty list gives an empty one.
pub fn build(globs: &[Glob]) -> Result<NameGlobs, TooManyRows> {
    let mut classes = vec![Vec::new()];
    if globs.is_empty() {
        return Ok(NameGlobs {
            rows: Vec::new(),
            classes,
        });
    }
    let mut nfa = Nfa::default();
    let mut starts = Vec::with_capacity(globs.len());
    for (glob, tag) in globs.iter().zip(0..) {
        let mut node = nfa.accept(tag);
        for item in glob.0.iter().rev() {
            node = match item {
                Item::Byte(byte) => nfa.edge(ByteSet::of(*byte), node),
                Item::Set(set) => nfa.edge(*set, node),
                // A name holds neither `/` nor zero, so the star may as well run over every byte.
                Item::Star => nfa.run(ByteSet::ALL, node),
            };
        }
        starts.push(node);
    }
    let mut numbers: HashMap<Vec<u32>, u64> = HashMap::from([(Vec::new(), 0)]);
    let mut rows = Vec::new();
    for row in nfa.determinise(&starts)? {
        let fresh = numbers.len() as u64;
        let accept = *numbers.entry(row.accept.clone()).or_insert_with(|| {
            classes.push(row.accept);
            fresh
        });
        rows.push(GlobRow {
            accept,
            next: row.next,
        });
    }
    Ok(NameGlobs { rows, classes })
}

//! The byte automaton of mount sources: whole strings as a caller of mount(2) writes them.
//!
//! Such a string is not resolved, so several `/` count as one, `/./` as `/`, and a `/` at the end is ignored. A
//! string without `/` at its beginning (`proc`, `none`) is matched by patterns that may match anywhere.

use super::determinise::Nfa;
use super::{ByteSet, Glob, Item, TooManyRows};
use crate::abi::GlobRow;
use crate::matcher::{Component, Pattern};

/// Builds the automaton: each pattern with the bits that it says. An empty list gives an empty automaton.
pub fn build(sources: &[(&Pattern, u64)]) -> Result<Vec<GlobRow>, TooManyRows> {
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let mut nfa = Nfa::default();
    let mut starts = Vec::new();
    for ((pattern, _), tag) in sources.iter().zip(0..) {
        let accept = nfa.accept(tag);
        if pattern.is_everything() {
            starts.push(nfa.run(ByteSet::ALL, accept));
            continue;
        }
        for alternative in pattern.alternatives() {
            starts.push(string(&mut nfa, alternative, accept));
        }
    }
    let rows = nfa.determinise(&starts)?;
    let bits = |tags: &[u32]| tags.iter().fold(0, |bits, &tag| bits | sources[tag as usize].1);
    Ok(rows
        .iter()
        .map(|row| GlobRow {
            accept: bits(&row.accept),
            next: row.next,
        })
        .collect())
}

/// The node from which a string of these components leads to `accept`.
fn string(nfa: &mut Nfa, components: &[Component], accept: u32) -> u32 {
    let end = separator(nfa, accept);
    // `node` is the rest of the string and begins with a separator, or is its end; `name` is the same without
    // the separator.
    let mut node = nfa.either(vec![end, accept]);
    let mut name = node;
    for (index, component) in components.iter().enumerate().rev() {
        name = match component {
            Component::Deep => {
                if index == 0 {
                    let behind = nfa.run(ByteSet::ALL, node);
                    return nfa.either(vec![behind, name]);
                }
                let names = nfa.run(ByteSet::ALL, node);
                let below = nfa.edge(ByteSet::of(b'/'), names);
                node = nfa.either(vec![below, node]);
                continue;
            }
            Component::Literal(bytes) => bytes
                .iter()
                .rev()
                .fold(node, |node, &byte| nfa.edge(ByteSet::of(byte), node)),
            Component::Glob(Glob(items)) => items.iter().rev().fold(node, |node, item| match item {
                Item::Byte(byte) => nfa.edge(ByteSet::of(*byte), node),
                Item::Set(set) => nfa.edge(*set, node),
                Item::Star => nfa.run(ByteSet::NAME, node),
            }),
            Component::Any => {
                let rest = nfa.run(ByteSet::NAME, node);
                nfa.edge(ByteSet::NAME, rest)
            }
        };
        node = separator(nfa, name);
    }
    node
}

/// `/`, then any number of `/` and `./`.
fn separator(nfa: &mut Nfa, target: u32) -> u32 {
    let more = nfa.run(ByteSet::of(b'/'), target);
    let slash = nfa.edge(ByteSet::of(b'/'), more);
    let dot = nfa.edge(ByteSet::of(b'.'), slash);
    nfa.also(more, dot);
    slash
}

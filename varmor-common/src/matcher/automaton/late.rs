//! Which states can wait with their globs.
//!
//! `/sys/[!f]*/**` is read from the leaf, so every name of every path might be the one that the glob is about, and
//! would have to go through the byte automaton. But what the glob leads to only waits for the name `sys`. Where that is
//! so, a walk goes on as if the glob did not match, and comes back to it when the next name is one that the rules spell
//! out: nearly never.

use hashbrown::HashMap;

use crate::abi::{STATE_GLOBS, STATE_INHERITS, STATE_LATE_GLOBS, State};

/// Marks them. `targets` are the states that classes of globs lead to, by the state that they lead from, ascending.
///
/// A state can wait if whatever its globs lead to says the same as its default does, and goes on in the same way after
/// any name that is not spelled out: by its own default and by its own globs.
pub(super) fn mark(states: &mut [State], targets: &[(u32, u32)]) {
    let own: HashMap<u32, &[(u32, u32)]> = targets
        .chunk_by(|one, next| one.0 == next.0)
        .map(|same| (same[0].0, same))
        .collect();
    // The state that keeps the globs of a state; several states share what they inherit.
    let keeper = |number: u32| {
        let state = &states[number as usize];
        if own.contains_key(&number) {
            Some(number)
        } else {
            (state.flags & STATE_INHERITS != 0).then_some(state.default)
        }
    };
    let is_alike = |one: u32, other: u32| {
        let says = |number: u32| {
            let state = &states[number as usize];
            (
                state.now,
                state.now_site,
                state.root,
                state.root_site,
                state.default,
            )
        };
        one == other || (says(one) == says(other) && keeper(one) == keeper(other))
    };
    let can_wait = |number: u32| {
        let default = states[number as usize].default;
        own.get(&number)
            .is_none_or(|targets| targets.iter().all(|(_, target)| is_alike(*target, default)))
    };
    let alone: Vec<bool> = (0..).take(states.len()).map(can_wait).collect();
    for (state, alone_can) in states.iter_mut().zip(&alone) {
        let inherited_can = state.flags & STATE_INHERITS == 0 || alone[state.default as usize];
        if state.flags & STATE_GLOBS != 0 && *alone_can && inherited_can {
            state.flags = state.flags & !STATE_GLOBS | STATE_LATE_GLOBS;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::{STATE_GLOBS, STATE_LATE_GLOBS, State};
    use crate::matcher::Pattern;
    use crate::matcher::automaton::{Automaton, Sequence, build};

    fn automaton(patterns: &[&str]) -> Automaton {
        let sequences = patterns.iter().zip(0..).flat_map(|(text, saying)| {
            let pattern = Pattern::parse(text).expect("the pattern is right");
            let variants = pattern.alternatives().to_vec();
            variants
                .into_iter()
                .map(move |components| Sequence { components, saying })
        });
        let mut speak = |set: &[u32]| (set.iter().fold(0, |bits, saying| bits | 1 << saying), 0);
        build(&[sequences.collect()], 7, &mut speak).expect("it can be built")
    }

    /// How the states with globs are marked, taken together.
    fn marks(patterns: &[&str]) -> u32 {
        let states = automaton(patterns).states;
        let flags = states.iter().map(|state: &State| state.flags);
        flags.fold(0, |all, flags| all | flags & (STATE_GLOBS | STATE_LATE_GLOBS))
    }

    #[test]
    fn a_glob_below_a_name_can_wait() {
        assert_eq!(marks(&["/sys/[!f]*/**"]), STATE_LATE_GLOBS);
        assert_eq!(
            marks(&["/sys/[!f]*/**", "/proc/*", "/proc/x?/**"]),
            STATE_LATE_GLOBS
        );
        assert_eq!(marks(&["/a/b*", "/etc/shadow"]), STATE_LATE_GLOBS);
    }

    #[test]
    fn a_glob_that_speaks_at_once_or_at_the_root_or_leads_to_another_glob_cannot() {
        for patterns in [
            &["/**/*.key"][..],
            &["/a*"],
            // Another glob, or any name, before the one that is spelled out.
            &["/b/x*/y*"],
            &["/b/*/y*"],
            &["/sys/[!f]*/**", "/**/*.key"],
        ] {
            assert_ne!(marks(patterns) & STATE_GLOBS, 0, "{patterns:?}");
        }
    }

    #[test]
    fn without_globs_nothing_waits() {
        assert_eq!(marks(&["/a/b", "/c/**"]), 0);
    }
}

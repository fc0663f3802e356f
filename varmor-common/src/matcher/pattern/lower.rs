//! One token sequence -> the component sequences that it means.

use super::parse::{Kind, Token};
use super::{Component, MAX_ALTERNATIVES, PatternError, too_many};
use crate::abi::{MAX_DEPTH, MAX_NAME};
use crate::matcher::glob::{Glob, Item};

/// Component sequences from the root to the leaf.
pub(super) fn lower(tokens: &[Token]) -> Result<Vec<Vec<Component>>, PatternError> {
    let tokens = collapse(tokens);
    let Some(first) = tokens.first() else {
        return Err(PatternError::new(
            0,
            "an alternative of the pattern is empty",
            "every alternative must name a path: remove the empty one from the braces",
        ));
    };
    let anchored = first.kind == Kind::Slash;
    let slashes = tokens.iter().filter(|token| token.kind == Kind::Slash).count();
    if !anchored && slashes > 0 {
        return Err(PatternError::new(
            first.offset,
            "path pattern does not start with `/`",
            "start it with `/` (absolute) or `/**/` (anywhere); only a name without `/` may stand alone",
        ));
    }
    if tokens.len() == 1 && anchored {
        return Ok(vec![Vec::new()]);
    }
    if let Some(last) = tokens.last()
        && last.kind == Kind::Slash
    {
        return Err(PatternError::new(
            last.offset,
            "pattern ends with `/`",
            "leave the `/` off to name the folder itself, or end with `/**` to name everything below it",
        ));
    }
    let components: Vec<&[Token]> = tokens
        .split(|token| token.kind == Kind::Slash)
        .skip(usize::from(anchored))
        .collect();
    if components.iter().filter(|component| !is_deep(component)).count() > MAX_DEPTH as usize {
        return Err(PatternError::new(
            first.offset,
            format!("pattern has more than {MAX_DEPTH} names"),
            "deeper paths are always refused to protected tasks: replace names in the middle by `**`",
        ));
    }
    if components.iter().all(|component| is_deep(component)) {
        return Ok(vec![Vec::new(), vec![Component::Deep, Component::Any]]);
    }
    let mut sequences = vec![if anchored {
        Vec::new()
    } else {
        vec![Component::Deep]
    }];
    for (index, component) in components.iter().enumerate() {
        let expansions = match (is_deep(component), index + 1 == components.len()) {
            (true, true) => vec![vec![Component::Deep, Component::Any]],
            (true, false) => vec![vec![Component::Deep]],
            (false, _) => glued(component)?,
        };
        if sequences.len() * expansions.len() > MAX_ALTERNATIVES {
            return Err(too_many(component[0].offset));
        }
        sequences = sequences
            .iter()
            .flat_map(|head| expansions.iter().map(|tail| [&head[..], tail].concat()))
            .collect();
    }
    for sequence in &mut sequences {
        sequence.dedup_by(|a, b| *a == Component::Deep && *b == Component::Deep);
    }
    Ok(sequences)
}

/// Several `/` are one, and a run of stars is one star or one `**`.
fn collapse(tokens: &[Token]) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        match (out.last_mut().map(|last| &mut last.kind), token.kind) {
            (Some(Kind::Slash), Kind::Slash) | (Some(Kind::Star | Kind::Deep), Kind::Star) => {}
            (Some(last @ (Kind::Star | Kind::Deep)), Kind::Deep) => *last = Kind::Deep,
            _ => out.push(*token),
        }
    }
    out
}

fn is_deep(component: &[Token]) -> bool {
    matches!(component, [token] if token.kind == Kind::Deep)
}

/// A component that is more than a lone `**`. A `**` within it either stays within the name, or ends this name,
/// passes over whole names and begins another: `a**b` is `a*b`, or `a*`, any names, `*b`.
fn glued(component: &[Token]) -> Result<Vec<Vec<Component>>, PatternError> {
    let Some(at) = component.iter().position(|token| token.kind == Kind::Deep) else {
        return Ok(vec![vec![simple(component)?]]);
    };
    if component.iter().filter(|token| token.kind == Kind::Deep).count() > MAX_ALTERNATIVES.ilog2() as usize {
        return Err(too_many(component[at].offset));
    }
    let star = Token {
        kind: Kind::Star,
        offset: component[at].offset,
    };
    let (left, right) = (&component[..at], &component[at + 1..]);
    let closed = || simple(&[left, &[star]].concat());
    let opened = || glued(&[&[star], right].concat());
    if right.is_empty() {
        return Ok(vec![vec![closed()?, Component::Deep]]);
    }
    let (mut sequences, head) = if left.is_empty() {
        (Vec::new(), vec![Component::Deep])
    } else {
        (
            glued(&[left, &[star], right].concat())?,
            vec![closed()?, Component::Deep],
        )
    };
    sequences.extend(opened()?.into_iter().map(|tail| [&head[..], &tail].concat()));
    if sequences.len() > MAX_ALTERNATIVES {
        return Err(too_many(star.offset));
    }
    Ok(sequences)
}

/// A component without `**`.
fn simple(tokens: &[Token]) -> Result<Component, PatternError> {
    if let [token] = tokens
        && token.kind == Kind::Star
    {
        return Ok(Component::Any);
    }
    let items: Vec<Item> = tokens
        .iter()
        .map(|token| match token.kind {
            Kind::Byte(byte) => Item::Byte(byte),
            Kind::Set(set) => Item::Set(set),
            Kind::Star | Kind::Deep | Kind::Slash => Item::Star,
        })
        .collect();
    let offset = tokens.first().map_or(0, |token| token.offset);
    let shortest = items.iter().filter(|item| **item != Item::Star).count();
    if shortest > MAX_NAME as usize {
        return Err(PatternError::new(
            offset,
            format!("a name has {shortest} bytes, a file name has at most {MAX_NAME}"),
            "no file can have such a name: shorten it",
        ));
    }
    let literal: Option<Vec<u8>> = items
        .iter()
        .map(|item| match item {
            Item::Byte(byte) => Some(*byte),
            _ => None,
        })
        .collect();
    match literal {
        Some(name) if name == b"." || name == b".." => Err(PatternError::new(
            offset,
            format!(
                "`{}` in a pattern can never match: paths are judged after they are resolved",
                if name == b"." { "." } else { ".." }
            ),
            "write the path without it",
        )),
        Some(name) => Ok(Component::Literal(name)),
        None => Ok(Component::Glob(Glob(items))),
    }
}

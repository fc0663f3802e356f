//! The naive reference: patterns by backtracking over their own text, rules one by one. It shares no code with
//! the automata; tests and fuzzers compare both.

use crate::abi::{PERM_APPEND, PERM_EXEC, PERM_READ, PERM_STRUCT, PERM_WRITE};
use crate::profile::{Kinds, Object, Profile, Verdict};

#[derive(Clone, Copy)]
enum Token<'t> {
    Byte(u8),
    /// The inside of `[...]`, or `None` for `?`.
    One(Option<&'t [u8]>),
    Star,
    Deep,
}

/// Whether a pattern that `Pattern::parse` accepts matches a path (`/`, or `/name/...` without a `/` at the end).
#[must_use]
pub fn matches(pattern: &str, path: &[u8]) -> bool {
    variants(pattern.as_bytes())
        .iter()
        .any(|tokens| variant_matches(tokens, path))
}

/// Whether the path names a folder that a path matched by the pattern passes through under a name that the
/// pattern spells out.
#[must_use]
pub fn protects_folder(pattern: &str, path: &[u8]) -> bool {
    variants(pattern.as_bytes())
        .iter()
        .any(|tokens| variant_protects(tokens, path))
}

/// One of the paths that an object has.
#[derive(Clone, Debug)]
pub struct Name {
    pub path: Vec<u8>,
    /// How many bytes at its beginning a pattern must spell out to mean it.
    pub spelled: usize,
}

/// What the rules of a profile and its default say about an object that has all these paths: the denied and the
/// audited ones of the requested permissions.
#[must_use]
pub fn files(profile: &Profile, names: &[Name], requested: u32) -> (u32, u32) {
    let (mut denied, mut audited, mut allowed) = (0, 0, 0);
    for rule in &profile.rules {
        let Object::Path { pattern, access } = &rule.object else {
            continue;
        };
        let variants = variants(pattern.as_bytes());
        let hit = |test: &dyn Fn(&[Token<'_>], &[u8]) -> bool| {
            names.iter().any(|name| {
                variants
                    .iter()
                    .any(|tokens| spells(tokens, &name.path[..name.spelled]) && test(tokens, &name.path))
            })
        };
        if hit(&variant_matches) {
            match rule.verdict {
                Verdict::Deny => denied |= access.0,
                Verdict::Audit => audited |= access.0,
                Verdict::Allow => allowed |= access.0,
            }
        }
        if rule.verdict == Verdict::Deny && access.0 != 0 && hit(&variant_protects) {
            denied |= PERM_STRUCT;
        }
        // Folders may be moved by who may write everything below them, too.
        let whole_tree = |tokens: &[Token<'_>], path: &[u8]| {
            variant_matches(tokens, path) && variants.iter().any(|other| covers_below(other, path))
        };
        if rule.verdict == Verdict::Allow && access.0 & PERM_WRITE != 0 && hit(&whole_tree) {
            allowed |= PERM_STRUCT;
        }
    }
    let of = |kinds: Kinds| {
        let files = if kinds.meets(Kinds::FILES) {
            PERM_READ | PERM_WRITE | PERM_APPEND | PERM_STRUCT
        } else {
            0
        };
        let exec = if kinds.meets(Kinds::EXEC) { PERM_EXEC } else { 0 };
        (files | exec) & !allowed
    };
    denied |= of(profile.default.denied);
    audited |= of(profile.default.audited);
    (denied & requested, audited & requested)
}

/// Whether the tokens match whatever is below the path, as far as a few names can stand for all.
fn covers_below(tokens: &[Token<'_>], path: &[u8]) -> bool {
    const NAMES: [&[u8]; 5] = [b"/\x01", b"/\x01\x02\x03\x04", b"/a", b"/b", b"/proc"];
    let head = if path == b"/" { &[][..] } else { path };
    NAMES
        .iter()
        .all(|name| (1..=8).all(|depth| variant_matches(tokens, &[head, &name.repeat(depth)].concat())))
}

fn spells(tokens: &[Token<'_>], text: &[u8]) -> bool {
    tokens.len() >= text.len()
        && text
            .iter()
            .zip(tokens)
            .all(|(byte, token)| matches!(token, Token::Byte(literal) if literal == byte))
}

fn variant_matches(tokens: &[Token<'_>], path: &[u8]) -> bool {
    if tokens
        .iter()
        .all(|token| matches!(token, Token::Byte(b'/') | Token::Deep))
    {
        return tokens.len() > 1 || matches!(tokens[0], Token::Deep) || path == b"/";
    }
    path != b"/" && whole(tokens, path, 0)
}

fn variant_protects(tokens: &[Token<'_>], path: &[u8]) -> bool {
    let anywhere = !matches!(tokens, [Token::Byte(b'/'), ..]) || matches!(tokens, [_, Token::Deep, ..]);
    !anywhere && path != b"/" && folder(tokens, path, 0, false)
}

/// All ways to choose from the braces.
fn variants(pattern: &[u8]) -> Vec<Vec<Token<'_>>> {
    let mut rest = pattern;
    sequence(&mut rest, false)
        .iter()
        .map(|tokens| tidy(tokens))
        .collect()
}

fn sequence<'t>(rest: &mut &'t [u8], inside: bool) -> Vec<Vec<Token<'t>>> {
    let mut found = vec![Vec::new()];
    while let Some((&byte, behind)) = rest.split_first() {
        if inside && matches!(byte, b',' | b'}') {
            break;
        }
        *rest = behind;
        let token = match byte {
            b'{' => {
                let mut choices = Vec::new();
                loop {
                    choices.extend(sequence(rest, true));
                    let (&end, behind) = rest.split_first().expect("the pattern was accepted");
                    *rest = behind;
                    if end == b'}' {
                        break;
                    }
                }
                found = found
                    .iter()
                    .flat_map(|head| choices.iter().map(|tail| [&head[..], &tail[..]].concat()))
                    .collect();
                continue;
            }
            b'\\' => {
                let (&escaped, behind) = rest.split_first().expect("the pattern was accepted");
                *rest = behind;
                Token::Byte(escaped)
            }
            b'*' if rest.first() == Some(&b'*') => {
                *rest = &rest[1..];
                Token::Deep
            }
            b'*' => Token::Star,
            b'?' => Token::One(None),
            b'[' => {
                let negation = usize::from(matches!(rest.first(), Some(b'!' | b'^')));
                let mut end = negation;
                while end == negation || rest[end] != b']' {
                    end += if rest[end] == b'\\' { 2 } else { 1 };
                }
                let set = &rest[..end];
                *rest = &rest[end + 1..];
                Token::One(Some(set))
            }
            byte => Token::Byte(byte),
        };
        for tokens in &mut found {
            tokens.push(token);
        }
    }
    found
}

/// Drops doubled `/` and joins runs of stars.
fn tidy<'t>(tokens: &[Token<'t>]) -> Vec<Token<'t>> {
    let mut out: Vec<Token<'t>> = Vec::new();
    for &token in tokens {
        match (out.last(), token) {
            (Some(Token::Byte(b'/')), Token::Byte(b'/')) | (Some(Token::Star | Token::Deep), Token::Star) => {
            }
            (Some(Token::Star | Token::Deep), Token::Deep) => {
                *out.last_mut().expect("not empty") = Token::Deep;
            }
            _ => out.push(token),
        }
    }
    out
}

/// A pattern without `/` may stand behind any `/` of the path.
fn whole(tokens: &[Token<'_>], path: &[u8], at: usize) -> bool {
    if matches!(tokens[0], Token::Byte(b'/')) {
        return here(tokens, path, at);
    }
    (0..path.len()).any(|start| path[start] == b'/' && here(tokens, path, start + 1))
}

fn here(tokens: &[Token<'_>], path: &[u8], at: usize) -> bool {
    // `/**/`: zero or more whole names.
    if let [Token::Byte(b'/'), Token::Deep, Token::Byte(b'/'), ..] = tokens {
        return path.get(at) == Some(&b'/')
            && (at..path.len()).any(|slash| path[slash] == b'/' && here(&tokens[2..], path, slash));
    }
    // A name is never empty, so a star that is all of a name eats at least one byte.
    if let [Token::Byte(b'/'), Token::Star] | [Token::Byte(b'/'), Token::Star, Token::Byte(b'/'), ..] = tokens
        && (path.get(at) != Some(&b'/') || path.get(at + 1).is_none_or(|&byte| byte == b'/'))
    {
        return false;
    }
    let Some((token, rest)) = tokens.split_first() else {
        return at == path.len();
    };
    match token {
        Token::Byte(byte) => path.get(at) == Some(byte) && here(rest, path, at + 1),
        Token::One(set) => {
            path.get(at)
                .is_some_and(|&byte| byte != b'/' && set.is_none_or(|set| member(set, byte)))
                && here(rest, path, at + 1)
        }
        Token::Star => {
            here(rest, path, at)
                || (path.get(at).is_some_and(|&byte| byte != b'/') && here(tokens, path, at + 1))
        }
        Token::Deep => here(rest, path, at) || (at < path.len() && here(tokens, path, at + 1)),
    }
}

/// Whether the path is used up exactly at the end of a name that is not left to `**`, and the pattern goes on.
/// `lone` = the last name of the pattern so far is only `**`.
fn folder(tokens: &[Token<'_>], path: &[u8], at: usize, lone: bool) -> bool {
    let Some((token, rest)) = tokens.split_first() else {
        return false;
    };
    if at == path.len() {
        let glued = matches!(token, Token::Deep) && path[at - 1] != b'/' && !lone;
        let star = matches!(token, Token::Star) && path[at - 1] != b'/' && folder(rest, path, at, lone);
        return star || glued || (matches!(token, Token::Byte(b'/')) && !lone);
    }
    match token {
        Token::Byte(b'/') => {
            if path[at] != b'/' {
                return false;
            }
            if let [Token::Deep, tail @ ..] = rest
                && matches!(tail, [] | [Token::Byte(b'/'), ..])
            {
                return !tail.is_empty()
                    && (at..path.len()).any(|slash| path[slash] == b'/' && folder(tail, path, slash, true));
            }
            folder(rest, path, at + 1, false)
        }
        Token::Byte(byte) => path[at] == *byte && folder(rest, path, at + 1, false),
        Token::One(set) => {
            path[at] != b'/'
                && set.is_none_or(|set| member(set, path[at]))
                && folder(rest, path, at + 1, false)
        }
        Token::Star => {
            folder(rest, path, at, false) || (path[at] != b'/' && folder(tokens, path, at + 1, false))
        }
        // Within the name the `**` acts as `*`; once it has passed a `/`, the name it ends in is `*rest`.
        Token::Deep => {
            let glued = path[at - 1] != b'/';
            let passed = matches!(rest, [Token::Byte(b'/'), ..]);
            let mut slashes = 0;
            (at..=path.len()).any(|end| {
                slashes += usize::from(end > at && path[end - 1] == b'/');
                match slashes {
                    0 if end == path.len() => glued,
                    0 => folder(rest, path, end, !glued && passed),
                    _ => !rest.is_empty() && folder(rest, path, end, passed),
                }
            })
        }
    }
}

fn member(set: &[u8], byte: u8) -> bool {
    let (negated, mut rest) = match set {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let take = |rest: &mut &[u8]| {
        let skip = usize::from(rest[0] == b'\\');
        let taken = rest[skip];
        *rest = &rest[skip + 1..];
        taken
    };
    let mut found = false;
    while !rest.is_empty() {
        let low = take(&mut rest);
        let high = if rest.len() > 1 && rest[0] == b'-' {
            rest = &rest[1..];
            take(&mut rest)
        } else {
            low
        };
        found |= (low..=high).contains(&byte);
    }
    found != negated
}

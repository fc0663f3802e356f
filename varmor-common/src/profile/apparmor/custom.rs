//! The text of a custom profile: its frame is taken off, its statements are checked like raw rules.

use super::lexer::{Kind, Position, TextError, Token, tokens};
use super::statement::of_tokens;

/// Flags that a profile has anyway.
const FLAGS: [&str; 3] = ["attach_disconnected", "mediate_deleted", "enforce"];

/// The statements of a custom profile. Its name is that of the policy's profile, whatever the text says, and it is
/// attached to no program, so that it cannot confine anything but the containers of the policy.
pub fn custom_profile(text: &str) -> Result<Vec<String>, TextError> {
    let tokens = tokens(text)?;
    let open = frame(&tokens)?;
    let body = &tokens[open + 1..];
    let brace = |token: &Token| matches!(token.kind, Kind::BraceOpen | Kind::BraceClose);
    let Some(close) = body.iter().position(brace) else {
        return Err(at(&tokens, tokens.len()).error("the profile is never closed", "add the last `}`"));
    };
    if body[close].kind == Kind::BraceOpen {
        // The statement that opens it says best what is wrong.
        let inner = of_tokens(&body[..=close], true);
        let other = body[close]
            .at
            .error("a brace opens another profile", "take it out");
        return Err(inner.err().unwrap_or(other));
    }
    if let Some(more) = body.get(close + 1) {
        return Err(more.at.error(
            "something follows the end of the profile",
            "a policy has one profile; take the rest out",
        ));
    }
    of_tokens(&body[..close], true)
}

/// Reads what stands before the rules; the index of the opening brace.
fn frame(tokens: &[Token]) -> Result<usize, TextError> {
    let kind = |index: usize| tokens.get(index).map(|token| &token.kind);
    let is_word = |index: usize, word: &str| matches!(kind(index), Some(Kind::Word(own)) if own == word);
    let mut next = 0;
    loop {
        match (kind(next), kind(next + 1)) {
            (Some(Kind::Include), Some(Kind::Angle(name))) if name == "tunables/global" => next += 2,
            (Some(Kind::Word(word)), Some(Kind::Angle(name)))
                if word == "include" && name == "tunables/global" =>
            {
                next += 2;
            }
            (Some(Kind::Word(word)), Some(Kind::Angle(name)))
                if word == "abi" && name.starts_with("abi/") =>
            {
                next += 2 + usize::from(kind(next + 2) == Some(&Kind::Comma));
            }
            _ => break,
        }
    }
    if !is_word(next, "profile") {
        return Err(at(tokens, next).error(
            "a profile should begin here",
            "write `profile NAME { ... }`; of what stands before it only `#include <tunables/global>` and `abi` are known",
        ));
    }
    next += 1;
    if !matches!(kind(next), Some(Kind::Word(_) | Kind::Text(_))) {
        return Err(at(tokens, next).error("the profile has no name", "write `profile NAME {`"));
    }
    next += 1;
    if let Some(Kind::Text(_)) = kind(next) {
        return Err(at(tokens, next).error(
            "the profile would attach itself to programs of the host",
            "take the path out: the container runtime names the profile",
        ));
    }
    if is_word(next, "flags") {
        next += 1;
        next += usize::from(kind(next) == Some(&Kind::Equal));
        if kind(next) != Some(&Kind::Open) {
            return Err(at(tokens, next).error("flags stand in `( )`", "write `flags=(mediate_deleted)`"));
        }
        next += 1;
        while kind(next) != Some(&Kind::Close) {
            match kind(next) {
                Some(Kind::Comma) => {}
                Some(Kind::Word(flag)) if FLAGS.contains(&flag.as_str()) => {}
                _ => {
                    return Err(at(tokens, next).error(
                        "this flag is not supported",
                        "use attach_disconnected and mediate_deleted; instead of `complain` set `allowViolations`",
                    ));
                }
            }
            next += 1;
        }
        next += 1;
    }
    if kind(next) != Some(&Kind::BraceOpen) {
        return Err(at(tokens, next).error("`{` is missing here", "write `profile NAME {`"));
    }
    Ok(next)
}

/// Where token `index` is; behind the end, where the last one is.
fn at(tokens: &[Token], index: usize) -> Position {
    let token = tokens.get(index).or_else(|| tokens.last());
    token.map_or(Position { line: 1, column: 1 }, |token| token.at)
}

//! Tokens -> statements in canonical spelling.
//!
//! A statement is written anew from its tokens: keywords come from a list of ours, everything else stands in quotes.
//! So a text cannot mean more to `apparmor_parser` than it means here.

use super::lexer::{Kind, Position, TextError, Token, tokens};
use super::variables;
use crate::policy::vocabulary::{domain_names, protocol_names, type_names};
use crate::rules::CAPABILITY_NAMES;

/// The statements of a raw rule.
pub fn statements(text: &str) -> Result<Vec<String>, TextError> {
    of_tokens(&tokens(text)?, false)
}

/// The statements of these tokens. In a custom profile (`base`) the base abstraction may be included.
pub(super) fn of_tokens(tokens: &[Token], base: bool) -> Result<Vec<String>, TextError> {
    let mut found = Vec::new();
    let mut reader = Reader { tokens, next: 0 };
    while let Some(token) = reader.peek() {
        let by_word = token.kind == Kind::Word("include".to_owned()) && base;
        if token.kind == Kind::Include || by_word {
            reader.next += 1;
            found.extend(include(&mut reader, token.at, base)?);
        } else {
            found.push(statement(&mut reader)?);
        }
    }
    Ok(found)
}

/// The statements of the base abstraction.
pub(super) fn base() -> Result<Vec<String>, TextError> {
    statements(BASE)
}

/// What programs of every kind need; stands for `abstractions/base`, of which every host has its own.
const BASE: &str = include_str!("base.txt");

fn include(reader: &mut Reader<'_>, at: Position, base: bool) -> Result<Vec<String>, TextError> {
    match reader.take() {
        Some(Kind::Angle(name)) if base && name == "abstractions/base" => {
            reader.skip(&Kind::Comma);
            self::base()
        }
        _ if base => Err(at.error(
            "files of the host are not included",
            "only `#include <abstractions/base>` is known, with a text of varmor's own; write the other rules out",
        )),
        _ => Err(at.error(
            "files of the host are not included",
            "write the rules of the file out",
        )),
    }
}

/// Statements that define something or lead out of the profile, and why they are refused.
const REFUSED: [(&str, &str); 12] = [
    ("profile", "a rule cannot define another profile"),
    ("hat", "a rule cannot define another profile"),
    ("include", "files of the host are not included"),
    ("abi", "the policy language is that of the kernel"),
    ("alias", "an alias would change rules of other profiles"),
    ("set", "limits are set by the container's own settings"),
    ("rlimit", "limits are set by the container's own settings"),
    (
        "change_profile",
        "a container cannot be allowed to leave its profile",
    ),
    ("change_hat", "a container cannot be allowed to leave its profile"),
    ("if", "conditions are not supported"),
    ("else", "conditions are not supported"),
    ("all", "write the kinds of rules, such as `file,` and `network,`"),
];

struct Reader<'t> {
    tokens: &'t [Token],
    next: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self) -> Option<&'t Kind> {
        let token = self.tokens.get(self.next)?;
        self.next += 1;
        Some(&token.kind)
    }

    fn skip(&mut self, kind: &Kind) -> bool {
        let found = self.peek().is_some_and(|token| token.kind == *kind);
        self.next += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> bool {
        self.skip(&Kind::Word(word.to_owned()))
    }

    /// Where the next token is, or the last one was.
    fn at(&self) -> Position {
        self.peek()
            .or_else(|| self.tokens.last())
            .map_or(Position { line: 1, column: 1 }, |token| token.at)
    }
}

fn statement(reader: &mut Reader<'_>) -> Result<String, TextError> {
    let start = reader.at();
    let mut out = String::new();
    for qualifier in ["audit", "deny", "allow"] {
        if reader.word(qualifier) {
            if qualifier == "allow" && out.contains("deny") {
                return Err(start.error("`deny` and `allow` in one rule", "leave one of them out"));
            }
            if qualifier != "allow" {
                out.push_str(qualifier);
                out.push(' ');
            }
        }
    }
    let denies = out.ends_with("deny ");
    if reader.word("owner") {
        out.push_str("owner ");
    }
    let at = reader.at();
    let Some(token) = reader.peek() else {
        return Err(start.error("the rule ends too early", "complete it, or take it out"));
    };
    match &token.kind {
        Kind::Text(_) => out.push_str(&file(reader, denies)?),
        Kind::Word(word) => {
            if let Some((_, reason)) = REFUSED.iter().find(|(known, _)| known == word) {
                return Err(at.error(format!("`{word}` is refused here"), *reason));
            }
            if out.ends_with("owner ") && !is_file(word) {
                return Err(at.error("`owner` is for files only", "take it out"));
            }
            out.push_str(&of_keyword(reader, word, denies)?);
        }
        Kind::BraceOpen | Kind::BraceClose => {
            return Err(at.error(
                "a brace would open or close a profile",
                "a rule is a list of statements, each with a comma at its end",
            ));
        }
        _ => return Err(at.error("a rule does not begin so", "begin with a path or a keyword")),
    }
    if !reader.skip(&Kind::Comma) {
        let at = reader.at();
        return Err(at.error(
            "the statement should have ended here",
            "end each statement with a comma",
        ));
    }
    out.push(',');
    Ok(out)
}

fn is_file(word: &str) -> bool {
    matches!(word, "file" | "link") || word.chars().all(|letter| "rwalkmxi".contains(letter))
}

fn of_keyword(reader: &mut Reader<'_>, word: &str, denies: bool) -> Result<String, TextError> {
    let at = reader.at();
    match word {
        "capability" => {
            reader.next += 1;
            words(reader, "capability", |word| CAPABILITY_NAMES.contains(&word))
        }
        "network" => {
            reader.next += 1;
            let known = |word: &str| {
                domain_names()
                    .chain(type_names())
                    .chain(protocol_names())
                    .any(|one| one == word)
            };
            words(reader, "network", known)
        }
        "userns" | "io_uring" | "mqueue" => {
            reader.next += 1;
            words(reader, word, |word| {
                matches!(
                    word,
                    "create" | "sqpoll" | "override_creds" | "read" | "write" | "open" | "delete"
                )
            })
        }
        "mount" | "remount" | "umount" | "pivot_root" | "ptrace" | "signal" | "unix" | "dbus" => {
            reader.next += 1;
            conditions(reader, word)
        }
        "link" => {
            reader.next += 1;
            let subset = if reader.word("subset") { "subset " } else { "" };
            let source = path(reader)?;
            if !reader.skip(&Kind::Arrow) {
                return Err(reader
                    .at()
                    .error("a link needs `->`", "write `link /new -> /old,`"));
            }
            Ok(format!("link {subset}{source} -> {}", path(reader)?))
        }
        "file" => {
            reader.next += 1;
            if reader.peek().is_none_or(|token| token.kind == Kind::Comma) {
                return Ok("file".to_owned());
            }
            file(reader, denies)
        }
        _ if is_file(word) => file(reader, denies),
        _ => Err(at.error(
            format!("there is no rule `{}`", shortened(word)),
            "begin with a path, or with capability, dbus, file, link, mount, network, pivot_root, ptrace, remount, signal, \
             umount or unix",
        )),
    }
}

/// `PATH PERMISSIONS` or `PERMISSIONS PATH`.
fn file(reader: &mut Reader<'_>, denies: bool) -> Result<String, TextError> {
    if matches!(reader.peek().map(|token| &token.kind), Some(Kind::Word(_))) {
        let access = permissions(reader, denies)?;
        return Ok(format!("{} {access}", path(reader)?));
    }
    let path = path(reader)?;
    let access = permissions(reader, denies)?;
    if reader.peek().is_some_and(|token| token.kind == Kind::Arrow) {
        return Err(reader.at().error(
            "`->` would lead into another profile",
            "use `ix`: programs stay in the profile",
        ));
    }
    Ok(format!("{path} {access}"))
}

fn path(reader: &mut Reader<'_>) -> Result<String, TextError> {
    let at = reader.at();
    let Some(Kind::Text(text)) = reader.take() else {
        return Err(at.error("a path is missing here", "write an absolute path"));
    };
    let text = variables::expand(text, at)?;
    if !text.starts_with('/') {
        return Err(at.error("the path is not absolute", "begin it with `/`"));
    }
    Ok(quoted(&text))
}

/// File permissions that do not leave the profile.
fn permissions(reader: &mut Reader<'_>, denies: bool) -> Result<String, TextError> {
    let at = reader.at();
    let Some(Kind::Word(word)) = reader.take() else {
        return Err(at.error(
            "permissions are missing here",
            "write some of r, w, a, l, k, m and ix",
        ));
    };
    if let Some(letter) = word.chars().find(|letter| "uUpPcC".contains(*letter)) {
        return Err(at.error(
            format!("`{letter}x` would run a program outside of the profile"),
            "use `ix`: programs stay in the profile",
        ));
    }
    let is_known = word.chars().all(|letter| "rwalkmxi".contains(letter));
    let runs = word.contains('x');
    let is_sound = word.contains('i') <= runs && !(word.contains('w') && word.contains('a'));
    if !is_known || !is_sound {
        return Err(at.error(
            format!("`{}` are no permissions", shortened(word)),
            "write some of r, w or a, l, k, m and ix",
        ));
    }
    if !denies && runs && !word.contains("ix") {
        return Err(at.error("`x` alone can only be denied", "write `ix`"));
    }
    let plain: String = word
        .chars()
        .filter(|letter| !matches!(letter, 'x' | 'i'))
        .collect();
    let exec = match (runs, denies) {
        (false, _) => "",
        (true, true) => "x",
        (true, false) => "ix",
    };
    Ok(plain + exec)
}

/// A keyword and words that it may be followed by.
fn words(
    reader: &mut Reader<'_>,
    keyword: &str,
    is_known: impl Fn(&str) -> bool,
) -> Result<String, TextError> {
    let mut out = keyword.to_owned();
    loop {
        let at = reader.at();
        match reader.peek().map(|token| &token.kind) {
            Some(Kind::Word(word)) if is_known(word) => {
                out.push(' ');
                out.push_str(word);
            }
            Some(Kind::Word(word)) => {
                return Err(at.error(
                    format!("`{}` is unknown to `{keyword}`", shortened(word)),
                    "correct the name",
                ));
            }
            None | Some(Kind::Comma) => return Ok(out),
            Some(_) => {
                return Err(at.error(
                    format!("`{keyword}` is followed by names only"),
                    "end the statement with a comma",
                ));
            }
        }
        reader.next += 1;
    }
}

/// A keyword, conditions, paths and an arrow, in the order in which they are written.
fn conditions(reader: &mut Reader<'_>, keyword: &str) -> Result<String, TextError> {
    let mut out = keyword.to_owned();
    let mut depth = 0_u32;
    let mut is_value = false;
    loop {
        let Some(token) = reader.peek() else {
            return Ok(out);
        };
        let at = token.at;
        let part = match &token.kind {
            Kind::Comma if depth == 0 => return Ok(out),
            // The next word brings its own space.
            Kind::Comma => String::new(),
            Kind::Open => {
                depth += 1;
                if is_value { "(" } else { " (" }.to_owned()
            }
            Kind::Close if depth > 0 => {
                depth -= 1;
                ")".to_owned()
            }
            Kind::Equal => "=".to_owned(),
            Kind::Arrow if keyword == "mount" && depth == 0 => " ->".to_owned(),
            Kind::Arrow => {
                return Err(at.error("`->` would lead into another profile", "take it out"));
            }
            // `apparmor_parser` knows some of these words anywhere in a rule.
            Kind::Word(word) if word != "set" && REFUSED.iter().any(|(refused, _)| refused == word) => {
                return Err(at.error(
                    format!("`{word}` cannot stand in a rule about `{keyword}`"),
                    "end the statement with a comma",
                ));
            }
            Kind::Word(word) if is_value => value(word),
            Kind::Word(word) => format!(" {}", value(word)),
            Kind::Text(text) => {
                let text = variables::expand(text, at)?;
                if is_value {
                    quoted(&text)
                } else {
                    format!(" {}", quoted(&text))
                }
            }
            _ => {
                return Err(at.error(
                    format!("this cannot stand in a rule about `{keyword}`"),
                    "end the statement with a comma",
                ));
            }
        };
        is_value = matches!(token.kind, Kind::Equal | Kind::Open);
        out.push_str(&part);
        reader.next += 1;
    }
}

/// A word as it is if it can only be a name, else in quotes.
fn value(word: &str) -> String {
    let is_name = word
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '+'));
    if is_name { word.to_owned() } else { quoted(word) }
}

/// The lexer lets no quote into a text.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn shortened(word: &str) -> String {
    word.chars().take(40).collect()
}

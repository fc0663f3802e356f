//! `AppArmor`'s language as users may write it: text -> tokens with positions.
//!
//! Everything that could lead out of the profile is no token: a brace outside of a path, an escape that makes
//! another character, a control character.

/// A place in a text and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct TextError {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    pub message: String,
    /// What to write instead.
    pub help: String,
}

/// From 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Position {
    pub(super) fn error(self, message: impl Into<String>, help: impl Into<String>) -> TextError {
        TextError {
            line: self.line,
            column: self.column,
            message: message.into(),
            help: help.into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Position,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Letters, digits and `_ . + - : *`, as keywords and values have them.
    Word(String),
    /// A path, a pattern or a label, without its quotes.
    Text(String),
    Open,
    Close,
    Equal,
    Arrow,
    Comma,
    /// `#include`, as in `#include <abstractions/base>`.
    Include,
    /// What stands between `<` and `>`.
    Angle(String),
    BraceOpen,
    BraceClose,
}

/// The tokens of a text; comments are left out.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, TextError> {
    let mut lexer = Lexer {
        rest: text.chars().peekable(),
        at: Position { line: 1, column: 1 },
    };
    let mut tokens = Vec::new();
    if text.len() > super::MAX_TEXT {
        let message = format!(
            "the text has {} bytes, at most {} are read",
            text.len(),
            super::MAX_TEXT
        );
        return Err(lexer.at.error(message, "split it into several entries"));
    }
    while let Some(token) = lexer.token()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    at: Position,
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        if letter == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(letter)
    }

    fn peek(&mut self) -> Option<char> {
        self.rest.peek().copied()
    }

    fn token(&mut self) -> Result<Option<Token>, TextError> {
        while self
            .peek()
            .is_some_and(|letter| matches!(letter, ' ' | '\t' | '\n'))
        {
            self.next();
        }
        let at = self.at;
        let Some(first) = self.peek() else { return Ok(None) };
        let kind = match first {
            '#' => {
                if self.comment()? {
                    Kind::Include
                } else {
                    return self.token();
                }
            }
            '(' | ')' | '=' | ',' | '{' | '}' => {
                self.next();
                match first {
                    '(' => Kind::Open,
                    ')' => Kind::Close,
                    '=' => Kind::Equal,
                    ',' => Kind::Comma,
                    '{' => Kind::BraceOpen,
                    _ => Kind::BraceClose,
                }
            }
            '<' => Kind::Angle(self.angle(at)?),
            '"' => Kind::Text(self.quoted(at)?),
            '/' | '@' => Kind::Text(self.path(at)?),
            '-' => {
                self.next();
                if self.next() != Some('>') {
                    return Err(at.error("`-` begins nothing here", "write `->` or quote the name"));
                }
                Kind::Arrow
            }
            letter if is_word(letter) => Kind::Word(self.word(at)?),
            letter => return Err(unexpected(at, letter)),
        };
        Ok(Some(Token { kind, at }))
    }

    /// Reads a comment; true if it is none, but an include.
    fn comment(&mut self) -> Result<bool, TextError> {
        self.next();
        let mut start = String::new();
        while let Some(letter) = self.peek().filter(|letter| *letter != '\n') {
            if start == "include" && !letter.is_ascii_alphanumeric() {
                return Ok(true);
            }
            let at = self.at;
            self.next();
            if letter.is_control() && letter != '\t' {
                return Err(unexpected(at, letter));
            }
            start.push(letter);
        }
        Ok(start == "include")
    }

    fn angle(&mut self, at: Position) -> Result<String, TextError> {
        self.next();
        let mut name = String::new();
        loop {
            match self.next() {
                Some('>') => return Ok(name),
                Some(letter) if letter.is_ascii_graphic() && letter != '<' => name.push(letter),
                _ => return Err(at.error("`<` is never closed", "write `<abstractions/base>`")),
            }
        }
    }

    fn quoted(&mut self, at: Position) -> Result<String, TextError> {
        self.next();
        let mut text = String::new();
        loop {
            let here = self.at;
            match self.next() {
                Some('"') => return Ok(text),
                Some('\\') => self.escape(here, &mut text)?,
                Some(letter) if letter.is_control() => return Err(unexpected(here, letter)),
                Some(letter) => text.push(letter),
                None => return Err(at.error("the quote is never closed", "add the closing `\"`")),
            }
        }
    }

    /// A path without quotes: up to a space, or up to a comma outside of braces. Braces must be closed within it.
    fn path(&mut self, at: Position) -> Result<String, TextError> {
        let mut text = String::new();
        let mut depth = 0_u32;
        let mut in_set = false;
        while let Some(letter) = self.peek() {
            let here = self.at;
            match letter {
                ' ' | '\t' | '\n' => break,
                ',' if depth == 0 => break,
                ')' | '(' if depth == 0 && !in_set => break,
                '"' => return Err(here.error("a quote within a path", "quote the whole path")),
                '{' => depth += 1,
                '}' if depth == 0 => {
                    return Err(here.error(
                        "`}` would close the profile",
                        "take it out, or quote and escape it",
                    ));
                }
                '}' => depth -= 1,
                '[' => in_set = true,
                ']' => in_set = false,
                letter if letter.is_control() => return Err(unexpected(here, letter)),
                _ => {}
            }
            self.next();
            if letter == '\\' {
                self.escape(here, &mut text)?;
            } else {
                text.push(letter);
            }
        }
        if depth > 0 {
            return Err(at.error(
                "a brace of this path is never closed",
                "add the `}`, or quote and escape the `{`",
            ));
        }
        Ok(text)
    }

    /// Only what keeps a character as it is: `\101` and the like could spell anything.
    fn escape(&mut self, at: Position, text: &mut String) -> Result<(), TextError> {
        match self.next() {
            Some('"') => Err(at.error("a quote within a name", "write `?` in its place")),
            Some(letter) if letter.is_ascii_punctuation() || letter == ' ' => {
                text.push('\\');
                text.push(letter);
                Ok(())
            }
            _ => Err(at.error(
                "`\\` must stand before a special character",
                "write `\\\\` for the character itself",
            )),
        }
    }

    fn word(&mut self, at: Position) -> Result<String, TextError> {
        let mut word = String::new();
        while let Some(letter) = self.peek().filter(|letter| is_word(*letter) || *letter == '-') {
            self.next();
            if letter == '-' && self.peek() == Some('>') {
                return Err(at.error("`->` needs a space before it", "put a space there"));
            }
            word.push(letter);
        }
        Ok(word)
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '+' | ':' | '*')
}

fn unexpected(at: Position, letter: char) -> TextError {
    let help = match letter {
        '$' => "boolean variables are not supported",
        '^' => "hats cannot be defined here: they are profiles of their own",
        '&' | '!' => "labels of other profiles cannot be named here",
        _ => "take it out",
    };
    at.error(
        format!("`{}` is not expected here", letter.escape_default()),
        help,
    )
}

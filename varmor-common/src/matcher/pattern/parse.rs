//! Pattern text -> flat token sequences: escapes, sets and braces are resolved here.

use super::{MAX_ALTERNATIVES, PatternError, too_many};
use crate::matcher::glob::ByteSet;

/// Deepest nesting of braces.
const MAX_NESTING: usize = 16;
/// Most tokens of all alternatives together.
const MAX_TOKENS: usize = 1 << 18;

/// One token and the byte of the text where it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Byte(u8),
    Set(ByteSet),
    Star,
    Deep,
    Slash,
}

enum Node {
    Token(Token),
    /// Alternatives in braces, and where the brace opened.
    Group(Vec<Vec<Node>>, usize),
}

/// All token sequences of a pattern.
pub(super) fn alternatives(text: &[u8]) -> Result<Vec<Vec<Token>>, PatternError> {
    let mut parser = Parser { text, at: 0 };
    let nodes = parser.sequence(0)?;
    expand(&nodes)
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
}

impl Parser<'_> {
    /// Reads up to the end of the text, or in braces (`nesting > 0`) up to the `,` or `}`.
    fn sequence(&mut self, nesting: usize) -> Result<Vec<Node>, PatternError> {
        let mut nodes = Vec::new();
        while let Some(&byte) = self.text.get(self.at) {
            let offset = self.at;
            if nesting > 0 && (byte == b',' || byte == b'}') {
                break;
            }
            self.at += 1;
            let kind = match byte {
                b'{' => {
                    nodes.push(self.group(offset, nesting + 1)?);
                    continue;
                }
                b'}' => {
                    return Err(PatternError::new(
                        offset,
                        "`}` closes no brace",
                        r"write `\}` for the character itself, or add the missing `{`",
                    ));
                }
                b'[' => self.set(offset)?,
                b'*' if self.text.get(self.at) == Some(&b'*') => {
                    self.at += 1;
                    Kind::Deep
                }
                b'*' => Kind::Star,
                b'?' => Kind::Set(ByteSet::NAME),
                b'/' => Kind::Slash,
                b'\\' => {
                    let byte = self.escaped(offset)?;
                    if byte == b'/' {
                        Kind::Slash
                    } else {
                        Kind::Byte(byte)
                    }
                }
                byte => Kind::Byte(literal(byte, offset)?),
            };
            nodes.push(Node::Token(Token { kind, offset }));
        }
        Ok(nodes)
    }

    fn group(&mut self, offset: usize, nesting: usize) -> Result<Node, PatternError> {
        if nesting > MAX_NESTING {
            return Err(PatternError::new(
                offset,
                format!("braces are nested more than {MAX_NESTING} deep"),
                "write the alternatives side by side",
            ));
        }
        let mut alternatives = Vec::new();
        loop {
            alternatives.push(self.sequence(nesting)?);
            self.at += 1;
            match self.text.get(self.at - 1) {
                Some(b',') => {}
                Some(_) => return Ok(Node::Group(alternatives, offset)),
                None => {
                    return Err(PatternError::new(
                        offset,
                        "`{` is never closed",
                        r"add the `}`, or write `\{` for the character itself",
                    ));
                }
            }
        }
    }

    fn escaped(&mut self, offset: usize) -> Result<u8, PatternError> {
        let byte = *self.text.get(self.at).ok_or_else(|| {
            PatternError::new(
                offset,
                r"`\` has nothing behind it",
                r"write `\\` for the character itself",
            )
        })?;
        self.at += 1;
        literal(byte, offset)
    }

    /// Reads a set behind its `[`. A `]` directly behind the opening is a member, as in every shell.
    fn set(&mut self, offset: usize) -> Result<Kind, PatternError> {
        let negated = matches!(self.text.get(self.at), Some(b'!' | b'^'));
        self.at += usize::from(negated);
        let mut set = ByteSet::EMPTY;
        let mut first = true;
        loop {
            if !first && self.text.get(self.at) == Some(&b']') {
                self.at += 1;
                break;
            }
            first = false;
            let low = self.member(offset)?;
            let range = self.text.get(self.at) == Some(&b'-')
                && self.text.get(self.at + 1).is_some_and(|&byte| byte != b']');
            let high = if range {
                self.at += 1;
                self.member(offset)?
            } else {
                low
            };
            if high < low {
                return Err(PatternError::new(
                    offset,
                    "range in `[ ]` runs backwards",
                    "write the smaller character first, as in `[a-z]`",
                ));
            }
            set.insert_range(low, high);
        }
        if negated {
            set = set.complement_in_names();
        }
        Ok(set.single().map_or(Kind::Set(set), Kind::Byte))
    }

    fn member(&mut self, offset: usize) -> Result<u8, PatternError> {
        let at = self.at;
        let byte = match self.text.get(at) {
            None => {
                return Err(PatternError::new(
                    offset,
                    "`[` is never closed",
                    r"add the `]`, or write `\[` for the character itself",
                ));
            }
            Some(b'\\') => {
                self.at += 1;
                self.escaped(at)?
            }
            Some(&byte) => {
                self.at += 1;
                literal(byte, at)?
            }
        };
        if byte == b'/' {
            return Err(PatternError::new(
                at,
                "`/` in `[ ]` can never match: a set stands for one character of a name",
                "take the `/` out, or use braces",
            ));
        }
        if !byte.is_ascii() {
            return Err(PatternError::new(
                at,
                "`[ ]` holds a character of several bytes",
                "list such characters in braces, as in `{é,è}`",
            ));
        }
        Ok(byte)
    }
}

fn literal(byte: u8, offset: usize) -> Result<u8, PatternError> {
    if byte == 0 {
        return Err(PatternError::new(
            offset,
            "pattern holds a zero byte",
            "no path can hold one: remove it",
        ));
    }
    Ok(byte)
}

fn expand(nodes: &[Node]) -> Result<Vec<Vec<Token>>, PatternError> {
    let mut sequences: Vec<Vec<Token>> = vec![Vec::new()];
    for node in nodes {
        match node {
            Node::Token(token) => sequences.iter_mut().for_each(|sequence| sequence.push(*token)),
            Node::Group(group, offset) => {
                let mut inner = Vec::new();
                for alternative in group {
                    inner.extend(expand(alternative)?);
                }
                let lengths = |list: &[Vec<Token>]| list.iter().map(Vec::len).sum::<usize>();
                let tokens = lengths(&sequences) * inner.len() + lengths(&inner) * sequences.len();
                if sequences.len() * inner.len() > MAX_ALTERNATIVES || tokens > MAX_TOKENS {
                    return Err(too_many(*offset));
                }
                sequences = sequences
                    .iter()
                    .flat_map(|head| inner.iter().map(|tail| [&head[..], tail].concat()))
                    .collect();
            }
        }
    }
    Ok(sequences)
}

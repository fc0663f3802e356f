//! Path patterns in `AppArmor`'s spelling.
//!
//! The two languages look alike and differ: `AppArmor` names a folder with a `/` at its end, its `/**/` needs at least
//! one name, its `**` after a brace may be empty, a `[^a]` matches `/`, and `@{` begins a variable. So a pattern is
//! written from its components, not from its text.

use crate::matcher::glob::{ByteSet, Glob, Item};
use crate::matcher::{Component, Pattern};

/// The pattern as quoted texts, one of which a matching path matches.
pub(crate) fn paths(pattern: &Pattern) -> Vec<String> {
    pattern
        .alternatives()
        .iter()
        .map(|components| format!("\"{}\"", path(components)))
        .collect()
}

/// The folders that lead to everything the pattern matches, but not the root: who may rename one of them reaches
/// what is below under another name.
pub(super) fn ancestors(pattern: &Pattern) -> Vec<String> {
    let mut found = Vec::new();
    for components in pattern.alternatives() {
        let leaf = components.len().saturating_sub(1);
        let mut text = String::from("/");
        for component in &components[..leaf] {
            let Component::Literal(name) = component else {
                break;
            };
            literal(name, &mut text);
            text.push('/');
            found.push(format!("\"{text}\""));
        }
    }
    found
}

/// The path itself, if the components leave no choice.
pub(super) fn exact(components: &[Component]) -> Option<String> {
    let mut text = String::new();
    for component in components {
        let Component::Literal(name) = component else {
            return None;
        };
        text.push('/');
        literal(name, &mut text);
    }
    (!text.is_empty()).then_some(text)
}

fn path(components: &[Component]) -> String {
    let mut text = String::from("/");
    let mut rest = components;
    // Whether the text ends where a name must begin.
    let mut is_open = true;
    while let Some((first, behind)) = rest.split_first() {
        if !is_open {
            text.push('/');
        }
        is_open = false;
        rest = behind;
        match first {
            // Behind a `/` and at the end, `**` is everything below, whatever it ends in.
            Component::Deep if matches!(behind, [Component::Any]) && text.ends_with('/') => {
                text.push_str("**");
                return text;
            }
            Component::Deep => {
                text.push_str("{**/,}");
                is_open = true;
            }
            Component::Any => text.push_str("?*"),
            Component::Literal(name) => literal(name, &mut text),
            Component::Glob(glob) => name_glob(glob, &mut text),
        }
    }
    if !components.is_empty() && !is_open {
        // The name may be that of a folder.
        text.push_str("{,/}");
    }
    text
}

fn literal(name: &[u8], text: &mut String) {
    for &byte in name {
        literal_byte(byte, text);
    }
}

fn literal_byte(byte: u8, text: &mut String) {
    match byte {
        b'*' | b'?' | b'[' | b']' | b'{' | b'}' | b'^' | b',' | b'\\' => {
            text.push('\\');
            text.push(char::from(byte));
        }
        // `@{` and `${` begin variables.
        b'@' | b'$' => text.push_str(if byte == b'@' { "[@]" } else { "[$]" }),
        b'"' => text.push_str("\\042"),
        b' '..=b'~' => text.push(char::from(byte)),
        _ => octal(byte, text),
    }
}

fn octal(byte: u8, text: &mut String) {
    for shift in [6, 3, 0] {
        text.push(char::from(b'0' + ((byte >> shift) & 7)));
        if shift == 6 {
            text.insert(text.len() - 1, '\\');
        }
    }
}

fn name_glob(glob: &Glob, text: &mut String) {
    for item in &glob.0 {
        match item {
            Item::Byte(byte) => literal_byte(*byte, text),
            Item::Star => text.push('*'),
            Item::Set(set) if *set == ByteSet::NAME => text.push('?'),
            Item::Set(set) => byte_set(set, text),
        }
    }
}

/// A set as its members: a negated one would match what is in no name. The parser takes the escape from `\\-` and `\\^`
/// and leaves `*` and `?` their meaning, so these have places where they mean themselves.
fn byte_set(set: &ByteSet, text: &mut String) {
    text.push('[');
    if set.contains(b'-') {
        text.push('-');
    }
    let mut members = set.iter().filter(|byte| !matches!(byte, b'-' | b'^')).peekable();
    while let Some(first) = members.next() {
        if !is_plain(first) {
            match first {
                b'\\' | b']' | b'[' | b'*' | b'?' | b'{' | b'}' | b',' => {
                    text.push('\\');
                    text.push(char::from(first));
                }
                b'"' => text.push_str("\\042"),
                b' '..=b'~' => text.push(char::from(first)),
                _ => octal(first, text),
            }
            continue;
        }
        let mut last = first;
        while let Some(&next) = members
            .peek()
            .filter(|next| is_plain(**next) && **next == last + 1)
        {
            last = next;
            members.next();
        }
        text.push(char::from(first));
        if last > first {
            if last > first + 1 {
                text.push('-');
            }
            text.push(char::from(last));
        }
    }
    if set.contains(b'^') {
        text.push('^');
    }
    text.push(']');
}

/// Letters and digits make ranges.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

//! Strings from containers, images and pods are hostile: this makes them fit for logs and terminals.

/// Longest name or label that is kept; the limits of Kubernetes (253 + 1 + 63) and containerd (4096) fit.
pub const MAX_NAME: usize = 320;
/// Longest value that is kept.
pub const MAX_VALUE: usize = 4096;

/// The text without control characters (they become `\u{..}` escapes) and at most `limit` bytes long. Text
/// direction and line separators count as control characters: they can make a log line lie.
#[must_use]
pub fn clean(text: &str, limit: usize) -> String {
    let mut cleaned = String::with_capacity(text.len().min(limit));
    for character in text.chars() {
        let length = if is_deceptive(character) {
            character.escape_unicode().count()
        } else {
            character.len_utf8()
        };
        if cleaned.len() + length > limit {
            break;
        }
        if is_deceptive(character) {
            cleaned.extend(character.escape_unicode());
        } else {
            cleaned.push(character);
        }
    }
    cleaned
}

/// Bytes of the kernel (paths, command names) as text: invalid UTF-8 becomes `\xNN`.
#[must_use]
pub fn from_kernel(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(&clean(chunk.valid(), usize::MAX));
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("writing to a String cannot fail");
        }
    }
    text
}

/// A command name: the bytes before the first zero.
#[must_use]
pub fn comm(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    from_kernel(&bytes[..end])
}

fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(clean("a\nb\u{1b}[2J", 100), "a\\u{a}b\\u{1b}[2J");
        assert_eq!(clean("abc\u{202e}fdp", 100), "abc\\u{202e}fdp");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(clean("äää", 5), "ää");
        assert_eq!(clean("ab\n", 3), "ab", "an escape is not cut in the middle");
    }

    #[test]
    fn bytes_that_are_not_utf8_stay_readable() {
        assert_eq!(from_kernel(b"/tmp/\xff\xfex"), "/tmp/\\xff\\xfex");
        assert_eq!(comm(b"sh\0garbage"), "sh");
    }
}

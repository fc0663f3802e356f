//! Colours, on terminals only.

use std::io::{IsTerminal as _, stdout};

/// What a word tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    Quiet,
}

/// The text in a colour, if a person is reading.
pub(super) fn paint(text: &str, tone: Tone) -> String {
    let wanted = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    painted(text, tone, wanted)
}

fn painted(text: &str, tone: Tone, wanted: bool) -> String {
    let code = match tone {
        Tone::Good => 32,
        Tone::Bad => 31,
        Tone::Quiet => 2,
    };
    if wanted {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_get_plain_text() {
        assert_eq!(painted("x", Tone::Bad, false), "x");
        assert_eq!(painted("x", Tone::Bad, true), "\u{1b}[31mx\u{1b}[0m");
    }
}

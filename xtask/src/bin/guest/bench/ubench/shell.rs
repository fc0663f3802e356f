//! Shell scripts that sort, dump, search and count a text. The shell and its tools are the guest's busybox.

use std::{
    fmt::Write,
    fs, io,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use super::FOLDER;
use crate::bench::operations::Operation;

const LINES: usize = 362;
/// Words of the text; every third line or so has the one that is searched for.
const WORDS: [&str; 24] = [
    "river", "stone", "the", "lantern", "walks", "over", "seven", "green", "hills", "and", "counts", "birds",
    "while", "rain", "falls", "on", "tin", "roofs", "of", "quiet", "towns", "by", "northern", "water",
];

/// Starts so many copies of the inner script and waits for them.
const OUTER: &str = "n=$1\nwhile [ $n -gt 0 ]; do\n  /bin/sh inner.sh $n &\n  n=$((n - 1))\ndone\nwait\n";
/// Sorted text; its octal dump, sorted by number; its lines with a word, kept and counted.
const INNER: &str = "sort text >sort.$1\nod sort.$1 | sort -n >dump.$1\ngrep the sort.$1 | tee grep.$1 | wc >count.$1\n\
                     rm sort.$1 dump.$1 grep.$1 count.$1\n";

/// One repetition runs the outer script once.
pub(super) fn scripts(copies: u32) -> Result<Operation> {
    for (name, content) in [
        ("outer.sh", OUTER.to_owned()),
        ("inner.sh", INNER.to_owned()),
        ("text", text()),
    ] {
        fs::write(format!("{FOLDER}/{name}"), content).with_context(|| format!("write {name}"))?;
    }
    let copies = copies.to_string();
    Ok(Box::new(move || {
        let status = Command::new("/bin/sh")
            .args(["outer.sh", &copies])
            .current_dir(FOLDER)
            .stdin(Stdio::null())
            .status()?;
        if status.success() && !fs::exists(format!("{FOLDER}/count.1"))? {
            Ok(())
        } else {
            Err(io::Error::other(format!("the script ended with {status}")))
        }
    }))
}

/// About 8.5 KB in a fixed disorder.
fn text() -> String {
    let mut text = String::new();
    let mut place = 7_usize;
    for line in 0..LINES {
        for _ in 0..4 {
            place = (place * 29 + 11) % 4096;
            text.extend([WORDS[place / 7 % WORDS.len()], " "]);
        }
        let _ = writeln!(text, "{}", (line * 131) % 997);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{LINES, text};

    #[test]
    fn text_is_as_long_as_the_one_of_the_original() {
        let text = text();
        assert_eq!(text.lines().count(), LINES);
        assert!((7500..9500).contains(&text.len()), "{}", text.len());
        let found = text.lines().filter(|line| line.contains("the")).count();
        assert!((LINES / 10..LINES / 2).contains(&found), "{found}");
    }
}

//! A path as names, some of which have become patterns.

use std::fmt;

/// One name of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Name {
    /// As it was seen.
    Exact(String),
    /// In the language of `matcher::pattern`.
    Pattern(String),
}

/// The names from the root to the leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Names(pub(super) Vec<Name>);

const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

impl Name {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Exact(name) => escaped(name),
            Self::Pattern(pattern) => pattern.clone(),
        }
    }

    pub(super) fn exact(&self) -> Option<&str> {
        match self {
            Self::Exact(name) => Some(name),
            Self::Pattern(_) => None,
        }
    }
}

impl Names {
    /// The names of a path that was seen.
    pub(super) fn of_path(path: &str) -> Self {
        let names = path.split('/').filter(|name| !name.is_empty());
        Self(names.map(|name| Name::Exact(name.to_owned())).collect())
    }

    /// The names of a pattern that [`Names`] wrote.
    pub(super) fn of_pattern(pattern: &str) -> Self {
        Self(
            split(pattern)
                .filter(|name| !name.is_empty())
                .map(of_text)
                .collect(),
        )
    }

    pub(super) fn is_exact(&self) -> bool {
        self.0.iter().all(|name| name.exact().is_some())
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        for name in &self.0 {
            write!(f, "/{}", name.text())?;
        }
        Ok(())
    }
}

/// The name, so that a pattern means it and nothing else.
pub(super) fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        if SPECIAL.contains(&letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// Splits at each `/` that is in no brace: `/a/b{,/**}` has two names.
fn split(pattern: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let mut escaped = false;
    pattern.split(move |letter| {
        if escaped {
            escaped = false;
            return false;
        }
        match letter {
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == '/' && depth == 0
    })
}

fn of_text(text: &str) -> Name {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => plain.extend(letters.next()),
            special if SPECIAL.contains(&special) => return Name::Pattern(text.to_owned()),
            letter => plain.push(letter),
        }
    }
    Name::Exact(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_their_text() {
        for path in ["/", "/etc/nginx", "/a[1]/b*c/{d}", "/x/y\\z?"] {
            let names = Names::of_path(path);
            assert_eq!(Names::of_pattern(&names.to_string()), names, "{path}");
        }
        let names = Names::of_pattern("/proc/[0-9]*/stat");
        assert_eq!(names.0[1], Name::Pattern("[0-9]*".to_owned()));
        assert!(!names.is_exact());
    }
}

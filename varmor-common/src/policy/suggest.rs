//! "Did you mean": the nearest known word.

/// The word of `known` that `word` was most likely meant to be; none if nothing is near.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Hostile input may hold a megabyte here; nothing that long is a misspelt word.
    if word.len() > 128 {
        return None;
    }
    let lower = word.to_lowercase();
    let limit = (lower.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|one| (distance(&lower, &one.to_lowercase()), one))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, one)| one)
}

/// Swapping two words of an id (`disable-etc-write`) counts as one mistake.
fn distance(word: &str, known: &str) -> usize {
    let plain = strsim::damerau_levenshtein(word, known);
    let sorted = |text: &str| {
        let mut parts: Vec<&str> = text.split('-').collect();
        parts.sort_unstable();
        parts.join("-")
    };
    plain.min(1 + strsim::damerau_levenshtein(&sorted(word), &sorted(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_nonsense_is_not() {
        let known = ["disable-write-etc", "disable-wget", "disable-curl"];
        for (word, expected) in [
            ("disable-write-ect", Some("disable-write-etc")),
            ("disable-etc-write", Some("disable-write-etc")),
            ("Disable-Wgett", Some("disable-wget")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(1 << 20), known), None);
    }
}

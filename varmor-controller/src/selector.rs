//! Label selectors, as Kubernetes reads them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use varmor_common::policy::{Target, TargetKind};

/// Whether the selector holds for these labels. An empty selector holds for everything, an unknown operator for nothing.
#[must_use]
pub fn holds(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    // The selector of a target is the same language.
    let target = Target {
        kind: TargetKind::Pod,
        name: None,
        selector: Some(selector.clone()),
        containers: Vec::new(),
    };
    target.selector_matches(labels)
}

/// Whether labels have this `key=value`; an empty text asks for nothing.
#[must_use]
pub fn has_label(labels: &BTreeMap<String, String>, text: &str) -> bool {
    match text.split_once('=') {
        Some((key, value)) => labels.get(key).is_some_and(|one| one == value),
        None => text.is_empty() || labels.contains_key(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_label_is_a_pair_or_a_key_or_nothing() {
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        for (text, expected) in [
            ("", true),
            ("a=b", true),
            ("a", true),
            ("a=c", false),
            ("x", false),
        ] {
            assert_eq!(has_label(&labels, text), expected, "{text}");
        }
    }
}

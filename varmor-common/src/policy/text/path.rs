//! Field paths: `spec.policy.bpfRawRules.files[3].pattern`.

/// The path of a field of `parent`.
pub(crate) fn field(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

/// The path of an item of the list `parent`.
pub(crate) fn item(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

/// The path of what holds `path`; none for the document itself.
pub(super) fn parent(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    Some(path.rfind(['.', '[']).map_or("", |end| &path[..end]))
}

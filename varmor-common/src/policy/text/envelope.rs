//! What every object has: apiVersion, kind, name and namespace.

use super::cursor::Cursor;
use super::report::Report;
use super::schema::KINDS;
use crate::policy::diagnostic::quoted;
use crate::policy::suggest::nearest;

const GROUP: &str = "crd.varmor.org";
pub(super) const API_VERSION: &str = "crd.varmor.org/v1beta1";

/// The kind of a document, if it is one of ours. Objects of other groups are skipped with a warning, everything
/// that was meant to be one of ours and is not is an error.
pub(super) fn kind(document: &Cursor<'_>, report: &mut Report<'_>) -> Option<&'static str> {
    let written = document.text_of("kind");
    let version = document.text_of("apiVersion");
    let known = KINDS.into_iter().find(|kind| Some(*kind) == written);
    match (known, version) {
        (Some(kind), Some(API_VERSION)) => return Some(kind),
        (Some(kind), Some(_)) => {
            wrong_version(document, report);
            return Some(kind);
        }
        (Some(kind), None) => {
            report.error(
                document.at(),
                "apiVersion",
                "the document has no `apiVersion`",
                format!("add `apiVersion: {API_VERSION}`"),
            );
            return Some(kind);
        }
        (None, _) => {}
    }
    let Some(written) = written else {
        let help = format!(
            "add `apiVersion: {API_VERSION}` and `kind:` with one of {}",
            KINDS.join(", ")
        );
        report.error(document.at(), "kind", "the document has no `kind`", help);
        return None;
    };
    let near = nearest(written, KINDS);
    if near.is_some() || version.is_none_or(|version| version.starts_with(GROUP)) {
        let help = near.map_or_else(
            || format!("use one of {}", KINDS.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        report.error(
            position_of(document, "kind"),
            "kind",
            format!("{} is not a kind of varmor", quoted(written)),
            help,
        );
    } else {
        let message = format!(
            "the object of kind {} is skipped: it is not varmor's",
            quoted(written)
        );
        report.warning(
            position_of(document, "kind"),
            "kind",
            message,
            "keep policies in files of their own",
        );
    }
    None
}

/// Checks the name and the namespace.
pub(super) fn metadata(kind: &str, document: &Cursor<'_>, report: &mut Report<'_>) {
    let Some(metadata) = document.get("metadata") else {
        report.error(
            document.at(),
            "metadata",
            "the document has no field `metadata`",
            "add `metadata:` with a `name:` below it",
        );
        return;
    };
    match metadata.get("name") {
        None => report.error(
            metadata.at(),
            "metadata.name",
            "`metadata` has no field `name`",
            "add `name:`",
        ),
        Some(name) => check_name(&name, 253, true, report),
    }
    if let Some(namespace) = metadata.get("namespace") {
        if kind == "VarmorClusterPolicy" {
            let help = "remove the namespace, or make it a VarmorPolicy";
            let at = metadata.key_position("namespace");
            report.error(
                at,
                &namespace.path,
                "a VarmorClusterPolicy belongs to no namespace",
                help,
            );
        } else {
            check_name(&namespace, 63, false, report);
        }
    }
}

fn check_name(name: &Cursor<'_>, longest: usize, dots: bool, report: &mut Report<'_>) {
    let Some(text) = name.text() else { return };
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let inner = |c: char| alphanumeric(c) || c == '-' || (dots && c == '.');
    let valid = text.len() <= longest
        && text.starts_with(alphanumeric)
        && text.ends_with(alphanumeric)
        && text.chars().all(inner);
    if !valid {
        let message = format!(
            "{} cannot be the {} of an object",
            quoted(text),
            name.path.trim_start_matches("metadata.")
        );
        let help = format!(
            "use up to {longest} lower-case letters, digits and `-`, with a letter or digit at both ends"
        );
        report.error(name.at(), &name.path, message, help);
    }
}

fn wrong_version(document: &Cursor<'_>, report: &mut Report<'_>) {
    let written = document.text_of("apiVersion").unwrap_or_default();
    let message = format!("{} is not an API version of this kind", quoted(written));
    report.error(
        position_of(document, "apiVersion"),
        "apiVersion",
        message,
        format!("write `{API_VERSION}`"),
    );
}

fn position_of(document: &Cursor<'_>, field: &str) -> super::node::Position {
    document.get(field).map_or(document.at(), |field| field.at())
}

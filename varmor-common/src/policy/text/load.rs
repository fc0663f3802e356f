//! Bytes -> checked documents.

use serde::de::DeserializeOwned;

use super::cursor::Cursor;
use super::document::{Document, Object};
use super::node::{Node, Position, Value};
use super::report::Report;
use super::{check, envelope, schema, yaml};
use crate::policy::diagnostic::Diagnostic;

/// Largest file that is read: far beyond any policy, small enough that hostile ones cost little.
const LARGEST: usize = 4 << 20;

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The valid objects, in the order of the text.
    pub documents: Vec<Document>,
    /// Everything that is wrong, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Reads a policy file. `file` is only the name under which problems are reported.
///
/// Whatever the bytes are, this returns: bad input is data here, not a crash.
#[must_use]
pub fn load(file: &str, bytes: &[u8]) -> Loaded {
    let mut report = Report::new(file);
    let mut documents = Vec::new();
    if let Some(text) = decode(bytes, &mut report) {
        let nodes = yaml::parse(text, &mut report);
        for node in nodes.iter().filter(|node| !matches!(node.value, Value::Null)) {
            documents.extend(document(node, &mut report));
        }
        if nodes.iter().all(|node| matches!(node.value, Value::Null)) && report.errors() == 0 {
            report.warning(
                START,
                "",
                "the file holds no policy",
                "add a document with `kind: VarmorPolicy`",
            );
        }
    }
    Loaded {
        documents,
        diagnostics: report.finish(),
    }
}

/// The first document of a YAML file that is no object of ours, without its places.
pub fn load_yaml(file: &str, bytes: &[u8]) -> Result<serde_json::Value, Vec<Diagnostic>> {
    let mut report = Report::new(file);
    let nodes = decode(bytes, &mut report).map(|text| yaml::parse(text, &mut report));
    if report.errors() > 0 {
        return Err(report.finish());
    }
    let first = nodes.into_iter().flatten().next();
    Ok(first.map_or(serde_json::Value::Null, |node| node.to_json()))
}

const START: Position = Position { line: 1, column: 1 };

fn decode<'b>(bytes: &'b [u8], report: &mut Report<'_>) -> Option<&'b str> {
    if bytes.len() > LARGEST {
        let message = format!("the file has {} bytes; the limit is {LARGEST}", bytes.len());
        report.error(START, "", message, "split it into several files");
        return None;
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let (good, bad) = bytes.split_at(error.valid_up_to());
            let message = format!(
                "byte 0x{:02x} is not UTF-8",
                bad.first().copied().unwrap_or_default()
            );
            report.error(end_of(good), "", message, "save the file as UTF-8");
            None
        }
    }
}

/// The place behind a text.
fn end_of(text: &[u8]) -> Position {
    let text = String::from_utf8_lossy(text);
    let last = text.rsplit('\n').next().unwrap_or_default();
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Position {
        line: number(text.matches('\n').count()).saturating_add(1),
        column: number(last.chars().count()).saturating_add(1),
    }
}

fn document(node: &Node, report: &mut Report<'_>) -> Option<Document> {
    let before = report.errors();
    let cursor = Cursor::root(node);
    if !matches!(node.value, Value::Map(_)) {
        let message = format!("the document must be an object, not {}", node.kind());
        report.error(
            node.position,
            "",
            message,
            "start with `apiVersion: crd.varmor.org/v1beta1` and `kind: VarmorPolicy`",
        );
        return None;
    }
    let kind = envelope::kind(&cursor, report)?;
    envelope::metadata(kind, &cursor, report);
    schema::check(kind, node, report);
    check::check(kind, &cursor, report);
    if report.errors() > before {
        return None;
    }
    let object = match kind {
        "VarmorPolicy" => typed(node, report).map(Object::VarmorPolicy),
        "VarmorClusterPolicy" => typed(node, report).map(Object::VarmorClusterPolicy),
        "ArmorProfile" => typed(node, report).map(Object::ArmorProfile),
        _ => typed(node, report).map(Object::ArmorProfileModel),
    };
    object.map(|object| Document::new(report.file(), object, node))
}

/// The schema is made from the types, so this fails only where a type is stricter than its schema can say.
fn typed<T: DeserializeOwned>(node: &Node, report: &mut Report<'_>) -> Option<Box<T>> {
    match serde_json::from_value(node.to_json()) {
        Ok(object) => Some(Box::new(object)),
        Err(error) => {
            report.error(
                node.position,
                "",
                format!("the object cannot be read: {error}"),
                "correct the value that it names",
            );
            None
        }
    }
}

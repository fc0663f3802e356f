//! YAML text -> trees with places. Aliases are expanded under a budget, so that a few bytes cannot become gigabytes.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::node::{Entry, Node, Position, Value};
use super::report::Report;
use super::{path, scalar};
use crate::policy::diagnostic::quoted;

/// Most nodes of one file, aliases expanded.
const MOST_NODES: usize = 300_000;
/// Deepest nesting.
const DEEPEST: usize = 64;
const TOO_DEEP: &str = "the document is nested deeper than 64 levels";

/// The documents of the text up to the first place where it stops to be YAML; problems go to the report.
pub(super) fn parse(text: &str, report: &mut Report<'_>) -> Vec<Node> {
    let mut parser = Parser::new_from_str(text);
    let mut builder = Builder {
        report,
        stack: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        documents: Vec::new(),
    };
    while let Some(next) = parser.next_event() {
        let step = match next {
            Ok((event, span)) => builder.event(event, position(span.start)),
            Err(error) => {
                let at = position(*error.marker());
                builder.report.error(
                    at,
                    "",
                    format!("this is not YAML: {}", error.info()),
                    syntax_help(error.info(), text, at),
                );
                Err(Stop)
            }
        };
        if step.is_err() {
            break;
        }
    }
    builder.documents
}

/// Reading cannot go on.
struct Stop;

struct Builder<'r, 'f> {
    report: &'r mut Report<'f>,
    stack: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    documents: Vec<Node>,
}

/// A list or map whose end has not been read.
struct Open {
    anchor: usize,
    position: Position,
    path: String,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    entries: Vec<Entry>,
    /// The line of each key.
    lines: HashMap<String, u32>,
    /// The key whose value comes next.
    pending: Option<(String, Position)>,
}

impl Builder<'_, '_> {
    fn event(&mut self, event: Event<'_>, at: Position) -> Result<(), Stop> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = self.scalar(&text, style, tag.as_deref(), at);
                self.complete(Node { position: at, value }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(anchor, at, tag.as_deref(), Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.open(anchor, at, tag.as_deref(), Content::Map(OpenMap::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.stack.pop() else {
                    return Ok(());
                };
                let value = match open.content {
                    Content::List(items) => Value::List(items),
                    Content::Map(map) => Value::Map(map.entries),
                };
                self.complete(
                    Node {
                        position: open.position,
                        value,
                    },
                    open.anchor,
                )
            }
            Event::Alias(anchor) => self.alias(anchor, at),
            Event::DocumentEnd => {
                self.anchors.clear();
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => Ok(()),
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Position) -> Value {
        match tag {
            Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Value::String(text.to_owned()),
            // The non-specific tag `!` also means a string.
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => Value::String(text.to_owned()),
            Some(tag)
                if tag.is_yaml_core_schema()
                    && matches!(tag.suffix.as_str(), "int" | "float" | "bool" | "null") =>
            {
                scalar::plain(text)
            }
            Some(tag) => {
                self.unknown_tag(tag, at);
                Value::String(text.to_owned())
            }
            None if style == ScalarStyle::Plain => scalar::plain(text),
            None => Value::String(text.to_owned()),
        }
    }

    fn open(&mut self, anchor: usize, at: Position, tag: Option<&Tag>, content: Content) -> Result<(), Stop> {
        if let Some(tag) =
            tag.filter(|tag| !(tag.is_yaml_core_schema() && matches!(tag.suffix.as_str(), "map" | "seq")))
        {
            self.unknown_tag(tag, at);
        }
        let path = self.path_of_next();
        if self.stack.len() >= DEEPEST {
            self.report.error(
                at,
                "",
                TOO_DEEP,
                "no field of a policy is that deep; check the brackets and the indentation",
            );
            return Err(Stop);
        }
        self.stack.push(Open {
            anchor,
            position: at,
            path,
            content,
        });
        Ok(())
    }

    fn unknown_tag(&mut self, tag: &Tag, at: Position) {
        let field = self.path_of_next();
        let name = quoted(&format!("{}{}", tag.handle, tag.suffix));
        self.report.error(
            at,
            &field,
            format!("tag {name} has no meaning in a policy"),
            "remove the tag",
        );
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<(), Stop> {
        let field = self.path_of_next();
        let Some(node) = self.anchors.get(&anchor) else {
            self.report.error(
                at,
                &field,
                "the alias refers to the object that it stands in",
                "write the value out",
            );
            return Err(Stop);
        };
        let (size, depth) = measure(node);
        if self.stack.len() + depth > DEEPEST {
            self.report.error(
                at,
                &field,
                TOO_DEEP,
                "write the values out instead of nesting aliases",
            );
            return Err(Stop);
        }
        if self.nodes + size > MOST_NODES {
            self.report.error(
                at,
                &field,
                format!("the document grows beyond {MOST_NODES} values when its aliases are expanded"),
                "write the values out instead of nesting aliases",
            );
            return Err(Stop);
        }
        let copy = node.clone();
        // The copy counts as a whole; `complete` counts one more.
        self.nodes += size;
        self.complete(copy, 0)
    }

    /// Puts a finished node where it belongs.
    fn complete(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            let message = format!("the file holds more than {MOST_NODES} values");
            self.report
                .error(node.position, "", message, "split it into several files");
            return Err(Stop);
        }
        if anchor != 0 {
            // The copy kept for aliases takes memory like any other.
            self.nodes += measure(&node).0;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.stack.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map(map) => match map.pending.take() {
                Some((key, key_position)) => {
                    if let Some(line) = map.lines.insert(key.clone(), key_position.line) {
                        let message = format!(
                            "field {} is given twice; the other one is in line {line}",
                            quoted(&key)
                        );
                        let field = path::field(&open.path, &shorten(&key));
                        self.report
                            .error(key_position, &field, message, "remove one of them");
                    } else {
                        map.entries.push(Entry {
                            key,
                            key_position,
                            value: node,
                        });
                    }
                }
                None => map.pending = Some(key(&node, &open.path, self.report)),
            },
        }
        Ok(())
    }

    fn path_of_next(&self) -> String {
        let Some(open) = self.stack.last() else {
            return String::new();
        };
        match &open.content {
            Content::List(items) => path::item(&open.path, items.len()),
            Content::Map(OpenMap {
                pending: Some((key, _)),
                ..
            }) => path::field(&open.path, &shorten(key)),
            Content::Map(_) => open.path.clone(),
        }
    }
}

fn key(node: &Node, parent: &str, report: &mut Report<'_>) -> (String, Position) {
    let text = match &node.value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Null => "null".to_owned(),
        Value::List(_) | Value::Map(_) => {
            let message = format!("a field name must be a string, not {}", node.kind());
            report.error(
                node.position,
                parent,
                message,
                "check the brackets and the colons of this line",
            );
            String::new()
        }
    };
    if text == "<<" {
        report.error(
            node.position,
            parent,
            "merge keys (`<<`) are not supported",
            "write the fields out",
        );
    }
    (text, node.position)
}

/// Paths end up in diagnostics: one absurd field name must not make every path below it absurd.
fn shorten(name: &str) -> String {
    if name.chars().count() <= 64 {
        name.to_owned()
    } else {
        name.chars().take(64).chain("...".chars()).collect()
    }
}

/// Number of values in a node, and its depth.
fn measure(node: &Node) -> (usize, usize) {
    let children = match &node.value {
        Value::List(items) => items.iter().map(measure).fold((0, 0), deeper),
        Value::Map(entries) => entries
            .iter()
            .map(|entry| measure(&entry.value))
            .fold((entries.len(), 0), deeper),
        _ => (0, 0),
    };
    (children.0 + 1, children.1 + 1)
}

fn deeper(all: (usize, usize), one: (usize, usize)) -> (usize, usize) {
    (all.0 + one.0, all.1.max(one.1))
}

fn position(marker: Marker) -> Position {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Position {
        line: number(marker.line()),
        column: number(marker.col()).saturating_add(1),
    }
}

/// The mistakes that most syntax errors are made of.
fn syntax_help(problem: &str, text: &str, at: Position) -> &'static str {
    let line = text
        .lines()
        .nth(at.line.saturating_sub(1) as usize)
        .unwrap_or_default();
    if problem.contains(" tab") || line.trim_start_matches(' ').starts_with('\t') {
        "indent with spaces; YAML does not allow tabs there"
    } else if line.contains(": *") || line.contains("- *") {
        "put quotes around values that start with `*`, `&`, `[`, `{`, `!` or `%`"
    } else {
        "check the indentation, the quotes and the brackets of this line and the one above"
    }
}

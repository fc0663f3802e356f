//! A YAML document as a tree in which every node knows its place.

/// Line and column, both from 1, the column in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// One node of a document.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) position: Position,
    pub(super) value: Value,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// As it is written, and as JSON holds it.
    Number(serde_json::Number),
    String(String),
    List(Vec<Node>),
    /// In the order of the text; keys are unique.
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_position: Position,
    pub(super) value: Node,
}

impl Node {
    /// The entry of a map; `null` counts as absent, as it does for the API server.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries()
            .iter()
            .find(|entry| entry.key == key && !matches!(entry.value.value, Value::Null))
    }

    pub(super) fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value {
            entries
        } else {
            &[]
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = &self.value {
            Some(text)
        } else {
            None
        }
    }

    /// What the node is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "an object",
        }
    }

    /// The node without its places; entries without a value are left out.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(value) => value.clone().into(),
            Value::String(value) => value.clone().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => entries
                .iter()
                .filter(|entry| !matches!(entry.value.value, Value::Null))
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect(),
        }
    }
}

//! A place in a document: a node, and the path to it.

use super::node::{Node, Position, Value};
use super::path;

/// A node and its path. Moving to a child that is missing or of another type gives nothing: the schema check
/// reports such things.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'n> {
    pub(super) node: &'n Node,
    pub(super) path: String,
}

impl<'n> Cursor<'n> {
    pub(super) fn root(node: &'n Node) -> Self {
        Self {
            node,
            path: String::new(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<Self> {
        self.node.entry(name).map(|entry| Self {
            node: &entry.value,
            path: path::field(&self.path, name),
        })
    }

    /// The items of a list; nothing for everything else.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> + use<'n, '_> {
        let items: &'n [Node] = if let Value::List(items) = &self.node.value {
            items
        } else {
            &[]
        };
        items.iter().enumerate().map(|(index, node)| Self {
            node,
            path: path::item(&self.path, index),
        })
    }

    /// The items of the list `name`.
    pub(super) fn list(&self, name: &str) -> Vec<Self> {
        self.get(name)
            .map(|list| list.items().collect())
            .unwrap_or_default()
    }

    pub(super) fn text(&self) -> Option<&'n str> {
        self.node.as_str()
    }

    /// The text of the field `name`.
    pub(super) fn text_of(&self, name: &str) -> Option<&'n str> {
        self.node.entry(name).and_then(|entry| entry.value.as_str())
    }

    pub(super) fn at(&self) -> Position {
        self.node.position
    }

    /// Where the field's name stands.
    pub(super) fn key_position(&self, name: &str) -> Position {
        self.node
            .entry(name)
            .map_or(self.node.position, |entry| entry.key_position)
    }
}

//! What makes one JSON value of another, as a JSON Patch of `add` and `remove`.
//!
//! `add` replaces a member that exists and creates one that does not, so a patch holds even when the API server filled in
//! or dropped an empty object meanwhile; `replace` would be refused.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation};
use serde_json::Value;

/// The operations that lead from `old` to `new`.
pub(super) fn difference(old: &Value, new: &Value) -> Patch {
    let mut patch = Patch::default();
    compare(old, new, &mut PointerBuf::root(), &mut patch.0);
    patch
}

fn compare(old: &Value, new: &Value, path: &mut PointerBuf, operations: &mut Vec<PatchOperation>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                path.push_back(key);
                match new.get(key) {
                    Some(new) => compare(value, new, path, operations),
                    None => operations.push(PatchOperation::Remove(RemoveOperation { path: path.clone() })),
                }
                path.pop_back();
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                path.push_back(key);
                operations.push(add(path, value));
                path.pop_back();
            }
        }
        (Value::Array(old), Value::Array(new)) if item_by_item(old, new) => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                path.push_back(index);
                compare(old, new, path, operations);
                path.pop_back();
            }
        }
        _ if old == new => {}
        _ => operations.push(add(path, new)),
    }
}

/// Whether only objects within the items differ: `add` would insert an item, not replace it.
fn item_by_item(old: &[Value], new: &[Value]) -> bool {
    let mut pairs = old.iter().zip(new);
    old.len() == new.len() && pairs.all(|(old, new)| old == new || (old.is_object() && new.is_object()))
}

fn add(path: &PointerBuf, value: &Value) -> PatchOperation {
    PatchOperation::Add(AddOperation {
        path: path.clone(),
        value: value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_leads_from_one_value_to_the_other_with_add_and_remove_only() {
        for (old, new) in [
            (json!({}), json!({"a": {"b/c~d": 1}})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"c": 3}})),
            (
                json!({"list": [{"name": "x"}, {"name": "y", "z": 1}]}),
                json!({"list": [{"name": "x", "s": {}}, {"name": "y"}]}),
            ),
            (json!({"list": [1, 2]}), json!({"list": [1, 3]})),
            (json!({"list": [1]}), json!({"list": [1, 2]})),
            (json!({"a": null}), json!({"a": {}})),
        ] {
            let patch = difference(&old, &new);
            let mut patched = old.clone();
            json_patch::patch(&mut patched, &patch).expect("the patch fits");
            assert_eq!(patched, new, "{patch}");
            assert!(!patch.to_string().contains("\"replace\""), "{patch}");
        }
        assert!(difference(&json!({"a": [1]}), &json!({"a": [1]})).0.is_empty());
    }
}

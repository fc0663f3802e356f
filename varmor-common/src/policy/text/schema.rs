//! Checks a tree against the schema of its kind. The schema is the one of the generated CRD, so this check and the
//! API server's cannot differ.

use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResourceExt;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value as Json, json};

use super::node::{Node, Value};
use super::path;
use super::report::Report;
use crate::policy::diagnostic::quoted;
use crate::policy::suggest::nearest;
use crate::policy::{ArmorProfile, ArmorProfileModel, VarmorClusterPolicy, VarmorPolicy};

/// The four kinds, in the order in which messages name them.
pub(super) const KINDS: [&str; 4] = [
    "VarmorPolicy",
    "VarmorClusterPolicy",
    "ArmorProfile",
    "ArmorProfileModel",
];

/// `PATH_MAX`: what is limited to less is the name of an object.
const LONGEST_PATH: u64 = 4096;

/// Each is made when the first object of its kind is met: making one costs as much as checking ten policies.
static SCHEMAS: [LazyLock<Json>; 4] = [
    LazyLock::new(|| document_schema(&VarmorPolicy::crd())),
    LazyLock::new(|| document_schema(&VarmorClusterPolicy::crd())),
    LazyLock::new(|| document_schema(&ArmorProfile::crd())),
    LazyLock::new(|| document_schema(&ArmorProfileModel::crd())),
];

/// Reports everything in `document` that the schema of `kind` does not allow.
pub(super) fn check(kind: &str, document: &Node, report: &mut Report<'_>) {
    let schema = KINDS.iter().zip(&SCHEMAS).find(|(name, _)| **name == kind);
    if let Some((_, schema)) = schema {
        check_node(schema, document, "", report);
    }
}

/// The schema of the CRD, which knows nothing of the fields that every object has.
fn document_schema(crd: &impl serde::Serialize) -> Json {
    let crd = serde_json::to_value(crd).unwrap_or_default();
    let mut schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let mut generator = SchemaSettings::openapi3()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    schema["properties"]["metadata"] = ObjectMeta::json_schema(&mut generator).to_value();
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema
}

fn check_node(schema: &Json, node: &Node, field: &str, report: &mut Report<'_>) {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        if !matches!(node.value, Value::String(_) | Value::Number(_)) {
            wrong_type("a string or a number", node, field, report);
        }
        return;
    }
    match (schema["type"].as_str(), &node.value) {
        (Some("object"), Value::Map(_)) => check_object(schema, node, field, report),
        (Some("array"), Value::List(items)) => check_array(schema, items, node, field, report),
        (Some("string"), Value::String(text)) => check_string(schema, text, node, field, report),
        (Some("integer"), Value::Number(number)) => check_integer(schema, number, node, field, report),
        (Some("boolean"), Value::Bool(_)) | (Some("number"), Value::Number(_)) | (None, _) => {}
        (Some(expected), _) => wrong_type(article(expected), node, field, report),
    }
}

fn check_object(schema: &Json, node: &Node, field: &str, report: &mut Report<'_>) {
    let properties = schema["properties"].as_object();
    let open = schema["x-kubernetes-preserve-unknown-fields"] == json!(true);
    for entry in node
        .entries()
        .iter()
        .filter(|entry| !entry.key.is_empty() && entry.key != "<<")
    {
        let path = path::field(field, &entry.key);
        let null = matches!(entry.value.value, Value::Null);
        if let Some(property) = properties.and_then(|properties| properties.get(&entry.key)) {
            if !null {
                check_node(property, &entry.value, &path, report);
            }
        } else if schema["additionalProperties"].is_object() {
            check_node(&schema["additionalProperties"], &entry.value, &path, report);
        } else if !open {
            let known = properties.into_iter().flatten().map(|(name, _)| name.as_str());
            report.error(
                entry.key_position,
                &path,
                format!("unknown field {}", quoted(&entry.key)),
                unknown_help(&entry.key, known),
            );
        }
    }
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
    {
        if node.entry(name).is_none() {
            let place = if field.is_empty() {
                "the document".to_owned()
            } else {
                format!("`{field}`")
            };
            let help = properties.and_then(|all| description(&all.get(name)?["description"]));
            let help = format!(
                "add `{name}:`{}",
                help.map(|text| format!(" ({text})")).unwrap_or_default()
            );
            report.error(
                node.position,
                &path::field(field, name),
                format!("{place} has no field `{name}`"),
                help,
            );
        }
    }
}

fn check_array(schema: &Json, items: &[Node], node: &Node, field: &str, report: &mut Report<'_>) {
    if schema["minItems"]
        .as_u64()
        .is_some_and(|least| (items.len() as u64) < least)
    {
        report.error(
            node.position,
            field,
            format!("`{field}` is empty"),
            "list at least one item",
        );
    }
    if let Some(most) = schema["maxItems"]
        .as_u64()
        .filter(|most| items.len() as u64 > *most)
    {
        report.error(
            node.position,
            field,
            format!("`{field}` has {} items; the limit is {most}", items.len()),
            "write fewer, more general items, or several policies",
        );
    }
    for (index, item) in items.iter().enumerate() {
        check_node(&schema["items"], item, &path::item(field, index), report);
    }
}

fn check_string(schema: &Json, text: &str, node: &Node, field: &str, report: &mut Report<'_>) {
    if let Some(values) = schema["enum"].as_array() {
        let known: Vec<&str> = values.iter().filter_map(Json::as_str).collect();
        if !known.contains(&text) {
            let help = match nearest(text, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`? Known are {}", known.join(", ")),
                None => format!("use one of {}", known.join(", ")),
            };
            report.error(
                node.position,
                field,
                format!("{} is not a value of `{field}`", quoted(text)),
                help,
            );
        }
    }
    if schema["minLength"]
        .as_u64()
        .is_some_and(|least| (text.len() as u64) < least)
    {
        report.error(
            node.position,
            field,
            format!("`{field}` is empty"),
            "give it a value",
        );
    }
    if let Some(most) = schema["maxLength"]
        .as_u64()
        .filter(|most| text.len() as u64 > *most)
    {
        let message = format!("`{field}` has {} bytes; the limit is {most}", text.len());
        let help = if most < LONGEST_PATH {
            "shorten it; Kubernetes knows no longer names"
        } else {
            "shorten it; the kernel knows no longer paths"
        };
        report.error(node.position, field, message, help);
    }
}

fn check_integer(
    schema: &Json,
    number: &serde_json::Number,
    node: &Node,
    field: &str,
    report: &mut Report<'_>,
) {
    if !number.is_i64() && !number.is_u64() {
        report.error(
            node.position,
            field,
            format!("`{field}` must be a whole number, not {number}"),
            "write it without a fraction and within 64 bits",
        );
        return;
    }
    // 64-bit integers are exact here: i128 holds every i64 and u64.
    let value = number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
        .unwrap_or_default();
    let (least, most) = bounds(schema);
    if value < least || value > most {
        let message = format!("`{field}` is {number}; it must be between {least} and {most}");
        report.error(
            node.position,
            field,
            message,
            format!("use a value from {least} to {most}"),
        );
    }
}

fn bounds(schema: &Json) -> (i128, i128) {
    let (least, most) = match schema["format"].as_str() {
        Some("uint16") => (0, i128::from(u16::MAX)),
        Some("uint32") => (0, i128::from(u32::MAX)),
        Some("int32") => (i128::from(i32::MIN), i128::from(i32::MAX)),
        Some("uint64") => (0, i128::from(u64::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "bounds in the schema are whole numbers far below 2^53"
    )]
    let bound = |key: &str| schema[key].as_f64().map(|bound| bound as i128);
    (
        bound("minimum").map_or(least, |bound| bound.max(least)),
        bound("maximum").map_or(most, |bound| bound.min(most)),
    )
}

fn wrong_type(expected: &str, node: &Node, field: &str, report: &mut Report<'_>) {
    let subject = if field.is_empty() {
        "the document".to_owned()
    } else {
        format!("`{field}`")
    };
    let help = match (expected, &node.value) {
        ("a string", Value::Number(_) | Value::Bool(_)) => "put quotes around the value",
        ("a boolean", Value::String(_)) => "write true or false, without quotes",
        ("a number", Value::String(text)) if text.parse::<i64>().is_ok() => "remove the quotes",
        ("a list", _) => "write it as a list: one `- item` per line",
        ("an object", _) => "write it as `field: value` lines, indented below this field",
        _ => "",
    };
    let help = if help.is_empty() {
        format!("write {expected} here")
    } else {
        help.to_owned()
    };
    report.error(
        node.position,
        field,
        format!("{subject} must be {expected}, not {}", node.kind()),
        help,
    );
}

fn article(expected: &str) -> &'static str {
    match expected {
        "object" => "an object",
        "array" => "a list",
        "string" => "a string",
        "boolean" => "a boolean",
        _ => "a number",
    }
}

fn unknown_help<'k>(key: &str, known: impl Iterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.collect();
    match nearest(key, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "remove it".to_owned(),
        // The metadata of an object has a dozen fields that nobody writes by hand.
        None if known.len() > 12 => "remove it, or check the indentation".to_owned(),
        None => format!("remove it, or use one of {}", known.join(", ")),
    }
}

/// The first sentence of a field's description.
fn description(text: &Json) -> Option<&str> {
    let text = text.as_str()?;
    Some(text.split("\n\n").next().unwrap_or(text).trim_end_matches('.'))
}

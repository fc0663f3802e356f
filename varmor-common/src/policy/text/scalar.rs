//! Plain scalars: which of them are numbers, booleans and null (YAML 1.2 core schema).

use super::node::Value;

/// The value of a scalar without quotes.
pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<serde_json::Number> {
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).ok().map(Into::into);
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned.is_empty() || !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        let whole = text.strip_prefix('+').unwrap_or(text);
        return whole
            .parse::<i64>()
            .map(Into::into)
            .or_else(|_| whole.parse::<u64>().map(Into::into))
            .ok()
            .or_else(|| float(text));
    }
    if unsigned
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+'))
    {
        return float(text);
    }
    None
}

fn float(text: &str) -> Option<serde_json::Number> {
    text.parse().ok().and_then(serde_json::Number::from_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::node::{Node, Position};
    use super::*;

    #[test]
    fn scalars_follow_the_core_schema() {
        for (text, expected) in [
            ("80", json!(80)),
            ("-1", json!(-1)),
            ("0x1F", json!(31)),
            ("0o17", json!(15)),
            ("18446744073709551615", json!(u64::MAX)),
            ("1.5", json!(1.5)),
            ("1e3", json!(1000.0)),
            ("true", json!(true)),
            ("yes", json!("yes")),
            ("~", json!(null)),
            ("1.2.3.4", json!("1.2.3.4")),
            ("-", json!("-")),
            (".", json!(".")),
            ("1-2", json!("1-2")),
        ] {
            let node = Node {
                position: Position::default(),
                value: plain(text),
            };
            assert_eq!(node.to_json(), expected, "{text}");
        }
    }
}

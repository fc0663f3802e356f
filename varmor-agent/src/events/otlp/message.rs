//! The messages of OTLP for logs, as far as violations need them: field numbers of opentelemetry-proto 1.

use prost::{Message, Oneof};
use serde_json::Value;

/// `SEVERITY_NUMBER_WARN`.
const WARN: i32 = 13;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportLogs {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) log_records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub(super) time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    pub(super) severity_number: i32,
    #[prost(string, tag = "3")]
    pub(super) severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub(super) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "11")]
    pub(super) observed_time_unix_nano: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub(super) kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Kind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    List(ValueList),
    #[prost(message, tag = "6")]
    Map(KeyValues),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueList {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValues {
    #[prost(message, repeated, tag = "1")]
    pub(super) values: Vec<KeyValue>,
}

/// The answer; empty where everything was taken.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportAnswer {
    #[prost(message, optional, tag = "1")]
    pub(super) partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected_log_records: i64,
    #[prost(string, tag = "2")]
    pub(super) error_message: String,
}

/// One request for these lines of JSON.
pub(super) fn request<'l>(lines: impl Iterator<Item = &'l str>, now: u64) -> ExportLogs {
    let text = |key: &str, value: &str| KeyValue {
        key: key.to_owned(),
        value: Some(any(&Value::from(value))),
    };
    let version = env!("CARGO_PKG_VERSION");
    ExportLogs {
        resource_logs: vec![ResourceLogs {
            resource: Some(Resource {
                attributes: vec![
                    text("service.name", "varmor-agent"),
                    text("service.version", version),
                ],
            }),
            scope_logs: vec![ScopeLogs {
                scope: Some(Scope {
                    name: "varmor".to_owned(),
                    version: version.to_owned(),
                }),
                log_records: lines.filter_map(|line| record(line, now)).collect(),
            }],
        }],
    }
}

/// A violation: its message is the body, its fields are the attributes.
fn record(line: &str, now: u64) -> Option<LogRecord> {
    let Value::Object(fields) = serde_json::from_str(line).ok()? else {
        return None;
    };
    Some(LogRecord {
        time_unix_nano: fields.get("eventTime").and_then(Value::as_u64).unwrap_or(now),
        severity_number: WARN,
        severity_text: "WARN".to_owned(),
        body: fields.get("message").map(any),
        attributes: fields
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "message" | "level" | "time" | "eventTime"))
            .map(pair)
            .collect(),
        observed_time_unix_nano: now,
    })
}

fn pair((key, value): (&String, &Value)) -> KeyValue {
    KeyValue {
        key: key.clone(),
        value: Some(any(value)),
    }
}

fn any(value: &Value) -> AnyValue {
    let kind = match value {
        Value::Null => return AnyValue::default(),
        Value::Bool(value) => Kind::Bool(*value),
        Value::String(text) => Kind::Text(text.clone()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Kind::Integer(integer),
            (None, double) => Kind::Double(double.unwrap_or(f64::NAN)),
        },
        Value::Array(values) => Kind::List(ValueList {
            values: values.iter().map(any).collect(),
        }),
        Value::Object(fields) => Kind::Map(KeyValues {
            values: fields.iter().map(pair).collect(),
        }),
    };
    AnyValue { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_a_log_record_with_attributes() {
        let line = r#"{"level":"warn","message":"violation event","eventTime":7,"podName":"web-0","count":3,
            "event":{"operation":"File","permissions":["read"]},"big":18446744073709551615,"none":null,"yes":true}"#;
        let request = request([line, "no json", "[]"].into_iter(), 9);
        let decoded = ExportLogs::decode(&request.encode_to_vec()[..]).unwrap();
        assert_eq!(decoded, request);
        let records = &request.resource_logs[0].scope_logs[0].log_records;
        assert_eq!(records.len(), 1);
        let record = &records[0];
        assert_eq!((record.time_unix_nano, record.observed_time_unix_nano), (7, 9));
        let value = |key: &str| {
            let found = record.attributes.iter().find(|pair| pair.key == key);
            found.and_then(|pair| pair.value.clone()?.kind)
        };
        assert_eq!(value("podName"), Some(Kind::Text("web-0".to_owned())));
        assert_eq!(value("count"), Some(Kind::Integer(3)));
        assert_eq!(value("yes"), Some(Kind::Bool(true)));
        assert_eq!(value("none"), None);
        assert!(matches!(value("event"), Some(Kind::Map(fields)) if fields.values.len() == 2));
        assert!(matches!(value("big"), Some(Kind::Double(_))));
    }

    #[test]
    fn field_numbers_are_those_of_the_protocol() {
        let record = LogRecord {
            time_unix_nano: 1,
            severity_number: WARN,
            body: Some(any(&Value::from("b"))),
            ..LogRecord::default()
        };
        // fixed64 1, varint 2, message 5 with string 1.
        let expected = [0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 13, 0x2a, 3, 0x0a, 1, b'b'];
        assert_eq!(record.encode_to_vec(), expected);
    }
}

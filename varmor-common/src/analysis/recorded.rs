//! Lines of `violations.log` as operations, to be decided again.

use std::net::IpAddr;

use serde_json::Value;

use super::operation::AWAY;
use super::{Judge, Operation, Outcome};
use crate::abi;
use crate::policy::vocabulary as words;
use crate::profile::DEFAULT_RULE;

/// One recorded decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub operation: Operation,
    pub denied: bool,
    /// How many equal events the line stands for.
    pub count: u64,
    pub rule: String,
    /// The hook that asked: `open`, `exec`, `mmap`.
    pub hook: String,
    /// Nanoseconds since the epoch; 0 = not known.
    pub time: u64,
    /// The task's executable and those of its ancestors: they are what puts it into target groups.
    executables: Vec<String>,
}

/// Why a line is no decision that can be made again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("no event: {0}")]
    Malformed(String),
    /// Of another enforcer, about the enforcer itself, or cut by the kernel.
    #[error("not decided again: {0}")]
    Other(String),
}

impl Recorded {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self, Unusable> {
        Self::read(line, true)
    }

    /// Reads one line of a recording: what is to be allowed for it. One name of two is enough for that.
    pub fn of_recording(line: &str) -> Result<Self, Unusable> {
        Self::read(line, false)
    }

    fn read(line: &str, compares: bool) -> Result<Self, Unusable> {
        let line: Value =
            serde_json::from_str(line).map_err(|error| Unusable::Malformed(error.to_string()))?;
        let enforcer = text(&line, "enforcer")?;
        if enforcer != "BPF" {
            return Err(Unusable::Other(format!("an event of {enforcer}")));
        }
        if line.get("fault").is_some() {
            return Err(Unusable::Other("a fault, not a rule, decided".to_owned()));
        }
        let event = line
            .get("event")
            .ok_or_else(|| Unusable::Malformed("the field `event` is missing".to_owned()))?;
        let ancestors = line.pointer("/process/ancestors").and_then(Value::as_array);
        let executables = ancestors
            .into_iter()
            .flatten()
            .filter_map(|ancestor| ancestor.get("executable"))
            .chain(line.get("executable"))
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let rule = line.get("ruleID").and_then(Value::as_str).unwrap_or_default();
        let hook = line.get("hook").and_then(Value::as_str).unwrap_or_default();
        Ok(Self {
            operation: operation(event, hook, compares && rule == DEFAULT_RULE)?,
            denied: text(&line, "action")? == "DENIED",
            count: line.get("count").and_then(Value::as_u64).unwrap_or(1),
            rule: rule.to_owned(),
            hook: hook.to_owned(),
            time: line.get("eventTime").and_then(Value::as_u64).unwrap_or(0),
            executables,
        })
    }

    /// The target groups that the task is in, as far as the recorded ancestors show.
    #[must_use]
    pub fn domain(&self, judge: &Judge) -> u32 {
        self.executables
            .iter()
            .fold(0, |groups, path| groups | judge.domain(Some(path)))
    }

    /// The decision under another policy, if it is another one.
    #[must_use]
    pub fn flips(&self, judge: &Judge) -> Option<Outcome> {
        let outcome = judge.outcome(&self.operation, self.domain(judge));
        ((outcome == Outcome::Denied) != self.denied).then_some(outcome)
    }
}

fn text<'v>(value: &'v Value, field: &str) -> Result<&'v str, Unusable> {
    value
        .get(field)
        .and_then(Value::as_str)
        .ok_or_else(|| Unusable::Malformed(format!("the field `{field}` is missing")))
}

fn operation(event: &Value, hook: &str, by_default: bool) -> Result<Operation, Unusable> {
    match text(event, "operation")? {
        "File" | "Bprm" => {
            let path = text(event, "path")?;
            // The kernel kept the end of a path only.
            if !path.starts_with('/') {
                return Err(Unusable::Other(format!("the path `{path}` is not complete")));
            }
            let access = permissions(event)?;
            // As the kernel's half asks; see `Operation::File`.
            let within = match hook {
                "rename" | "link" if access & abi::PERM_ALL == abi::PERM_ALL => AWAY,
                "rename" | "link" if by_default => {
                    let why = "the line has one name of two, and an allow-list compares them";
                    return Err(Unusable::Other(why.to_owned()));
                }
                _ => u32::MAX,
            };
            Ok(Operation::File {
                path: path.to_owned(),
                access,
                within,
            })
        }
        "Capability" => {
            let name = text(event, "capability")?;
            words::capabilities(name)
                .filter(|set| set.0.is_power_of_two())
                .map(|set| Operation::Capability(set.0.trailing_zeros()))
                .ok_or_else(|| Unusable::Malformed(format!("unknown capability `{name}`")))
        }
        "Network" => network(event),
        "Mount" => mount(event),
        "Ptrace" => {
            let access = text(event, "permission")?
                .split('|')
                .filter_map(words::ptrace_permission)
                .fold(0, |all, one| all | one);
            let outside = event.get("external").and_then(Value::as_bool).unwrap_or(true);
            Ok(Operation::Ptrace { access, outside })
        }
        "Namespace" => Ok(Operation::UserNamespace),
        other => Err(Unusable::Other(format!("an event about {other}"))),
    }
}

fn permissions(event: &Value) -> Result<u32, Unusable> {
    let mut access = 0;
    for name in event
        .get("permissions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        access |= match name.as_str().unwrap_or_default() {
            "read" => abi::PERM_READ,
            "write" => abi::PERM_WRITE,
            "append" => abi::PERM_APPEND,
            "exec" => abi::PERM_EXEC,
            "restructure" => abi::PERM_STRUCT,
            other => return Err(Unusable::Malformed(format!("unknown permission `{other}`"))),
        };
    }
    Ok(access)
}

fn network(event: &Value) -> Result<Operation, Unusable> {
    let kind = text(event, "type")?;
    if kind == "socket" {
        let socket = event.get("socket").unwrap_or(&Value::Null);
        let number = |field: &str, find: &dyn Fn(&str) -> Option<u32>| {
            let word = text(socket, field)?;
            find(word)
                .or_else(|| word.parse().ok())
                .ok_or_else(|| Unusable::Malformed(format!("unknown {field} `{word}`")))
        };
        let domain = number("domain", &|word| {
            if word == "unspec" {
                Some(0)
            } else {
                words::domain(word)
            }
        })?;
        let kind = number("type", &words::socket_type)?;
        // A word of policies may be several protocols (`tcp` is MPTCP too); in events it is the first of them.
        let protocol = number("protocol", &|word| words::protocols(word)?.first().copied()).or_else(
            |error| match text(socket, "protocol")? {
                "" | "unspec" | "ip" => Ok(0),
                "icmpv6" => Ok(words::ipproto::ICMPV6),
                "sctp" => Ok(132),
                "raw" => Ok(255),
                _ => Err(error),
            },
        )?;
        return Ok(Operation::Socket {
            domain,
            kind,
            protocol,
        });
    }
    let address = event.get("address").unwrap_or(&Value::Null);
    let ip: IpAddr = text(address, "ip")?
        .parse()
        .map_err(|error| Unusable::Malformed(format!("{error}")))?;
    let port = address
        .get("port")
        .and_then(Value::as_u64)
        .and_then(|port| u16::try_from(port).ok())
        .ok_or_else(|| Unusable::Malformed("the field `port` is missing".to_owned()))?;
    match kind {
        "connect" => Ok(Operation::Connect(ip, port)),
        "listen" => Ok(Operation::Bind(ip, port)),
        other => Err(Unusable::Malformed(format!("unknown network event `{other}`"))),
    }
}

fn mount(event: &Value) -> Result<Operation, Unusable> {
    let mut flags = 0;
    for name in event.get("flags").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        flags |= match name {
            "rec" => 1 << 14,
            "unbindable" => 1 << 17,
            "private" => 1 << 18,
            "slave" => 1 << 19,
            "shared" => 1 << 20,
            _ => words::mount_flag(name)
                .map(|flag| flag.any)
                .ok_or_else(|| Unusable::Malformed(format!("unknown mount flag `{name}`")))?,
        };
    }
    let fstype = text(event, "type")?;
    let source = text(event, "path")?;
    if source.is_empty() {
        let why = "the line does not say what was mounted or unmounted";
        return Err(Unusable::Other(why.to_owned()));
    }
    Ok(Operation::Mount {
        source: source.to_owned(),
        fstype: (!matches!(fstype, "" | "none")).then(|| fstype.to_owned()),
        flags,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: &str) -> String {
        format!(
            r#"{{"enforcer":"BPF","action":"DENIED","ruleID":"r","executable":"/bin/cat","process":{{"ancestors":[{{"executable":"/bin/sh"}}]}},"count":3,"event":{event}}}"#
        )
    }

    #[test]
    fn every_kind_of_event_is_an_operation() {
        for (event, expected) in [
            (
                r#"{"operation":"File","permissions":["read","write"],"path":"/etc/shadow"}"#,
                "open rw /etc/shadow",
            ),
            (
                r#"{"operation":"Bprm","permissions":["exec"],"path":"/bin/sh"}"#,
                "exec /bin/sh",
            ),
            (
                r#"{"operation":"Capability","capability":"CAP_NET_RAW"}"#,
                "capable net_raw",
            ),
            (
                r#"{"operation":"Network","type":"connect","address":{"ip":"1.2.3.4","port":80}}"#,
                "connect 1.2.3.4:80",
            ),
            (
                r#"{"operation":"Network","type":"listen","address":{"ip":"::","port":80}}"#,
                "bind [::]:80",
            ),
            (
                r#"{"operation":"Network","type":"socket","socket":{"domain":"inet6","type":"stream","protocol":"tcp"}}"#,
                "socket 10 1 6",
            ),
            (
                r#"{"operation":"Mount","path":"/proc","type":"none","flags":["umount"]}"#,
                "umount /proc",
            ),
            (
                r#"{"operation":"Mount","path":"proc","type":"proc","flags":["ro"]}"#,
                "mount proc type=proc flags=0x1",
            ),
            (
                r#"{"operation":"Ptrace","permission":"read","external":true,"peerPID":1}"#,
                "ptrace read outside",
            ),
            (r#"{"operation":"Namespace","namespace":"user"}"#, "userns"),
        ] {
            let recorded = Recorded::parse(&line(event)).unwrap_or_else(|error| panic!("{event}: {error}"));
            assert_eq!(recorded.operation.to_string(), expected);
            assert!(
                recorded.denied && recorded.count == 3 && recorded.executables == ["/bin/sh", "/bin/cat"]
            );
        }
    }

    #[test]
    fn what_cannot_be_decided_again_is_told_from_what_is_broken() {
        for (event, expected) in [
            (r#"{"operation":"Enforcer","object":"map","id":1}"#, true),
            (
                r#"{"operation":"File","permissions":["read"],"path":"...tail"}"#,
                true,
            ),
            (
                r#"{"operation":"Mount","path":"","type":"none","flags":["umount"]}"#,
                true,
            ),
            (r#"{"operation":"File","permissions":["fly"],"path":"/x"}"#, false),
            (
                r#"{"operation":"Network","type":"connect","address":{"ip":"x","port":1}}"#,
                false,
            ),
            (
                r#"{"operation":"Network","type":"connect","address":{"ip":"::","port":70000}}"#,
                false,
            ),
            ("{}", false),
        ] {
            let error = Recorded::parse(&line(event)).expect_err(event);
            assert_eq!(matches!(error, Unusable::Other(_)), expected, "{event}: {error}");
        }
        assert!(matches!(Recorded::parse("{"), Err(Unusable::Malformed(_))));
    }
}

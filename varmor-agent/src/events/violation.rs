//! A violation as one JSON line: vArmor's fields, and what it lacks (rule, executable, process, fault).

use serde::Serialize;
use serde_json::{Map, Value};

use super::event::{Detail, Event, Process};
use crate::containers::Container;
use crate::enforcer::Resolution;

/// What is the same in every line of this machine.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub name: String,
    /// `AUDIT_EVENT_METADATA` and the agent's own namespace.
    pub metadata: Map<String, Value>,
}

/// One line of `violations.log`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    pub level: &'static str,
    pub metadata: Map<String, Value>,
    pub node_name: String,
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    pub pod_name: String,
    pub pod_namespace: String,
    #[serde(rename = "containerID")]
    pub container_id: String,
    pub container_name: String,
    pub image: String,
    pub pid: u32,
    #[serde(rename = "mntNsID")]
    pub mount_namespace: u32,
    /// Seconds since the epoch.
    pub event_timestamp: u64,
    /// Nanoseconds since the epoch.
    pub event_time: u64,
    pub enforcer: &'static str,
    pub action: super::event::Action,
    pub profile_name: String,
    pub policy_kind: String,
    pub policy_name: String,
    pub policy_namespace: String,
    #[serde(rename = "ruleID")]
    pub rule_id: String,
    /// `spec.policy.enhanceProtect.hardeningRules[2]`.
    pub policy_field: String,
    /// The hook that asked, finer than `event.operation`.
    pub hook: String,
    pub executable: String,
    pub process: Process,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    pub cgroup: u64,
    pub event: Detail,
    /// How many equal events this line stands for.
    pub count: u64,
    pub time: String,
    pub message: &'static str,
}

impl Violation {
    /// `wall` is the event's time in nanoseconds since the epoch, `now` the time of writing.
    #[must_use]
    pub fn new(
        event: Event,
        resolution: Resolution,
        container: Option<&Container>,
        node: &Node,
        wall: u64,
        now: std::time::SystemTime,
    ) -> Self {
        let container = container.cloned().unwrap_or_default();
        let pod = container.pod.unwrap_or_default();
        let origin = resolution.origin.unwrap_or_default();
        let (kind, namespace, name) = policy_identity(&origin.policy);
        Self {
            level: "warn",
            metadata: node.metadata.clone(),
            node_name: node.name.clone(),
            pod_uid: pod.uid,
            pod_name: pod.name,
            pod_namespace: pod.namespace,
            container_id: container.id,
            container_name: container.name,
            image: container.image,
            pid: event.process.pid,
            mount_namespace: event.mount_namespace,
            event_timestamp: wall / 1_000_000_000,
            event_time: wall,
            enforcer: event.detail.enforcer(),
            action: event.action,
            profile_name: resolution.profile.unwrap_or_default(),
            policy_kind: kind.to_owned(),
            policy_name: name.to_owned(),
            policy_namespace: namespace.to_owned(),
            rule_id: resolution.rule.unwrap_or_default(),
            policy_field: origin.field,
            hook: event.hook,
            executable: event.executable,
            process: event.process,
            fault: event.fault,
            cgroup: event.cgroup.0,
            event: event.detail,
            count: event.repeated + 1,
            time: humantime::format_rfc3339_millis(now).to_string(),
            message: "violation event",
        }
    }

    /// `/etc/shadow`, `169.254.169.254:80`, `CAP_SYS_ADMIN`: for people.
    #[must_use]
    pub fn object(&self) -> String {
        use super::event::Network;
        match &self.event {
            Detail::File { path, .. } | Detail::Bprm { path, .. } | Detail::Mount { path, .. } => {
                path.clone()
            }
            Detail::Capability { capability } => capability.clone(),
            Detail::Network(Network::Socket { socket }) => {
                format!("{}/{}/{}", socket.domain, socket.r#type, socket.protocol)
            }
            Detail::Network(Network::Connect { address } | Network::Listen { address }) => {
                std::net::SocketAddr::new(address.ip, address.port).to_string()
            }
            Detail::Ptrace { permission, peer, .. } => format!("{permission} {peer}"),
            Detail::Enforcer { object, id } => format!("varmor's {object} {id}"),
            Detail::Namespace { namespace } => format!("{namespace} namespace"),
            Detail::AppArmor(detail) => detail.object().to_owned(),
            Detail::Seccomp(detail) => detail.syscall.clone(),
        }
    }
}

/// `VarmorPolicy demo/web` -> (`VarmorPolicy`, `demo`, `web`).
fn policy_identity(identity: &str) -> (&str, &str, &str) {
    let (kind, rest) = identity.split_once(' ').unwrap_or(("", identity));
    let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
    (kind, namespace, name)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use varmor_common::abi;
    use varmor_common::profile::Origin;

    use super::*;
    use crate::containers::Pod;
    use crate::events::event::tests::raw;

    #[test]
    fn line_has_every_field_of_varmor() {
        let event = Event::try_from(&raw(abi::EVENT_FILE, abi::operation::OPEN, "/etc/shadow")).unwrap();
        let resolution = Resolution {
            profile: Some("varmor-demo-web".into()),
            rule: Some("disable-write-etc".into()),
            origin: Some(Origin {
                policy: "VarmorPolicy demo/web".into(),
                field: "spec.policy".into(),
            }),
        };
        let container = Container {
            id: "c1".into(),
            name: "main".into(),
            image: "nginx:1".into(),
            pod: Some(Pod {
                namespace: "demo".into(),
                name: "web-0".into(),
                uid: "u-1".into(),
                ..Pod::default()
            }),
            ..Container::default()
        };
        let node = Node {
            name: "node-1".into(),
            metadata: Map::new(),
        };
        let wall = 1_700_000_000_000_000_007;
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_001);
        let line = serde_json::to_value(Violation::new(
            event,
            resolution,
            Some(&container),
            &node,
            wall,
            now,
        ))
        .unwrap();
        let expected = serde_json::json!({
            "level": "warn", "metadata": {}, "nodeName": "node-1", "podUID": "u-1", "podName": "web-0",
            "podNamespace": "demo", "containerID": "c1", "containerName": "main", "image": "nginx:1", "pid": 100,
            "mntNsID": 4_026_532_000_u32, "eventTimestamp": 1_700_000_000, "eventTime": wall, "enforcer": "BPF",
            "action": "DENIED", "profileName": "varmor-demo-web", "policyKind": "VarmorPolicy",
            "policyName": "web", "policyNamespace": "demo", "ruleID": "disable-write-etc",
            "policyField": "spec.policy", "hook": "open", "executable": "/bin/cat",
            "process": {"pid": 100, "tid": 101, "comm": "cat", "uid": 1000, "gid": 1000,
                "ancestors": [{"pid": 99, "comm": "sh", "executable": "/bin/sh"}]},
            "cgroup": 42, "event": {"operation": "File", "permissions": ["read"], "path": "/etc/shadow"},
            "count": 1, "time": "2023-11-14T22:13:21.000Z", "message": "violation event"
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn unknown_container_leaves_fields_empty() {
        let event = Event::try_from(&raw(abi::EVENT_FILE, abi::operation::OPEN, "/x")).unwrap();
        let violation = Violation::new(
            event,
            Resolution::default(),
            None,
            &Node::default(),
            1,
            std::time::SystemTime::now(),
        );
        assert_eq!(
            (violation.container_id.as_str(), violation.policy_name.as_str()),
            ("", "")
        );
    }

    #[test]
    fn cluster_policy_has_no_namespace() {
        assert_eq!(
            policy_identity("VarmorClusterPolicy all"),
            ("VarmorClusterPolicy", "", "all")
        );
    }
}

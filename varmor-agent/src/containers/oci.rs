//! What containerd's container object says about a container: the OCI spec's annotations, labels, the pod.
//!
//! Pod identity comes from the `io.kubernetes.cri.*` annotations of the spec, which only the CRI plug-in
//! writes. The labels of the same meaning are not trusted: an image can bring them along, and a container that
//! names a foreign pod namespace would slip out of a policy.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Container, Pod};
use crate::text::{MAX_NAME, MAX_VALUE, clean};

const CONTAINER_TYPE: &str = "io.kubernetes.cri.container-type";
const CONTAINER_NAME: &str = "io.kubernetes.cri.container-name";
const SANDBOX_ID: &str = "io.kubernetes.cri.sandbox-id";
const SANDBOX_NAME: &str = "io.kubernetes.cri.sandbox-name";
const SANDBOX_NAMESPACE: &str = "io.kubernetes.cri.sandbox-namespace";
const SANDBOX_UID: &str = "io.kubernetes.cri.sandbox-uid";
const POD_NAME_LABEL: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE_LABEL: &str = "io.kubernetes.pod.namespace";
const POD_UID_LABEL: &str = "io.kubernetes.pod.uid";
/// Key of the CRI plug-in's own data of a sandbox.
pub(super) const SANDBOX_METADATA: &str = "io.cri-containerd.sandbox.metadata";
/// Before the name of a container, in annotations of a pod.
const BPF_ANNOTATION: &str = "container.bpf.security.beta.varmor.org/";
const UNCONFINED: &str = "unconfined";
/// Before the name of a profile.
const LOCAL: &str = "localhost/";
pub(super) const NERDCTL_NAME_LABEL: &str = "nerdctl/name";

/// The part of containerd's container object that is needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    pub(super) id: String,
    pub(super) image: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// It gets a mount namespace of its own.
    pub(super) has_mounts: bool,
    /// Of a sandbox: names of the containers that annotations of the pod take out of every BPF profile.
    pub(super) unconfined: BTreeSet<String>,
    /// Of a sandbox, by name of a container: the BPF profile that an annotation of the pod names.
    pub(super) promised: BTreeMap<String, String>,
}

/// What kind of container it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Started by hand or by another tool.
    Plain,
    /// A container of a pod.
    PodContainer,
    /// The pause container of a pod, which runs nothing of the user.
    Sandbox,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    linux: Linux,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Linux {
    namespaces: Vec<Namespace>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Namespace {
    r#type: String,
    path: String,
}

/// What the CRI plug-in keeps of a sandbox, as far as it is needed.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Stored {
    metadata: StoredMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct StoredMetadata {
    config: StoredConfig,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StoredConfig {
    annotations: BTreeMap<String, String>,
}

impl Object {
    pub(super) fn new(
        id: &str,
        image: &str,
        labels: impl IntoIterator<Item = (String, String)>,
        spec: &[u8],
    ) -> Self {
        // A spec that cannot be read leaves the container without pod identity: every namespace's policies
        // can then select it, which is the safe side.
        let spec = serde_json::from_slice::<Spec>(spec).unwrap_or_default();
        let annotations = spec.annotations.unwrap_or_default();
        let namespaces = &spec.linux.namespaces;
        Self {
            id: clean(id, MAX_NAME),
            image: clean(image, MAX_VALUE),
            labels: cleaned(labels),
            annotations: cleaned(
                annotations
                    .into_iter()
                    .filter(|(key, _)| key.starts_with("io.kubernetes.cri.")),
            ),
            has_mounts: namespaces
                .iter()
                .any(|namespace| namespace.r#type == "mount" && namespace.path.is_empty()),
            unconfined: BTreeSet::new(),
            promised: BTreeMap::new(),
        }
    }

    /// Takes in what the CRI plug-in keeps of a sandbox, where the annotations of the pod are.
    pub(super) fn with_sandbox(mut self, metadata: &[u8]) -> Self {
        // Without it nothing is taken out, which is the safe side.
        let stored = serde_json::from_slice::<Stored>(metadata).unwrap_or_default();
        for (key, value) in stored.metadata.config.annotations {
            let Some(name) = key.strip_prefix(BPF_ANNOTATION).map(|name| clean(name, MAX_NAME)) else {
                continue;
            };
            if value == UNCONFINED {
                self.unconfined.insert(name);
            } else if let Some(profile) = value.strip_prefix(LOCAL) {
                self.promised.insert(name, clean(profile, MAX_NAME));
            }
        }
        self
    }

    pub(super) fn role(&self) -> Role {
        match self.annotations.get(CONTAINER_TYPE).map(String::as_str) {
            Some("container") => Role::PodContainer,
            Some("sandbox") => Role::Sandbox,
            _ => Role::Plain,
        }
    }

    pub(super) fn sandbox_id(&self) -> Option<&str> {
        self.annotations.get(SANDBOX_ID).map(String::as_str)
    }

    /// The container, given the sandbox of its pod.
    pub(super) fn container(
        &self,
        runtime_namespace: &str,
        pid: u32,
        started: bool,
        sandbox: Option<&Self>,
    ) -> Container {
        let pod = (self.role() == Role::PodContainer).then(|| self.pod(sandbox));
        let name = match pod {
            Some(_) => self.annotations.get(CONTAINER_NAME),
            None => self.labels.get(NERDCTL_NAME_LABEL),
        };
        Container {
            id: self.id.clone(),
            runtime_namespace: clean(runtime_namespace, MAX_NAME),
            name: name.unwrap_or(&self.id).clone(),
            labels: self.labels.clone(),
            pod,
            image: self.image.clone(),
            pid,
            started,
            cgroup: None,
        }
    }

    fn pod(&self, sandbox: Option<&Self>) -> Pod {
        // Annotations first; older containerd has no annotation for the uid, and there the kubelet's label
        // (which the CRI plug-in writes over an image's) is the source.
        let of = |annotation: &str, label: &str| {
            self.annotations
                .get(annotation)
                .or_else(|| self.labels.get(label))
                .cloned()
                .unwrap_or_default()
        };
        Pod {
            namespace: of(SANDBOX_NAMESPACE, POD_NAMESPACE_LABEL),
            name: of(SANDBOX_NAME, POD_NAME_LABEL),
            uid: of(SANDBOX_UID, POD_UID_LABEL),
            labels: sandbox.map(|sandbox| sandbox.labels.clone()).unwrap_or_default(),
            unconfined: sandbox
                .map(|sandbox| sandbox.unconfined.clone())
                .unwrap_or_default(),
            promised: sandbox
                .map(|sandbox| sandbox.promised.clone())
                .unwrap_or_default(),
        }
    }
}

fn cleaned(pairs: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    pairs
        .into_iter()
        .map(|(key, value)| (clean(&key, MAX_NAME), clean(&value, MAX_VALUE)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn only_a_new_mount_namespace_is_its_own() {
        let has = |namespaces: &str| {
            let spec = format!(r#"{{"linux":{{"namespaces":{namespaces}}}}}"#);
            Object::new("c", "i", [], spec.as_bytes()).has_mounts
        };
        assert!(has(r#"[{"type":"pid"},{"type":"mount"}]"#));
        assert!(!has(r#"[{"type":"mount","path":"/proc/1/ns/mnt"}]"#));
        assert!(!has("[]"));
        assert!(!Object::new("c", "i", [], b"no JSON").has_mounts);
    }

    #[test]
    fn pod_container_gets_the_labels_of_its_sandbox() {
        let sandbox = Object::new(
            "s1",
            "pause",
            labels(&[("app", "web")]),
            br#"{"annotations":{"io.kubernetes.cri.container-type":"sandbox"}}"#,
        );
        assert_eq!(sandbox.role(), Role::Sandbox);
        let object = Object::new(
            "c1",
            "nginx:1",
            labels(&[("io.kubernetes.pod.uid", "u-1")]),
            br#"{"annotations":{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-id":"s1",
                "io.kubernetes.cri.container-name":"main","io.kubernetes.cri.sandbox-name":"web-0",
                "io.kubernetes.cri.sandbox-namespace":"demo"}}"#,
        );
        assert_eq!(object.sandbox_id(), Some("s1"));
        let container = object.container("k8s.io", 7, true, Some(&sandbox));
        assert_eq!(container.name, "main");
        let pod = container.pod.unwrap();
        assert_eq!(
            (pod.namespace.as_str(), pod.name.as_str(), pod.uid.as_str()),
            ("demo", "web-0", "u-1")
        );
        assert_eq!(pod.labels["app"], "web");
    }

    #[test]
    fn annotations_of_a_pod_take_containers_out_and_promise_profiles() {
        // As containerd 1.6 writes it, shortened.
        let stored = br#"{"Version":"v1","Metadata":{"ID":"s1","Name":"web_demo","Config":{"metadata":{"name":"web"},
            "annotations":{"container.bpf.security.beta.varmor.org/init":"unconfined",
            "container.bpf.security.beta.varmor.org/main":"localhost/varmor-demo-p","other":"unconfined"}}}}"#;
        let sandbox = Object::new("s1", "i", [], b"{}").with_sandbox(stored);
        assert_eq!(sandbox.unconfined.into_iter().collect::<Vec<_>>(), ["init"]);
        assert_eq!(
            sandbox.promised,
            [("main".to_owned(), "varmor-demo-p".to_owned())].into()
        );
        assert!(
            Object::new("s1", "i", [], b"{}")
                .with_sandbox(b"no JSON")
                .unconfined
                .is_empty()
        );
    }

    #[test]
    fn image_labels_cannot_claim_a_pod() {
        let object = Object::new(
            "c1",
            "evil",
            labels(&[
                ("io.kubernetes.pod.namespace", "elsewhere"),
                ("io.cri-containerd.kind", "container"),
            ]),
            b"{}",
        );
        assert_eq!(object.role(), Role::Plain);
        assert_eq!(object.container("k8s.io", 1, true, None).pod, None);
    }

    #[test]
    fn unreadable_spec_is_a_plain_container() {
        for spec in [b"".as_slice(), b"\xff", b"[]", br#"{"annotations":null}"#] {
            assert_eq!(Object::new("c", "i", [], spec).role(), Role::Plain);
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_container() {
        let object = Object::new("a\nb", "i\u{1b}[0m", labels(&[("k\n", "v\r")]), b"{}");
        let container = object.container("default", 1, true, None);
        assert!(!format!("{container:?}").contains(['\n', '\r', '\u{1b}']));
        assert_eq!(container.id, "a\\u{a}b");
    }
}

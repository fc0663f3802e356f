//! Objects come, turn bad and go; restarts without an API server.

use tokio::sync::watch::Sender;

use super::*;
use crate::source::FileState;

fn object(name: &str, generation: i64, mode: &str) -> Object {
    let text = serde_json::json!({
        "apiVersion": "crd.varmor.org/v1beta1",
        "kind": "ArmorProfile",
        "metadata": {"name": format!("varmor-demo-{name}"), "namespace": "demo"},
        "spec": {
            "target": {"kind": "Pod", "name": name},
            "profile": {"name": format!("varmor-demo-{name}"), "enforcer": "BPF", "mode": "enforce"},
            "updateExistingWorkloads": false,
            "policy": {
                "kind": "VarmorPolicy", "namespace": "demo", "name": name, "generation": generation,
                "spec": {"target": {"kind": "Pod", "name": name}, "policy": {"enforcer": "BPF", "mode": mode}},
            },
        },
    });
    Object {
        uid: format!("uid-{name}"),
        generation,
        json: text.to_string().into_bytes().into(),
    }
}

fn lab(state_dir: &Path) -> (Sender<Listing>, Cluster) {
    let (sender, listing) = tokio::sync::watch::channel(Listing::default());
    (sender, Cluster::new(listing, state_dir, NodeFacts::default()))
}

fn list(sender: &Sender<Listing>, synced: u64, objects: &[(&str, i64, &str)]) {
    let objects = objects.iter().map(|(name, generation, mode)| {
        (
            format!("demo/varmor-demo-{name}"),
            object(name, *generation, mode),
        )
    });
    sender.send_replace(Listing {
        objects: Some(Arc::new(objects.collect())),
        synced,
        problem: None,
    });
}

fn names(cluster: &Cluster) -> Vec<&str> {
    cluster
        .catalog()
        .objects()
        .map(|object| object.name.as_str())
        .collect()
}

#[test]
fn objects_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, mut cluster) = lab(folder.path());
    assert!(cluster.scan().unread, "nothing is known before the first list");
    list(&sender, 7, &[("a", 1, "AlwaysAllow"), ("b", 1, "RuntimeDefault")]);
    assert_eq!(cluster.scan().changed.len(), 2);
    assert_eq!((names(&cluster), cluster.synced()), (vec!["a", "b"], Some(7)));
    assert_eq!(cluster.identity("demo/varmor-demo-a"), Some(("uid-a", 1)));
    assert_eq!(cluster.scan(), Scan::default(), "nothing changed");
    list(&sender, 9, &[("b", 2, "AlwaysAllow")]);
    assert_eq!(cluster.scan().changed.len(), 2);
    assert_eq!((names(&cluster), cluster.synced()), (vec!["b"], Some(9)));
}

#[test]
fn empty_cluster_is_known_to_be_empty() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, mut cluster) = lab(folder.path());
    list(&sender, 3, &[]);
    let scan = cluster.scan();
    assert!(!scan.unread && scan.changed.is_empty());
    assert_eq!(cluster.synced(), Some(3));
}

#[test]
fn restart_without_an_api_server_keeps_what_was_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, mut cluster) = lab(folder.path());
    list(&sender, 7, &[("a", 1, "AlwaysAllow"), ("b", 1, "AlwaysAllow")]);
    cluster.scan();
    list(&sender, 8, &[("a", 1, "AlwaysAllow")]);
    cluster.scan();

    let (sender, mut cluster) = lab(folder.path());
    let scan = cluster.scan();
    assert!(!scan.unread);
    assert_eq!(names(&cluster), ["a"], "b was deleted before the restart");
    assert_eq!(
        cluster.synced(),
        None,
        "which state of the cluster that is, nobody knows"
    );
    list(&sender, 12, &[("c", 1, "AlwaysAllow")]);
    cluster.scan();
    assert_eq!(names(&cluster), ["c"]);
}

#[test]
fn bad_object_leaves_the_last_good_one_and_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, mut cluster) = lab(folder.path());
    list(&sender, 7, &[("a", 1, "AlwaysAllow"), ("b", 1, "AlwaysAllow")]);
    cluster.scan();
    list(&sender, 8, &[("a", 2, "AllwaysAllow"), ("b", 1, "AlwaysAllow")]);
    cluster.scan();
    assert_eq!(names(&cluster), ["a", "b"]);
    let status = cluster.catalog().status("demo/varmor-demo-a").unwrap();
    assert_eq!(status.state, FileState::Invalid);
    assert!(status.message.contains("last good version"), "{}", status.message);
}

#[test]
fn catalog_is_empty_when_the_last_object_has_gone_and_forgets_it() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, mut cluster) = lab(folder.path());
    list(&sender, 7, &[("a", 1, "AlwaysAllow")]);
    cluster.scan();
    assert!(cluster.catalog().written().next().is_some());
    list(&sender, 8, &[]);
    assert_eq!(cluster.scan().changed, ["demo/varmor-demo-a"]);
    assert!(cluster.catalog().written().next().is_none());
    let told = cluster.catalog().status("demo/varmor-demo-a");
    assert!(told.is_some_and(|status| status.state == FileState::Removed));
    cluster.scan();
    assert_eq!(cluster.catalog().files().count(), 0);
}

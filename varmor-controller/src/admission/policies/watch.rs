//! Follows the policies of a cluster.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::StreamExt;
use kube::api::ApiResource;
use kube::core::DynamicObject;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use varmor_common::policy::{VarmorClusterPolicy, VarmorPolicy};

use super::table::Key;
use super::{Known, Policies, Scope};
use crate::PAGE;

/// Keeps the table current until it is dropped.
pub(crate) async fn follow(client: Client, policies: Policies) {
    let namespaced = follow_kind::<VarmorPolicy>(client.clone(), policies.clone(), Scope::Namespaced);
    let cluster = follow_kind::<VarmorClusterPolicy>(client, policies, Scope::Cluster);
    tokio::join!(namespaced, cluster);
}

async fn follow_kind<K: Resource<DynamicType = ()>>(client: Client, policies: Policies, scope: Scope) {
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<K>(&()));
    let config = Config::default().page_size(PAGE);
    let mut events = pin!(watcher(api, config).default_backoff());
    let mut follower = Follower::new(scope);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => policies.change(|table| follower.apply(table, event)),
            Err(error) => {
                tracing::warn!(?scope, %error, "cannot follow the policies; what is known of them stays");
            }
        }
    }
}

/// Collects a list until it is complete.
pub(super) struct Follower {
    scope: Scope,
    list: Vec<Known>,
    unreadable: BTreeSet<Key>,
}

impl Follower {
    pub(super) fn new(scope: Scope) -> Self {
        Self {
            scope,
            list: Vec::new(),
            unreadable: BTreeSet::new(),
        }
    }

    pub(super) fn apply(&mut self, table: &mut super::Table, event: Event<DynamicObject>) {
        match event {
            Event::Init => {
                self.list.clear();
                self.unreadable.clear();
            }
            Event::InitApply(object) => match read(&object) {
                Ok(policy) => self.list.push(policy),
                Err(Some(key)) => {
                    self.unreadable.insert(key);
                }
                Err(None) => {}
            },
            Event::InitDone => {
                let list = std::mem::take(&mut self.list);
                table.replace(self.scope, list, &self.unreadable);
                tracing::info!(scope = ?self.scope, policies = table.len(), "the policies are known");
            }
            Event::Apply(object) => match read(&object) {
                Ok(policy) => table.insert(policy),
                Err(Some(_)) => {}
                Err(None) => table.remove(object.namespace().as_deref(), &object.name_any()),
            },
            Event::Delete(object) => table.remove(object.namespace().as_deref(), &object.name_any()),
        }
    }
}

/// The policy in an object; an error with its key if it cannot be read, without if it is being deleted.
fn read(object: &DynamicObject) -> Result<Known, Option<Key>> {
    if object.metadata.deletion_timestamp.is_some() {
        return Err(None);
    }
    Known::read(object).map_err(|error| {
        tracing::warn!(
            namespace = object.namespace(),
            error = format!("{:#}", anyhow::Error::from(error)),
            "a policy is not applied to new workloads"
        );
        Some((object.namespace(), object.name_any()))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Table;
    use super::*;

    fn object(name: &str, spec: &serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "crd.varmor.org/v1beta1", "kind": "VarmorPolicy",
            "metadata": {"namespace": "demo", "name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": spec,
        }))
        .expect("an object")
    }

    fn good() -> serde_json::Value {
        json!({"target": {"kind": "Pod", "name": "x"}, "policy": {"enforcer": "BPF", "mode": "AlwaysAllow"}})
    }

    fn names(table: &Table) -> Vec<String> {
        let candidates = table.candidates("demo");
        candidates.iter().map(|one| one.policy.name.clone()).collect()
    }

    #[test]
    fn an_unreadable_policy_beside_good_ones_stalls_nothing() {
        let (mut table, mut follower) = (Table::default(), Follower::new(Scope::Namespaced));
        let bad = object("bad", &json!({"target": 5}));
        for event in [
            Event::Init,
            Event::InitApply(bad),
            Event::InitApply(object("good", &good())),
            Event::InitDone,
        ] {
            follower.apply(&mut table, event);
        }
        assert_eq!(names(&table), ["good"]);
        follower.apply(&mut table, Event::Apply(object("good", &json!({}))));
        assert_eq!(names(&table), ["good"], "the last readable version counts");
        follower.apply(&mut table, Event::Delete(object("good", &good())));
        assert!(names(&table).is_empty());
    }

    #[test]
    fn a_list_counts_when_it_is_complete_and_replaces_what_was_known() {
        let (mut table, mut follower) = (Table::default(), Follower::new(Scope::Namespaced));
        follower.apply(&mut table, Event::Apply(object("old", &good())));
        follower.apply(&mut table, Event::Init);
        follower.apply(&mut table, Event::InitApply(object("new", &good())));
        assert_eq!(names(&table), ["old"]);
        follower.apply(&mut table, Event::InitDone);
        assert_eq!(names(&table), ["new"]);
    }

    #[test]
    fn a_policy_that_is_being_deleted_protects_nothing_new() {
        let (mut table, mut follower) = (Table::default(), Follower::new(Scope::Namespaced));
        follower.apply(&mut table, Event::Apply(object("web", &good())));
        let mut going = object("web", &good());
        going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
        follower.apply(&mut table, Event::Apply(going));
        assert!(names(&table).is_empty());
    }
}

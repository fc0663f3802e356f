//! What the worker tells the controller of the cluster.

use std::collections::BTreeMap;

use varmor_common::report::{EnforcerReport, NodeReport, ProfileReport, ProfileState};

use super::Worker;
use crate::daemon::controller::Finished;
use crate::daemon::state::{Policies, PolicyFile, PolicyState};
use crate::enforcer::LoadedProfile;
use crate::observe::Progress;
use crate::source::PolicyObject;
use crate::source::cluster::Cluster;

impl Worker {
    /// Hands the report on if something has changed. Only after the first list: before it, nothing is known of what
    /// there should be.
    pub(super) fn report_to_controller(&self, policies: &Policies) {
        let (Some(controller), Some(cluster)) = (&self.controller, self.source.cluster()) else {
            return;
        };
        let Some(synced) = cluster.synced() else { return };
        let loaded = self.enforcer.profiles().unwrap_or_default();
        let report = NodeReport {
            node: self.recorder.node_name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            enforcers: self.enforcers(),
            synced,
            exceptions: exceptions(cluster, policies, |file, uid| {
                verdict(file, &loaded).or_else(|| self.recording(file, uid))
            }),
            protected: self.reconciler.protected().count() as u64,
        };
        controller.reports.send_if_modified(|last| {
            let is_new = *last != report;
            *last = report;
            is_new
        });
    }

    /// Has the controller get the models of recordings that are over.
    pub(super) fn hand_over(&self) {
        let (Some(controller), Some(cluster)) = (&self.controller, self.source.cluster()) else {
            return;
        };
        let mut wanted = BTreeMap::new();
        for policy in self.policies.as_deref().into_iter().flatten() {
            let Some(model) = self.observations.model(&policy.profile.name) else {
                continue;
            };
            let namespace = policy.namespace.clone().unwrap_or_default();
            let name = &policy.profile.name;
            if let Some((uid, _)) = cluster.identity(&format!("{namespace}/{name}")) {
                let finished = Finished {
                    namespace,
                    name: name.clone(),
                    model,
                };
                wanted.insert(uid.to_owned(), finished);
            }
        }
        controller.models.want(wanted);
    }

    /// What is still to be done of a recording.
    fn recording(&self, file: &PolicyFile, uid: &str) -> Option<(ProfileState, String)> {
        let message =
            file.objects
                .iter()
                .find_map(|object| match self.observations.progress(&object.profile) {
                    Some(Progress::Recording) => self.observations.described(&object.profile),
                    Some(Progress::Completed) => self.controller.as_ref()?.models.waits(uid),
                    None => {
                        let mut policies = self.policies.as_deref().into_iter().flatten();
                        let is_this = |policy: &PolicyObject| policy.profile.name == object.profile;
                        let wanted = policies.any(|policy| is_this(policy) && policy.recorded_for.is_some());
                        wanted.then(|| "the recording cannot begin; the agent's log says why".to_owned())
                    }
                })?;
        Some((ProfileState::Recording, message))
    }

    fn enforcers(&self) -> Vec<EnforcerReport> {
        let bpf = EnforcerReport {
            name: "BPF".to_owned(),
            unavailable: self.enforcer.unavailable(),
        };
        let stores = self
            .stores
            .unavailable()
            .map(|(enforcer, unavailable)| EnforcerReport {
                name: enforcer.to_string(),
                unavailable,
            });
        std::iter::once(bpf).chain(stores).collect()
    }
}

/// The profiles that are not in force as they are written, or not finished.
fn exceptions(
    cluster: &Cluster,
    policies: &Policies,
    verdict: impl Fn(&PolicyFile, &str) -> Option<(ProfileState, String)>,
) -> Vec<ProfileReport> {
    let mut exceptions = Vec::new();
    for file in &policies.files {
        let Some((uid, generation)) = cluster.identity(&file.file) else {
            continue;
        };
        let Some((state, message)) = verdict(file, uid) else {
            continue;
        };
        let (namespace, name) = file.file.split_once('/').unwrap_or(("", &file.file));
        exceptions.push(ProfileReport {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            generation,
            state,
            message,
        });
    }
    exceptions
}

/// What is wrong with the worst part of a profile, if something is.
fn verdict(file: &PolicyFile, loaded: &[LoadedProfile]) -> Option<(ProfileState, String)> {
    if file.state != "ok" {
        return Some((ProfileState::Failed, file.message.clone()));
    }
    let mut found = Vec::new();
    for object in &file.objects {
        found.extend(verdict_of(object, loaded));
    }
    let worst = found
        .iter()
        .map(|(state, _)| *state)
        .max_by_key(|state| severity(*state))?;
    let messages: Vec<&str> = found
        .iter()
        .filter(|(state, _)| *state == worst)
        .map(|(_, message)| message.as_str())
        .collect();
    Some((worst, messages.join("; ")))
}

fn verdict_of(object: &PolicyState, loaded: &[LoadedProfile]) -> Vec<(ProfileState, String)> {
    let mut found = Vec::new();
    match object.enforced.as_str() {
        "refused" => found.push((ProfileState::Failed, format!("BPF: {}", object.message))),
        "pending" => found.push((ProfileState::Pending, "BPF: not loaded yet".to_owned())),
        _ => {}
    }
    let bpf = loaded.iter().find(|profile| profile.name == object.profile);
    if let Some(message) = bpf.and_then(|profile| without("BPF", &profile.unsupported)) {
        found.push((ProfileState::Degraded, message));
    }
    for held in &object.by_runtime {
        match held.state.as_str() {
            "refused" => found.push((
                ProfileState::Failed,
                format!("{}: {}", held.enforcer, held.message),
            )),
            "pending" => found.push((
                ProfileState::Pending,
                format!("{}: not loaded yet", held.enforcer),
            )),
            _ => found.extend(
                without(&held.enforcer, &held.unsupported).map(|message| (ProfileState::Degraded, message)),
            ),
        }
    }
    found
}

/// The rules that an enforcer of this node cannot hold.
fn without(enforcer: &str, unsupported: &[(String, String)]) -> Option<String> {
    let (rule, reason) = unsupported.first()?;
    let more = match unsupported.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    Some(format!("{enforcer}: without the rule {rule}: {reason}{more}"))
}

fn severity(state: ProfileState) -> u8 {
    match state {
        ProfileState::Recording => 0,
        ProfileState::Degraded => 1,
        ProfileState::Pending => 2,
        ProfileState::Failed => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::state::RuntimeState;

    fn file(enforced: &str, runtime: &str) -> PolicyFile {
        PolicyFile {
            file: "demo/p".to_owned(),
            state: "ok".to_owned(),
            objects: vec![PolicyState {
                profile: "p".to_owned(),
                enforced: enforced.to_owned(),
                message: "no room".to_owned(),
                by_runtime: vec![RuntimeState {
                    enforcer: "Seccomp".to_owned(),
                    state: runtime.to_owned(),
                    unsupported: vec![("r".to_owned(), "too old".to_owned())],
                    ..RuntimeState::default()
                }],
                ..PolicyState::default()
            }],
            ..PolicyFile::default()
        }
    }

    #[test]
    fn worst_part_decides() {
        let (state, message) = verdict(&file("refused", "pending"), &[]).unwrap();
        assert_eq!((state, message.as_str()), (ProfileState::Failed, "BPF: no room"));
        let (state, message) = verdict(&file("current", "loaded"), &[]).unwrap();
        assert_eq!(state, ProfileState::Degraded);
        assert_eq!(message, "Seccomp: without the rule r: too old");
        let (state, _) = verdict(&file("current", "pending"), &[]).unwrap();
        assert_eq!(state, ProfileState::Pending);
    }

    #[test]
    fn text_that_is_no_policy_has_failed() {
        let mut bad = file("current", "loaded");
        bad.state = "invalid".to_owned();
        bad.message = "1:1: what is this".to_owned();
        assert_eq!(
            verdict(&bad, &[]).unwrap(),
            (ProfileState::Failed, "1:1: what is this".to_owned())
        );
    }
}

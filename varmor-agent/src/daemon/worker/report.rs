//! What the worker says about itself: the reports in the state folder, and what the services show.

use std::sync::Arc;

use tracing::warn;
use varmor_common::policy::{self, Enforcers};

use super::Worker;
use crate::daemon::state::{Policies, PolicyFile, PolicyState, ProtectedContainer, RuntimeState, Status};
use crate::enforcer::Activity;
use crate::reconcile::Held;
use crate::source::cluster::Cluster;
use crate::source::{FileState, PolicyObject};

impl Worker {
    pub(super) fn report(&mut self) {
        let policies = self.policies_state();
        self.report_to_controller(&policies);
        let missing = self.missing(&policies);
        let tally = self.recorder.tally().clone();
        let is_new = self.policies_report.last() != Some(&policies);
        let published = is_new.then(|| Arc::new(policies.clone()));
        self.view.update(|snapshot| {
            snapshot.missing = missing;
            snapshot.tally = Arc::new(tally);
            if let Some(policies) = published {
                snapshot.policies = policies;
            }
        });
        if let Err(error) = self.policies_report.write(policies) {
            let path = self.policies_report.path().display().to_string();
            self.problem(
                "policies report",
                || warn!(path, %error, "report cannot be written"),
            );
        }
        let status = self.status();
        if self.status_report.last() != Some(&status) {
            let published = Arc::new(status.clone());
            self.view.update(|snapshot| snapshot.status = published);
        }
        self.left_out(&status.activity);
        if let Err(error) = self.status_report.write(status) {
            let path = self.status_report.path().display().to_string();
            self.problem(
                "status report",
                || warn!(path, %error, "report cannot be written"),
            );
        }
    }

    /// What stands between here and everything being applied, for people. A file that is no policy is not counted:
    /// else whoever can write one could take every agent out of service.
    fn missing(&self, policies: &Policies) -> Vec<String> {
        let mut missing = Vec::new();
        if self.policies.is_none() {
            missing.push("policies were not read yet".to_owned());
        }
        if let Some(problem) = self.source.cluster().and_then(Cluster::problem) {
            missing.push(format!("the API server is not reachable: {problem}"));
        }
        if self.listing.containers.is_none() {
            let reason = self.listing.problem.as_deref().unwrap_or("no answer yet");
            missing.push(format!("containers were not listed yet: {reason}"));
        }
        for object in policies.files.iter().flat_map(|file| &file.objects) {
            if matches!(object.enforced.as_str(), "refused" | "pending") {
                missing.push(format!(
                    "{} at BPF: {} {}",
                    object.policy, object.enforced, object.message
                ));
            }
            for held in object.by_runtime.iter().filter(|held| held.state != "loaded") {
                missing.push(format!(
                    "{} at {}: {} {}",
                    object.policy, held.enforcer, held.state, held.message
                ));
            }
        }
        if self.failures > 0 {
            missing.push(format!(
                "{} steps of the last reconciliation failed, see the log",
                self.failures
            ));
        }
        missing
    }

    /// Says how many events are in no log since the last time.
    fn left_out(&mut self, activity: &[Activity]) {
        for profile in activity {
            let now = (profile.limited, profile.lost);
            let before = self
                .left_out
                .insert(profile.profile.clone(), now)
                .unwrap_or_default();
            let (limited, lost) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
            if limited + lost > 0 {
                warn!(profile = %profile.profile, limited, lost, "events of this profile are in no log");
            }
        }
    }

    pub(super) fn policies_state(&self) -> Policies {
        let object = |object: &PolicyObject, file: FileState| {
            let profile = self.enforced(object);
            let refusal = self.reconciler.refusal(&object.profile.name);
            let enforced = match refusal {
                Some(_) => "refused",
                None if !object.profile.enforcers.contains(Enforcers::BPF) => "not for BPF",
                None if !self.reconciler.is_applied(&profile) => "pending",
                None if file == FileState::Ok => "current",
                None => "last-good",
            };
            PolicyState {
                policy: object.identity.clone(),
                profile: object.profile.name.clone(),
                rules: profile.rules.len(),
                enforced: enforced.to_owned(),
                message: refusal
                    .map(str::to_owned)
                    .or_else(|| self.observations.described(&object.profile.name))
                    .unwrap_or_default(),
                by_runtime: self
                    .stores
                    .held(&profile)
                    .map(|(enforcer, held)| by_runtime(enforcer, &object.profile.name, held))
                    .collect(),
            }
        };
        let files = self.source.catalog().files().map(|(name, status)| PolicyFile {
            file: name.to_owned(),
            state: status.state.as_str().to_owned(),
            message: status.message.clone(),
            diagnostics: status.diagnostics.iter().map(policy::render).collect(),
            objects: status
                .objects
                .iter()
                .map(|policy| object(policy, status.state))
                .collect(),
        });
        Policies {
            files: files.collect(),
        }
    }

    fn status(&self) -> Status {
        let activity = self.enforcer.activity().unwrap_or_default();
        let containers = self
            .reconciler
            .protected()
            .map(|(cgroup, known)| ProtectedContainer {
                container: known.container.id.clone(),
                name: known.container.display_name(),
                profile: known.profile.clone().unwrap_or_default(),
                cgroup: cgroup.0,
            });
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            policy_dir: self.options.policy_dir.clone().unwrap_or_default(),
            containerd_problem: self.listing.problem.clone().unwrap_or_default(),
            profiles: self.enforcer.profiles().unwrap_or_default(),
            containers: containers.collect(),
            activity,
            counters: self.enforcer.counters().unwrap_or_default(),
            lost_lines: self.recorder.lost().file,
            records: self.audit.report(),
            lost_by_output: self
                .recorder
                .lost_by_output()
                .map(|(name, lost)| (name.to_owned(), lost))
                .collect(),
        }
    }
}

fn by_runtime(enforcer: Enforcers, profile: &str, held: Held) -> RuntimeState {
    let (state, rules, message, unsupported) = match held {
        Held::Loaded(stored) => (
            "loaded",
            stored.rules,
            format!(
                "a container gets it only if its settings name {}",
                named(enforcer, profile)
            ),
            stored.unsupported,
        ),
        Held::Refused(message) => ("refused", 0, message, Vec::new()),
        Held::Pending => ("pending", 0, String::new(), Vec::new()),
    };
    RuntimeState {
        enforcer: enforcer.to_string(),
        state: state.to_owned(),
        rules,
        message,
        unsupported,
    }
}

/// How the settings of a container name a profile.
fn named(enforcer: Enforcers, profile: &str) -> String {
    if enforcer == Enforcers::SECCOMP {
        format!("the seccompProfile of type Localhost with localhostProfile `{profile}`")
    } else {
        format!("the profile `localhost/{profile}`")
    }
}

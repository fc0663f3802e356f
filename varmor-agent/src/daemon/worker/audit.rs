//! Records of `AppArmor` and seccomp: whose they are, and which rule speaks in them.

use std::collections::BTreeMap;

use tracing::{info, warn};
use varmor_common::analysis::Judge;
use varmor_common::audit::{AVC, Record, SECCOMP};
use varmor_common::policy::Enforcers;
use varmor_common::profile::{Origin, Profile};

use super::Worker;
use crate::daemon::state::Records;
use crate::enforcer::Resolution;
use crate::events::audit::{Losses, Observed, Reader, base_profile, event, operation};
use crate::reconcile::{Known, selects};
use crate::source::PolicyObject;

/// Policies whose tables are kept for questions; they take memory.
const MOST_JUDGES: usize = 16;

/// The reader, or why there is none, and what is remembered about its records.
pub(super) struct AuditTrail {
    reader: Result<Reader, String>,
    judges: BTreeMap<String, Option<Judge>>,
    said: Losses,
    gone: u64,
}

impl AuditTrail {
    pub(super) fn open() -> Self {
        let reader = Reader::open();
        match &reader {
            Ok(reader) => {
                info!(
                    source = reader.source.as_str(), drawback = %reader.drawback,
                    "violations of AppArmor and seccomp are read"
                );
            }
            Err(reason) => {
                warn!(%reason, "violations of AppArmor and seccomp cannot be read; they are in no log of this agent");
            }
        }
        Self {
            reader,
            judges: BTreeMap::new(),
            said: Losses::default(),
            gone: 0,
        }
    }

    /// `None` at once where nothing is read; the branch of the loop is off then.
    pub(super) async fn next(&mut self) -> Option<Observed> {
        match &mut self.reader {
            Ok(reader) => reader.records.recv().await,
            Err(_) => None,
        }
    }

    fn waiting(&mut self) -> Option<Observed> {
        match &mut self.reader {
            Ok(reader) => reader.records.try_recv().ok(),
            Err(_) => None,
        }
    }

    /// What is read, and why not if it is not.
    pub(super) fn report(&self) -> Records {
        let (source, problem) = match &self.reader {
            Ok(reader) => (reader.source.as_str(), ""),
            Err(reason) => ("", reason.as_str()),
        };
        Records {
            source: source.to_owned(),
            problem: problem.to_owned(),
            lost: self.losses(),
        }
    }

    pub(super) fn losses(&self) -> Losses {
        Losses {
            gone: self.gone,
            ..self.reader.as_ref().map(Reader::losses).unwrap_or_default()
        }
    }

    /// Rules may have changed.
    pub(super) fn forget_judges(&mut self) {
        self.judges.clear();
    }

    fn say_losses(&mut self) {
        let now = self.losses();
        if now != self.said {
            warn!(
                overruns = now.overruns,
                log_gaps = now.log_gaps,
                kernel = now.kernel,
                queue = now.queue,
                unreadable = now.unreadable,
                gone = now.gone,
                "records of AppArmor and seccomp were lost; totals since the start"
            );
            self.said = now;
        }
    }

    /// The rule that speaks in a record of `AppArmor`, where the record says enough to tell.
    fn rule(&mut self, profile: &Profile, record: &Record, executable: &str) -> Option<(String, Origin)> {
        let question = operation(record)?;
        if self.judges.len() >= MOST_JUDGES && !self.judges.contains_key(&profile.name) {
            self.judges.clear();
        }
        let judge = self.judges.entry(profile.name.clone()).or_insert_with(|| {
            let part = profile.part_for(Enforcers::APPARMOR)?;
            Judge::new(part, Vec::new()).ok()
        });
        let judge = judge.as_ref()?;
        let domain = judge.domain(Some(executable));
        let (rule, origin) = judge.decided_by(&question, domain)?;
        Some((rule.to_owned(), origin.clone()))
    }
}

impl Worker {
    /// Takes in what waits, and says what was lost.
    pub(super) fn take_records(&mut self) {
        while let Some(observed) = self.audit.waiting() {
            self.take_record(&observed);
        }
        self.audit.say_losses();
    }

    pub(super) fn take_record(&mut self, observed: &Observed) {
        let policies = self.policies.as_deref().unwrap_or_default();
        let mut cgroups = observed.cgroups.iter();
        let found = cgroups.find_map(|cgroup| Some((*cgroup, self.reconciler.known(*cgroup)?)));
        let known = found.map(|(_, known)| known);
        let Some((name, policy)) = attribute(&observed.record, policies, known) else {
            self.audit.gone += u64::from(may_be_ours(observed, policies));
            return;
        };
        let Some(mut event) = event(observed) else { return };
        if let Some((cgroup, _)) = found {
            event.cgroup = cgroup;
        }
        let of_policy = |policy: &PolicyObject| Origin {
            policy: policy.identity.clone(),
            field: String::new(),
        };
        let mut resolution = Resolution {
            profile: Some(name),
            rule: None,
            origin: policy.map(of_policy),
        };
        if let Some(policy) = policy.filter(|_| observed.record.kind == AVC)
            && let Some((rule, origin)) =
                self.audit
                    .rule(&policy.profile, &observed.record, &event.executable)
        {
            resolution.rule = Some(rule);
            resolution.origin = Some(origin);
        }
        let container = known.map(|known| &*known.container);
        let wall = observed.record.stamp.nanoseconds();
        self.recorder.record_audit(event, wall, resolution, container);
    }
}

/// Whether a record that cannot be ascribed may be about a container of these policies: its process is gone, and with
/// it what would tell.
fn may_be_ours(observed: &Observed, policies: &[PolicyObject]) -> bool {
    let filters = |policy: &PolicyObject| policy.profile.enforcers.contains(Enforcers::SECCOMP);
    observed.record.kind == SECCOMP && observed.cgroups.is_empty() && policies.iter().any(filters)
}

/// The profile behind a record and its policy. A record of seccomp names no profile: it is its container's, or that of
/// the `AppArmor` profile of the same name, under which the process ran as well.
fn attribute<'p>(
    record: &Record,
    policies: &'p [PolicyObject],
    known: Option<&Known>,
) -> Option<(String, Option<&'p PolicyObject>)> {
    let named = base_profile(record);
    let by_name = |enforcer: Enforcers| {
        policies.iter().find(|policy| {
            policy.profile.enforcers.contains(enforcer) && Some(&policy.profile.name) == named.as_ref()
        })
    };
    if record.kind == AVC {
        let policy = by_name(Enforcers::APPARMOR);
        return named.clone().map(|name| (name, policy));
    }
    let selected = known.and_then(|known| {
        policies.iter().find(|policy| {
            policy.profile.enforcers.contains(Enforcers::SECCOMP) && selects(policy, &known.container)
        })
    });
    let policy = selected.or_else(|| by_name(Enforcers::SECCOMP))?;
    Some((policy.profile.name.clone(), Some(policy)))
}

#[cfg(test)]
mod tests {
    use varmor_common::audit::parse;
    use varmor_common::policy;
    use varmor_common::profile::{self, NodeFacts};

    use super::*;
    use crate::enforcer::CgroupId;

    fn object(enforcer: &str) -> PolicyObject {
        let text = format!(
            "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {{name: web, namespace: demo}}\nspec:\n  \
             target: {{kind: Pod, name: web}}\n  policy: {{enforcer: {enforcer}, mode: EnhanceProtect, \
             enhanceProtect: {{attackProtectionRules: [{{rules: [disable-write-etc]}}]}}}}\n"
        );
        let loaded = policy::load("test.yaml", text.as_bytes());
        let document = &loaded.documents[0];
        let profile = profile::build(document, &NodeFacts::default()).profile.unwrap();
        PolicyObject::of(document, document.spec().unwrap().target.clone(), profile)
    }

    fn record(text: &str) -> Record {
        parse(format!("type={text}").as_bytes()).unwrap()
    }

    #[test]
    fn a_record_is_ascribed_by_the_name_in_it() {
        let policies = [object("AppArmorSeccomp")];
        let whose = |text: &str| {
            let found = attribute(&record(text), &policies, None);
            found.map(|(name, policy)| (name, policy.is_some()))
        };
        let web = "varmor-demo-web".to_owned();
        assert_eq!(
            whose("1400 audit(1.002:3): profile=\"varmor-demo-web//t1\""),
            Some((web.clone(), true))
        );
        assert_eq!(
            whose("1400 audit(1.002:3): profile=\"varmor-run-1\""),
            Some(("varmor-run-1".to_owned(), false))
        );
        assert_eq!(
            whose("1326 audit(1.002:3): subj=varmor-demo-web (enforce) pid=1"),
            Some((web, true))
        );
        assert_eq!(whose("1326 audit(1.002:3): subj=unconfined pid=1"), None);
    }

    #[test]
    fn a_record_of_a_process_that_is_gone_is_missed_only_where_a_policy_filters() {
        let missed = |text: &str, cgroups: &[u64], enforcer: &str| {
            let observed = Observed {
                record: record(text),
                cgroups: cgroups.iter().copied().map(CgroupId).collect(),
                executable: String::new(),
                mount_namespace: 0,
            };
            may_be_ours(&observed, &[object(enforcer)])
        };
        let filtered = "1326 audit(1.002:3): subj=unconfined pid=1";
        assert!(missed(filtered, &[], "BPFSeccomp"));
        assert!(!missed(filtered, &[7], "BPFSeccomp"), "another container's");
        assert!(!missed(filtered, &[], "BPF"));
        assert!(!missed("1400 audit(1.002:3): profile=\"x\"", &[], "Seccomp"));
    }

    #[test]
    fn the_rule_behind_a_denial_of_apparmor_is_named() {
        let mut trail = AuditTrail {
            reader: Err("in a test".to_owned()),
            judges: BTreeMap::new(),
            said: Losses::default(),
            gone: 0,
        };
        let profile = object("AppArmor").profile;
        let mut rule = |name: &str| {
            let text = format!("1400 audit(1.002:3): operation=\"open\" name=\"{name}\" denied_mask=\"wc\"");
            let found = trail.rule(&profile, &record(&text), "/bin/sh");
            found.map(|(rule, origin)| (rule, origin.policy))
        };
        assert_eq!(
            rule("/etc/passwd"),
            Some(("disable-write-etc".to_owned(), "VarmorPolicy demo/web".to_owned()))
        );
        assert_eq!(rule("/srv/x"), None);
        assert_eq!(trail.report().problem, "in a test");
    }
}

//! What the policies of a file decide about an operation, by the tables that the enforcers get.

use std::sync::OnceLock;

use serde::Serialize;
use thiserror::Error;

use super::Operation;
use super::operation::{AWAY, ENTRY};
use crate::abi::{MOUNT_UMOUNT, Point, VERDICT_AUDIT, VERDICT_DENY};
use crate::compile::bpf::{Artefact, CompileError, compile};
use crate::compile::seccomp::{Action, Compiled, Origin as SyscallOrigin};
use crate::matcher::{self, MountCall, MountSource, PathView, Walk};
use crate::policy::Enforcers;
use crate::policy::vocabulary::TYPELESS_CALLS;
use crate::profile::{DEFAULT_RULE, Defaults, Origin, Profile, ProfileMode, Rule, Verdict};

/// Any key will do: decisions do not depend on it.
const KEY: u64 = 1;
/// Flags of mount(2).
const REMOUNT: u32 = 0x20;
const BIND: u32 = 0x1000;
const MOVE: u32 = 0x2000;

/// Profiles ready to be asked.
pub struct Judge {
    profile: Profile,
    artefact: Artefact,
    syscalls: Vec<Compiled>,
    /// Tables of each rule alone, in the order of the profile; none for one that does not compile alone.
    alone: OnceLock<Vec<Option<Artefact>>>,
}

/// Why a profile cannot be asked.
#[derive(Debug, Error)]
pub enum JudgeError {
    #[error("the profile does not compile")]
    Compile(#[from] CompileError),
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Allowed,
    /// Allowed, and logged.
    Audited,
    Denied,
}

/// A rule that speaks about the operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    pub rule: String,
    pub policy: String,
    pub field: String,
    pub wants: &'static str,
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    pub operation: String,
    pub outcome: Outcome,
    /// What decided; none where no rule speaks and everything is allowed that no rule refuses.
    pub decided_by: Option<Cause>,
    /// Rules that speak about the operation as well, and did not decide.
    pub others: Vec<Cause>,
    /// What would change the decision.
    pub change: String,
}

impl Judge {
    /// `syscalls` are the filters of the same policies; a policy that does not use Seccomp brings none.
    ///
    /// A task is under all enforcers of its policies at once, so the rules of each are asked together, by the one
    /// engine: what any enforcer refuses is refused.
    pub fn new(mut profile: Profile, syscalls: Vec<Compiled>) -> Result<Self, JudgeError> {
        profile.enforcers = Enforcers::BPF;
        let of_groups = profile.targets.iter_mut().flat_map(|group| &mut group.rules);
        for rule in profile.rules.iter_mut().chain(of_groups) {
            rule.enforcers = Enforcers::BPF;
        }
        let artefact = compile(&profile, KEY)?;
        Ok(Self {
            profile,
            artefact,
            syscalls,
            alone: OnceLock::new(),
        })
    }

    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    #[must_use]
    pub fn artefact(&self) -> &Artefact {
        &self.artefact
    }

    pub(super) fn syscalls(&self) -> &[Compiled] {
        &self.syscalls
    }

    /// Made at the first question: a batch of questions would make them again and again.
    fn alone(&self) -> &[Option<Artefact>] {
        self.alone
            .get_or_init(|| every_rule(&self.profile).map(alone).collect())
    }

    /// The target groups of a task that executes this file.
    #[must_use]
    pub fn domain(&self, executable: Option<&str>) -> u32 {
        executable.map_or(0, |path| {
            let bits = Walk::new(&self.artefact, KEY).targets(&PathView::from_path(path.as_bytes()));
            u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX)
        })
    }

    /// The decision alone.
    #[must_use]
    pub fn outcome(&self, operation: &Operation, domain: u32) -> Outcome {
        if let Operation::Syscall { name, arguments } = operation {
            return self.syscall(name, arguments).0;
        }
        let (point, _) = ask(self.artefact.of_domain(domain), operation);
        softened(outcome(point), self.profile.mode)
    }

    /// What decided, without asking what else speaks: for many questions, because no rule is compiled alone for it.
    #[must_use]
    pub fn decided_by(&self, operation: &Operation, domain: u32) -> Option<(&str, &Origin)> {
        let (point, requested) = ask(self.artefact.of_domain(domain), operation);
        let speaks = point.verdict & (VERDICT_DENY | VERDICT_AUDIT) != 0;
        speaks
            .then(|| {
                self.artefact
                    .decided_by(&self.profile, domain, point.site, requested)
            })
            .flatten()
    }

    /// The decision, who made it, and what else speaks.
    #[must_use]
    pub fn explain(&self, operation: &Operation, domain: u32) -> Decision {
        if let Operation::Syscall { name, arguments } = operation {
            return self.explain_syscall(operation, name, arguments);
        }
        let tables = self.artefact.of_domain(domain);
        let (point, requested) = ask(tables, operation);
        let outcome = softened(outcome(point), self.profile.mode);
        let decided = (point.verdict & (VERDICT_DENY | VERDICT_AUDIT) != 0)
            .then(|| {
                self.artefact
                    .decided_by(&self.profile, domain, point.site, requested)
            })
            .flatten();
        let holding: Vec<&Rule> = self.artefact.rules_of(&self.profile, domain).collect();
        let speaking: Vec<&Rule> = every_rule(&self.profile)
            .zip(self.alone())
            .filter(|(rule, tables)| {
                holding.iter().any(|held| std::ptr::eq(*held, *rule))
                    && tables.as_ref().is_some_and(|tables| speaks(tables, operation))
            })
            .map(|(rule, _)| rule)
            .collect();
        let wanted = if point.verdict & VERDICT_DENY != 0 {
            Verdict::Deny
        } else {
            Verdict::Audit
        };
        let decided_by = match decided {
            Some((rule, origin)) => Some(Cause {
                rule: rule.to_owned(),
                policy: origin.policy.clone(),
                field: origin.field.clone(),
                wants: wants(wanted),
            }),
            // An allow-list allows by a rule.
            None => speaking
                .iter()
                .find(|rule| rule.verdict == Verdict::Allow)
                .map(|rule| cause(rule)),
        };
        let others = speaking
            .iter()
            .map(|rule| cause(rule))
            .filter(|other| Some(other) != decided_by.as_ref())
            .collect::<Vec<_>>();
        let change = change(outcome, decided_by.as_ref(), &others, operation);
        Decision {
            operation: operation.to_string(),
            outcome,
            decided_by,
            others,
            change,
        }
    }

    fn explain_syscall(&self, operation: &Operation, name: &str, arguments: &[u64; 6]) -> Decision {
        let (outcome, decided_by) = self.syscall(name, arguments);
        let change = change(outcome, decided_by.as_ref(), &[], operation);
        Decision {
            operation: operation.to_string(),
            outcome,
            decided_by,
            others: Vec::new(),
            change,
        }
    }

    /// Every filter is asked; the kernel takes the strictest answer.
    fn syscall(&self, name: &str, arguments: &[u64; 6]) -> (Outcome, Option<Cause>) {
        let mut strictest = (Outcome::Allowed, None);
        for filter in &self.syscalls {
            let Some(profile) = &filter.profile else { continue };
            let rule = filter.origins.iter().find(|origin| {
                origin.name == name
                    && origin.args.iter().all(|condition| {
                        arguments
                            .get(condition.index as usize)
                            .is_some_and(|value| condition.holds(*value))
                    })
            });
            let action = rule.map_or(profile.default_action, |rule| rule.action);
            let outcome = of_action(action);
            if outcome > strictest.0 || strictest.1.is_none() {
                strictest = (outcome, syscall_cause(rule, action));
            }
        }
        strictest
    }
}

fn of_action(action: Action) -> Outcome {
    match action {
        Action::Allow => Outcome::Allowed,
        Action::Log => Outcome::Audited,
        Action::Errno | Action::Trap | Action::KillThread | Action::KillProcess => Outcome::Denied,
    }
}

fn syscall_cause(rule: Option<&SyscallOrigin>, action: Action) -> Option<Cause> {
    let wants = match of_action(action) {
        Outcome::Allowed => "allow",
        Outcome::Audited => "audit",
        Outcome::Denied => "deny",
    };
    match rule {
        Some(rule) => Some(Cause {
            rule: rule.rule.clone(),
            policy: String::new(),
            field: String::new(),
            wants,
        }),
        None if action == Action::Allow => None,
        None => Some(Cause {
            rule: DEFAULT_RULE.to_owned(),
            policy: String::new(),
            field: String::new(),
            wants,
        }),
    }
}

/// The verdict of one set of tables, and the permissions that were asked for.
fn ask(tables: &Artefact, operation: &Operation) -> (Point, u32) {
    let walk = Walk::new(tables, KEY);
    let any = u32::MAX;
    match operation {
        Operation::File { path, access, within } => {
            of_file(walk.files_within(&PathView::from_path(path.as_bytes()), *access, *within))
        }
        Operation::Rename { from, to } => {
            let (from, to) = (from.as_bytes(), to.as_bytes());
            let [old, new] = walk.rename(
                (&PathView::from_path(from), AWAY),
                (&PathView::from_path(to), ENTRY),
            );
            let (old, new) = (of_file(old), of_file(new));
            if old.0.verdict & VERDICT_DENY != 0 || new.0.verdict == 0 {
                old
            } else {
                new
            }
        }
        Operation::Connect(ip, port) => (walk.egress(*ip, *port), any),
        Operation::Bind(ip, port) => (walk.ingress(*ip, *port), any),
        Operation::Socket {
            domain,
            kind,
            protocol,
        } => (walk.socket(*domain, *kind, *protocol), any),
        Operation::Capability(number) => (walk.capability(*number), any),
        Operation::Ptrace { access, outside } => (walk.ptrace(*access, *outside), *access),
        Operation::Mount {
            source,
            fstype,
            flags,
        } => {
            let path = PathView::from_path(source.as_bytes());
            // As the kernel's half does: unmounting has a path, mount(2) a string, which a remount does not use and
            // which tells nothing where it is no absolute path but should be one.
            let of_place = flags & (BIND | MOVE) != 0 && !source.starts_with('/');
            let call = MountCall {
                source: if *flags & MOUNT_UMOUNT != 0 {
                    MountSource::Path(&path)
                } else if flags & REMOUNT != 0 || of_place {
                    MountSource::Unknown
                } else {
                    MountSource::Text(source.as_bytes())
                },
                fstype: fstype
                    .as_ref()
                    .filter(|_| flags & TYPELESS_CALLS == 0)
                    .map(String::as_bytes),
                flags: *flags,
            };
            (walk.mount(&call), any)
        }
        Operation::UserNamespace => {
            let descriptor = &tables.descriptor;
            let point = Point {
                verdict: descriptor.user_namespace,
                site: descriptor.user_namespace_site,
            };
            (point, any)
        }
        Operation::Syscall { .. } => (Point::default(), any),
    }
}

/// The verdict as a point, and the permissions that it is about.
const fn of_file(verdict: matcher::Verdict) -> (Point, u32) {
    let mut said = 0;
    if verdict.denied != 0 {
        said |= VERDICT_DENY;
    }
    if verdict.audited != 0 {
        said |= VERDICT_AUDIT;
    }
    let point = Point {
        verdict: said,
        site: verdict.site,
    };
    let concerned = if verdict.denied == 0 {
        verdict.audited
    } else {
        verdict.denied
    };
    (point, concerned)
}

const fn outcome(point: Point) -> Outcome {
    if point.verdict & VERDICT_DENY != 0 {
        Outcome::Denied
    } else if point.verdict & VERDICT_AUDIT != 0 {
        Outcome::Audited
    } else {
        Outcome::Allowed
    }
}

/// A complaining profile logs what it would refuse.
fn softened(outcome: Outcome, mode: ProfileMode) -> Outcome {
    if mode == ProfileMode::Complain && outcome == Outcome::Denied {
        Outcome::Audited
    } else {
        outcome
    }
}

/// The rules for every task, then those for executables.
fn every_rule(profile: &Profile) -> impl Iterator<Item = &Rule> {
    profile
        .rules
        .iter()
        .chain(profile.targets.iter().flat_map(|group| &group.rules))
}

/// The tables of this rule alone, which then refuses what it is about.
fn alone(rule: &Rule) -> Option<Artefact> {
    let profile = Profile {
        rules: vec![Rule {
            verdict: Verdict::Deny,
            ..rule.clone()
        }],
        default: Defaults::default(),
        ..Profile::default()
    };
    compile(&profile, KEY).ok()
}

fn speaks(alone: &Artefact, operation: &Operation) -> bool {
    ask(alone, operation).0.verdict & VERDICT_DENY != 0
}

const fn wants(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Deny => "deny",
        Verdict::Audit => "audit",
        Verdict::Allow => "allow",
    }
}

fn cause(rule: &Rule) -> Cause {
    Cause {
        rule: rule.id.clone(),
        policy: rule.origin.policy.clone(),
        field: rule.origin.field.clone(),
        wants: wants(rule.verdict),
    }
}

fn change(outcome: Outcome, decided_by: Option<&Cause>, others: &[Cause], operation: &Operation) -> String {
    let denying: Vec<&str> = decided_by
        .into_iter()
        .chain(others)
        .filter(|cause| cause.wants == "deny" && cause.rule != DEFAULT_RULE)
        .map(|cause| cause.rule.as_str())
        .collect();
    match (outcome, decided_by) {
        (Outcome::Denied, Some(cause)) if cause.rule == DEFAULT_RULE => {
            format!("a rule that allows `{operation}` would allow it: no rule of the allow-list does")
        }
        (Outcome::Denied, _) => {
            let mut unique = denying;
            unique.dedup();
            format!("it would be allowed without {}", join(&unique))
        }
        (Outcome::Audited | Outcome::Allowed, _) => {
            format!("a rule with the qualifier `deny` that matches `{operation}` would refuse it")
        }
    }
}

/// `a`, `b` and `c`
fn join(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match &quoted[..] {
        [] => "its rule".to_owned(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

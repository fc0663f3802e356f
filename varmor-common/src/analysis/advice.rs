//! A policy that fits a workload, from what is known about it: every built-in rule that nothing speaks against.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Deserialize;
use thiserror::Error;

use super::catalogue;
use crate::matcher::Pattern;
use crate::matcher::reference;
use crate::policy::suggest::nearest;
use crate::policy::vocabulary as words;
use crate::policy::{DynamicResult, Enforcers, Observations};
use crate::profile::{Access, CapabilitySet};
use crate::rules::{self, Bpf, BuiltinRule, Category, Contribution, RuleList};

/// What is known about a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Answers {
    /// `AppArmor`, `BPF`, `Seccomp`.
    pub enforcers: Vec<String>,
    /// Words of [`FEATURES`].
    pub features: Vec<String>,
    /// Capabilities that the workload needs.
    pub capabilities: Vec<String>,
}

/// Why there is no advice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AdviceError {
    #[error("`{word}` is no {what}; {help}")]
    Word {
        word: String,
        what: &'static str,
        help: String,
    },
}

/// What a workload may have or need, with an explanation.
pub const FEATURES: [(&str, &str); 9] = [
    ("privileged-container", "it runs as a privileged container"),
    ("mount-sth", "it mounts"),
    ("umount-sth", "it unmounts"),
    ("share-containers-pid-ns", "its containers share a PID namespace"),
    ("share-host-pid-ns", "it uses the PID namespace of the host"),
    ("dind", "it runs containers itself"),
    ("require-sa", "it uses the token of its service account"),
    ("bind-privileged-socket-port", "it listens on a port below 1024"),
    ("load-bpf", "it loads BPF programs"),
];

/// Rules and the features that need what they refuse.
const CONFLICTS: &[(&str, &[&str])] = &[
    ("disallow-mount-procfs", &["dind"]),
    ("disallow-mount-cgroupfs", &["dind"]),
    ("disallow-mount-securityfs", &["dind"]),
    ("disallow-mount-disk-device", &["mount-sth"]),
    ("disallow-mount", &["mount-sth", "dind"]),
    ("disallow-umount", &["umount-sth", "dind"]),
    ("disallow-load-bpf-prog", &["load-bpf", "dind"]),
    (
        "disallow-access-procfs-root",
        &["share-containers-pid-ns", "share-host-pid-ns", "dind"],
    ),
    ("disallow-access-kallsyms", &["load-bpf"]),
    (
        "disallow-abuse-user-ns",
        &["dind", "mount-sth", "umount-sth", "load-bpf"],
    ),
    ("disallow-create-user-ns", &["dind"]),
    ("disallow-load-all-bpf-prog", &["load-bpf", "dind"]),
    ("disallow-load-bpf-via-setsockopt", &["load-bpf"]),
    ("mitigate-sa-leak", &["require-sa"]),
    ("mitigate-disk-device-number-leak", &["dind"]),
    ("mitigate-overlayfs-leak", &["dind", "mount-sth"]),
    ("cgroups-lxcfs-escape-mitigation", &["dind"]),
    ("runc-override-mitigation", &["dind"]),
    ("block-access-to-container-runtime", &["dind"]),
];

/// Rules that refuse what programs do every day: without a recording nobody can tell.
const NEEDS_MODEL: [Category; 1] = [Category::DisablingSensitiveOperations];
/// Rules about whole families of sockets, and about services that a workload may well use.
const LEFT_TO_PEOPLE: [&str; 12] = [
    "disable-network",
    "disable-inet",
    "disable-ipv4",
    "disable-inet6",
    "disable-ipv6",
    "disable-unix-domain-socket",
    "disable-icmp",
    "disable-tcp",
    "disable-udp",
    "block-access-to-kube-apiserver",
    "ingress-nightmare-mitigation",
    "disable-write-skills",
];

/// Advice as a policy, with the reasons as comments.
#[derive(Clone, Debug)]
pub struct Advice {
    pub enforcers: Enforcers,
    pub privileged: bool,
    /// Rules by list.
    pub rules: Vec<&'static BuiltinRule>,
    /// Rules that were left out, and why.
    pub left_out: Vec<(&'static str, String)>,
}

/// The rules that fit. `observed` is a recording of the workload.
pub fn advise(answers: &Answers, observed: Option<&DynamicResult>) -> Result<Advice, AdviceError> {
    let enforcers = enforcers(&answers.enforcers)?;
    let features = features(&answers.features)?;
    let mut needed = capabilities(&answers.capabilities)?;
    let seen = observed.map_or_else(Seen::default, Seen::new);
    needed |= seen.capabilities;
    let mut advice = Advice {
        enforcers,
        privileged: features.contains("privileged-container"),
        rules: Vec::new(),
        left_out: Vec::new(),
    };
    for rule in rules::catalogue().filter(|rule| rule.category != Category::DisablingCapabilities) {
        match against(rule, enforcers, &features, needed, observed.map(|_| &seen)) {
            None => advice.rules.push(rule),
            Some(why) => advice.left_out.push((rule.id, why)),
        }
    }
    if enforcers.contains(Enforcers::BPF) || enforcers.contains(Enforcers::APPARMOR) {
        advice.capabilities(&features, needed);
    }
    Ok(advice)
}

impl Advice {
    /// The widest set that the workload can do without; for containers that may do everything, none.
    fn capabilities(&mut self, features: &BTreeSet<&str>, mut needed: u64) {
        if self.privileged || features.contains("dind") {
            let why = "the container is privileged: its capabilities are what it was made so for".to_owned();
            self.left_out.push(("disable-cap-privileged", why));
            return;
        }
        if features.contains("bind-privileged-socket-port") {
            needed |= words::capabilities("net_bind_service").map_or(0, |set| set.0);
        }
        if features.contains("load-bpf") {
            needed |= ["bpf", "perfmon", "sys_admin"]
                .iter()
                .filter_map(|name| words::capabilities(name))
                .fold(0, |all, set| all | set.0);
        }
        if features.contains("mount-sth") || features.contains("umount-sth") {
            needed |= words::capabilities("sys_admin").map_or(0, |set| set.0);
        }
        let sets = [
            "disable-cap-all",
            "disable-cap-all-except-net-bind-service",
            "disable-cap-privileged",
        ];
        let refused = |rule: &BuiltinRule| refused_capabilities(rule);
        let whole = sets
            .iter()
            .filter_map(|id| rules::find(id))
            .find(|rule| refused(rule) & needed == 0);
        if let Some(rule) = whole {
            self.rules.push(rule);
        }
        // Above a set, single rules are worth something only where the set is the smallest.
        if whole.is_none_or(|rule| rule.id == "disable-cap-privileged") {
            let covered = whole.map_or(0, refused);
            let single = rules::catalogue().filter(|rule| {
                let bits = refused(rule);
                rule.category == Category::DisablingCapabilities
                    && bits.is_power_of_two()
                    && bits & (needed | covered) == 0
            });
            self.rules.extend(single);
        }
    }

    /// The policy as text: the reasons stand as comments, and what was left out at the end.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut text = String::from(
            "# Written by `varmor advise`. Try it with `allowViolations: true` first, and read violations.log.\n\
             apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata:\n  name: advised # the name of your choice\n\
             \x20 namespace: default\nspec:\n  target:\n    kind: Deployment\n    name: workload # the workload to protect\n  \
             policy:\n",
        );
        let _ = writeln!(text, "    enforcer: {}", self.enforcers);
        text.push_str("    mode: EnhanceProtect\n    enhanceProtect:\n");
        if self.privileged {
            text.push_str("      # The container is privileged: the rules stand on AlwaysAllow, not on RuntimeDefault.\n");
        }
        let _ = writeln!(text, "      privileged: {}", self.privileged);
        text.push_str("      auditViolations: true\n      allowViolations: false\n");
        for list in [
            RuleList::Hardening,
            RuleList::AttackProtection,
            RuleList::VulnerabilityMitigation,
        ] {
            let rules: Vec<_> = self
                .rules
                .iter()
                .filter(|rule| rule.category.list() == list)
                .collect();
            if rules.is_empty() {
                continue;
            }
            let indent = if list == RuleList::AttackProtection {
                let _ = writeln!(text, "      {list}:\n        - rules:");
                "            "
            } else {
                let _ = writeln!(text, "      {list}:");
                "        "
            };
            for rule in rules {
                let _ = writeln!(text, "{indent}- {} # {}", rule.id, rule.description);
            }
        }
        if !self.left_out.is_empty() {
            text.push_str("# Left out:\n");
            for (id, why) in &self.left_out {
                let _ = writeln!(text, "#   {id}: {why}");
            }
        }
        text
    }
}

/// What a recording shows.
#[derive(Default)]
struct Seen {
    capabilities: u64,
    /// Paths with the permissions that were used.
    paths: Vec<(String, u32)>,
    syscalls: BTreeSet<String>,
    domains: BTreeSet<u32>,
}

impl Seen {
    fn new(result: &DynamicResult) -> Self {
        let mut seen = Self::default();
        for observations in [&result.app_armor, &result.bpf].into_iter().flatten() {
            seen.add(observations);
        }
        seen.syscalls.extend(
            result
                .seccomp
                .iter()
                .flat_map(|seccomp| seccomp.syscalls.iter().cloned()),
        );
        seen
    }

    fn add(&mut self, observations: &Observations) {
        self.capabilities |= observations
            .capabilities
            .iter()
            .filter_map(|name| words::capabilities(name))
            .fold(0, |all, set| all | set.0);
        let executed = observations
            .executions
            .iter()
            .map(|path| (path.clone(), Access::EXEC.0));
        self.paths.extend(executed);
        for file in &observations.files {
            let access = file
                .permissions
                .iter()
                .filter_map(|word| words::permission(word))
                .fold(0, |all, one| all | one);
            let path = file.old_path.as_ref().unwrap_or(&file.path);
            self.paths.push((path.clone(), access));
        }
        let networks = observations.networks.iter().chain(&observations.network);
        self.domains.extend(
            networks
                .flat_map(|network| &network.sockets)
                .filter_map(|socket| words::domain(&socket.domain)),
        );
    }

    /// Something that the rule refuses and the workload did.
    fn uses(&self, rule: &BuiltinRule) -> Option<String> {
        if let Bpf::Contributes(parts) = rule.bpf {
            for part in parts {
                match part {
                    Contribution::Path(pattern, access) => {
                        let used = self.paths.iter().find(|(path, used)| {
                            used & access.0 != 0
                                && Pattern::parse(pattern).is_ok()
                                && reference::matches(pattern, path.as_bytes())
                        });
                        if let Some((path, _)) = used {
                            return Some(format!("the workload used {path}"));
                        }
                    }
                    Contribution::Socket(socket) => {
                        if let Some(domain) =
                            socket.domains.iter().find(|domain| self.domains.contains(domain))
                        {
                            return Some(format!("the workload made sockets of domain {domain}"));
                        }
                    }
                    _ => {}
                }
            }
        }
        // Conditions on arguments cannot be judged by names, so a name that was used is enough to leave a rule out.
        rules::syscalls::find(rule.id)?
            .parts
            .iter()
            .filter(|part| !COMMON.iter().any(|name| part.names.contains(name)))
            .flat_map(|part| part.names)
            .find(|name| self.syscalls.contains(**name))
            .map(|name| format!("the workload called {name}"))
    }
}

/// System calls that every program makes; rules refuse rare arguments of them.
const COMMON: [&str; 10] = [
    "clone",
    "clone3",
    "open",
    "openat",
    "creat",
    "ioctl",
    "socket",
    "setsockopt",
    "unshare",
    "io_uring_setup",
];

/// Why a rule does not fit.
fn against(
    rule: &BuiltinRule,
    enforcers: Enforcers,
    features: &BTreeSet<&str>,
    needed: u64,
    seen: Option<&Seen>,
) -> Option<String> {
    let able = catalogue::enforcers(rule);
    if able
        .names()
        .all(|name| name.parse().is_ok_and(|one: Enforcers| !enforcers.contains(one)))
    {
        let names: Vec<&str> = able.names().collect();
        return Some(format!(
            "none of the enforcers can hold it; {} can",
            names.join(" and ")
        ));
    }
    if LEFT_TO_PEOPLE.contains(&rule.id) {
        return Some("only you can tell whether the workload needs what it refuses".to_owned());
    }
    let conflict = CONFLICTS
        .iter()
        .find(|(id, _)| *id == rule.id)
        .and_then(|(_, conflicting)| conflicting.iter().find(|feature| features.contains(*feature)));
    if let Some(feature) = conflict {
        let why = FEATURES
            .iter()
            .find(|(name, _)| name == feature)
            .map_or("", |(_, why)| *why);
        return Some(format!("the workload has `{feature}`: {why}"));
    }
    if refused_capabilities(rule) & needed != 0 {
        return Some("it refuses a capability that the workload needs".to_owned());
    }
    match seen {
        None if NEEDS_MODEL.contains(&rule.category) => Some(
            "whether the workload needs what it refuses is not known; give a recording with --model"
                .to_owned(),
        ),
        None => None,
        Some(seen) => seen.uses(rule),
    }
}

fn refused_capabilities(rule: &BuiltinRule) -> u64 {
    let Bpf::Contributes(parts) = rule.bpf else {
        return 0;
    };
    parts
        .iter()
        .map(|part| match part {
            Contribution::Capabilities(CapabilitySet(bits)) => *bits,
            _ => 0,
        })
        .fold(0, |all, bits| all | bits)
}

fn enforcers(names: &[String]) -> Result<Enforcers, AdviceError> {
    let mut all = Enforcers::NONE;
    for name in names {
        all = all.union(match name.to_ascii_lowercase().as_str() {
            "bpf" => Enforcers::BPF,
            "apparmor" => Enforcers::APPARMOR,
            "seccomp" => Enforcers::SECCOMP,
            _ => return Err(word(name, "enforcer", ["AppArmor", "BPF", "Seccomp"])),
        });
    }
    Ok(if all.is_empty() { Enforcers::BPF } else { all })
}

fn features(names: &[String]) -> Result<BTreeSet<&'static str>, AdviceError> {
    names
        .iter()
        .map(|name| {
            let lower = name.to_ascii_lowercase();
            FEATURES
                .iter()
                .map(|(known, _)| *known)
                .find(|known| *known == lower)
                .ok_or_else(|| word(name, "feature", FEATURES.map(|(known, _)| known)))
        })
        .collect()
}

fn capabilities(names: &[String]) -> Result<u64, AdviceError> {
    names.iter().try_fold(0, |all, name| {
        words::capabilities(name)
            .map(|set| all | set.0)
            .ok_or_else(|| word(name, "capability", rules::CAPABILITY_NAMES))
    })
}

fn word<const N: usize>(word: &str, what: &'static str, known: [&'static str; N]) -> AdviceError {
    let help = nearest(word, known).map_or_else(
        || format!("use {}", known.join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    AdviceError::Word {
        word: word.to_owned(),
        what,
        help,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{ObservedFile, ObservedSyscalls, load};

    fn answers(enforcers: &[&str], features: &[&str], capabilities: &[&str]) -> Answers {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Answers {
            enforcers: own(enforcers),
            features: own(features),
            capabilities: own(capabilities),
        }
    }

    fn ids(advice: &Advice) -> Vec<&str> {
        advice.rules.iter().map(|rule| rule.id).collect()
    }

    #[test]
    fn every_advice_is_a_valid_policy() {
        for enforcers in [&["bpf"][..], &["seccomp"], &["AppArmor", "BPF", "Seccomp"]] {
            for (feature, _) in FEATURES {
                let advice = advise(&answers(enforcers, &[feature], &[]), None).expect("known words");
                let text = advice.to_yaml();
                let loaded = load("advice.yaml", text.as_bytes());
                assert_eq!(loaded.diagnostics, [], "{text}");
                assert!(!advice.rules.is_empty());
                assert_eq!(advice.privileged, feature == "privileged-container");
            }
        }
    }

    #[test]
    fn rules_that_the_workload_needs_to_break_are_left_out() {
        let plain = advise(&answers(&["bpf"], &[], &[]), None).expect("known");
        assert!(ids(&plain).contains(&"disable-cap-all") && ids(&plain).contains(&"mitigate-sa-leak"));
        assert!(
            !ids(&plain).contains(&"disable-shell"),
            "nobody knows without a recording"
        );
        let token = advise(
            &answers(&["bpf"], &["require-sa", "bind-privileged-socket-port"], &[]),
            None,
        )
        .expect("known");
        assert!(!ids(&token).contains(&"mitigate-sa-leak"));
        assert!(ids(&token).contains(&"disable-cap-all-except-net-bind-service"));
        let raw = advise(&answers(&["bpf"], &[], &["net_raw"]), None).expect("known");
        assert!(ids(&raw).contains(&"disable-cap-privileged") && ids(&raw).contains(&"disable-cap-chown"));
        assert!(!ids(&raw).contains(&"disable-cap-net-raw"));
        let nested = advise(
            &answers(&["bpf", "seccomp"], &["dind", "privileged-container"], &[]),
            None,
        )
        .expect("known");
        assert!(
            !ids(&nested)
                .iter()
                .any(|id| id.starts_with("disable-cap") || *id == "disallow-mount")
        );
    }

    #[test]
    fn a_recording_decides_what_is_harmless() {
        let observed = DynamicResult {
            bpf: Some(Observations {
                executions: vec!["/bin/bash".into()],
                files: vec![ObservedFile {
                    path: "/etc/passwd".into(),
                    permissions: vec!["r".into()],
                    ..ObservedFile::default()
                }],
                capabilities: vec!["NET_BIND_SERVICE".into()],
                ..Observations::default()
            }),
            seccomp: Some(ObservedSyscalls {
                syscalls: vec!["splice".into(), "clone".into()],
            }),
            ..DynamicResult::default()
        };
        let advice = advise(&answers(&["bpf", "seccomp"], &[], &[]), Some(&observed)).expect("known");
        let ids = ids(&advice);
        for used in [
            "disable-shell",
            "disable-access-passwd",
            "dirty-pipe-mitigation",
            "disable-cap-all",
        ] {
            assert!(!ids.contains(&used), "{used}");
        }
        for fitting in [
            "disable-curl",
            "disable-access-shadow",
            "disable-write-etc",
            "disallow-create-user-ns",
            "disable-cap-all-except-net-bind-service",
            "disable-chmod-s-bit",
        ] {
            assert!(ids.contains(&fitting), "{fitting}");
        }
    }

    #[test]
    fn unknown_words_get_the_nearest_known_one() {
        let error = advise(&answers(&["bpf"], &["requre-sa"], &[]), None).expect_err("misspelt");
        assert!(error.to_string().contains("`require-sa`"), "{error}");
        assert!(advise(&answers(&["bfp"], &[], &[]), None).is_err());
        assert!(
            advise(&answers(&[], &[], &["net_rw"]), None)
                .expect_err("misspelt")
                .to_string()
                .contains("net_raw")
        );
    }
}

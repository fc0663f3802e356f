//! One rule -> lines of `AppArmor`'s language.

use super::base::own_label;
use super::{CompileError, Features, glob, mounts};
use crate::abi::{
    PERM_APPEND, PERM_EXEC, PERM_READ, PERM_WRITE, PTRACE_READ, PTRACE_READBY, PTRACE_TRACE, PTRACE_TRACEBY,
};
use crate::matcher::Pattern;
use crate::policy::vocabulary::{domain_word, ipproto, sock};
use crate::profile::{Access, CapabilitySet, Object, PtraceScope, Rule, SocketRule, Verdict};
use crate::rules::{ALL_CAPABILITIES, CAPABILITY_NAMES};

/// What becomes of a rule.
pub(super) enum Line {
    Held(Vec<String>),
    /// Why the rule cannot be held.
    Missing(String),
}

pub(super) fn lines(rule: &Rule, name: &str, features: Features) -> Result<Line, CompileError> {
    let prefix = match rule.verdict {
        // Without `audit` a refusal by a rule leaves no trace.
        Verdict::Deny => "audit deny ",
        Verdict::Audit => "audit ",
        Verdict::Allow => "",
    };
    let held = match &rule.object {
        Object::Path { pattern, access } => path(rule, prefix, pattern, *access)?,
        Object::Capability(set) => capabilities(prefix, *set),
        Object::Socket(sockets) => return Ok(socket(prefix, sockets)),
        Object::Ptrace(ptrace) => {
            let words = ptrace_words(ptrace.access.0);
            match (ptrace.scope, rule.verdict) {
                // The base does not allow it to begin with.
                (PtraceScope::Outside, Verdict::Deny) => Vec::new(),
                (PtraceScope::All | PtraceScope::Outside, _) => vec![format!("{prefix}ptrace ({words}),")],
                (PtraceScope::Inside, _) => {
                    vec![format!("{prefix}ptrace ({words}) peer={},", own_label(name))]
                }
            }
        }
        Object::Mount(mount) => match mounts::lines(prefix, mount) {
            Ok(Some(lines)) => lines,
            Ok(None) => {
                return Ok(Line::Missing(
                    "AppArmor cannot tell these mounts from others; use the BPF enforcer".to_owned(),
                ));
            }
            Err(source) => return Err(pattern_error(rule, &mount.source, source)),
        },
        Object::UserNamespace if features.user_namespaces => vec![format!("{prefix}userns create,")],
        Object::UserNamespace => {
            return Ok(Line::Missing(
                "AppArmor knows user namespaces from Linux 6.7 on, with apparmor_parser 4".to_owned(),
            ));
        }
        Object::Egress(_) | Object::PodEgress(_) | Object::Ingress(_) => {
            return Ok(Line::Missing(
                "AppArmor knows no addresses; use the BPF enforcer".to_owned(),
            ));
        }
        Object::Device(_) => {
            return Ok(Line::Missing(
                "AppArmor knows no device numbers; use the BPF enforcer".to_owned(),
            ));
        }
    };
    Ok(Line::Held(held))
}

fn pattern_error(rule: &Rule, pattern: &str, source: crate::matcher::PatternError) -> CompileError {
    CompileError::Pattern {
        rule: rule.id.clone(),
        field: rule.origin.field.clone(),
        pattern: pattern.to_owned(),
        source: Box::new(source),
    }
}

fn path(rule: &Rule, prefix: &str, text: &str, access: Access) -> Result<Vec<String>, CompileError> {
    let pattern = Pattern::parse(text).map_err(|source| pattern_error(rule, text, source))?;
    let letters = letters(access, rule.verdict);
    let mut lines: Vec<String> = glob::paths(&pattern)
        .into_iter()
        .map(|path| format!("{prefix}{path} {letters},"))
        .collect();
    let concerns_content = access.0 & !PERM_EXEC != 0;
    if rule.verdict == Verdict::Deny && concerns_content {
        let folders = glob::ancestors(&pattern);
        lines.extend(folders.iter().map(|folder| format!("{prefix}{folder} w,")));
    }
    Ok(lines)
}

/// Writing is also giving a file that name (`l`). What may not be run may not be mapped to run either (`m`): that is
/// how a loader runs a program.
fn letters(access: Access, verdict: Verdict) -> String {
    let has = |bit| access.0 & bit != 0;
    let mut letters = String::new();
    for (present, letter) in [
        (has(PERM_READ), "r"),
        (has(PERM_WRITE), "wl"),
        (has(PERM_APPEND) && !has(PERM_WRITE), "a"),
        (has(PERM_EXEC) && verdict == Verdict::Deny, "mx"),
        (has(PERM_EXEC) && verdict != Verdict::Deny, "ix"),
    ] {
        if present {
            letters.push_str(letter);
        }
    }
    letters
}

fn capabilities(prefix: &str, set: CapabilitySet) -> Vec<String> {
    if set == ALL_CAPABILITIES {
        return vec![format!("{prefix}capability,")];
    }
    let names = CAPABILITY_NAMES
        .iter()
        .enumerate()
        .filter(|(number, _)| set.0 & (1 << number) != 0);
    names
        .map(|(_, name)| format!("{prefix}capability {name},"))
        .collect()
}

fn socket(prefix: &str, rule: &SocketRule) -> Line {
    let mut types: Vec<&str> = Vec::new();
    for number in &rule.types {
        match socket_type(*number) {
            Some(word) => types.push(word),
            None => return Line::Missing(format!("AppArmor knows no socket type {number}")),
        }
    }
    for protocol in &rule.protocols {
        match protocol_type(*protocol) {
            Some(word) => types.push(word),
            None => return Line::Missing(format!("AppArmor knows no protocol {protocol}")),
        }
    }
    types.sort_unstable();
    types.dedup();
    let mut domains: Vec<&str> = Vec::new();
    for number in &rule.domains {
        match domain_word(*number).filter(|word| *word != "decnet") {
            Some(word) => domains.push(word),
            None => return Line::Missing(format!("AppArmor knows no address family {number}")),
        }
    }
    if types.is_empty() {
        types.push("");
    }
    if domains.is_empty() {
        domains.push("");
    }
    let mut lines = Vec::new();
    for domain in &domains {
        for kind in &types {
            let words: Vec<&str> = ["network", domain, kind]
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect();
            lines.push(format!("{prefix}{},", words.join(" ")));
        }
    }
    Line::Held(lines)
}

fn socket_type(number: u32) -> Option<&'static str> {
    let word = match number {
        sock::STREAM => "stream",
        sock::DGRAM => "dgram",
        sock::RAW => "raw",
        sock::RDM => "rdm",
        sock::SEQPACKET => "seqpacket",
        sock::PACKET => "packet",
        _ => return None,
    };
    Some(word)
}

/// `AppArmor` sees the type of a socket where others see its protocol.
fn protocol_type(number: u32) -> Option<&'static str> {
    let word = match number {
        ipproto::TCP | ipproto::MPTCP => "stream",
        ipproto::UDP | ipproto::UDPLITE => "dgram",
        ipproto::ICMP | ipproto::ICMPV6 => "raw",
        _ => return None,
    };
    Some(word)
}

pub(super) fn ptrace_words(access: u32) -> String {
    let words: Vec<&str> = [
        (PTRACE_TRACE, "trace"),
        (PTRACE_READ, "read"),
        (PTRACE_TRACEBY, "tracedby"),
        (PTRACE_READBY, "readby"),
    ]
    .into_iter()
    .filter(|(bit, _)| access & bit != 0)
    .map(|(_, word)| word)
    .collect();
    words.join(", ")
}

//! What a profile allows before its rules refuse.

use super::Features;
use super::object::ptrace_words;
use crate::abi::{PTRACE_READ, PTRACE_READBY, PTRACE_TRACE, PTRACE_TRACEBY};
use crate::profile::{AppArmorBase, Object, PtraceScope, Rule, Verdict};

/// Who may signal a container: the kernel's and the runtimes' own.
const RUNTIMES: &str = "{unconfined,runc,crun}";

/// The lines of the base of the profile `name`.
pub(super) fn lines(base: AppArmorBase, name: &str, rules: &[Rule], features: Features) -> Vec<String> {
    let own = own_label(name);
    let mut lines: Vec<String> = Vec::new();
    let runtime = [
        format!("signal (receive) peer=\"{RUNTIMES}\","),
        format!("signal (send, receive) peer={own},"),
    ];
    if base == AppArmorBase::AllowList {
        // The runtime must be able to end the container whatever its profile says.
        lines.extend(runtime);
        return lines;
    }
    for kind in [
        "file",
        "capability",
        "network",
        "mount",
        "remount",
        "umount",
        "pivot_root",
        "dbus",
        "unix",
    ] {
        lines.push(format!("{kind},"));
    }
    for (kind, present) in [
        ("userns", features.user_namespaces),
        ("io_uring", features.io_uring),
        ("mqueue", features.message_queues),
    ] {
        if present {
            lines.push(format!("{kind},"));
        }
    }
    if base == AppArmorBase::RuntimeDefault {
        lines.extend(runtime);
    } else {
        lines.push("signal,".to_owned());
    }
    // `AppArmor` cannot refuse "every label but these": what is refused towards others is not allowed to begin with.
    let refused = refused_outside(rules);
    let every = PTRACE_TRACE | PTRACE_READ | PTRACE_TRACEBY | PTRACE_READBY;
    if every & !refused != 0 {
        lines.push(format!("ptrace ({}),", ptrace_words(every & !refused)));
    }
    if refused != 0 {
        lines.push(format!("ptrace ({}) peer={own},", ptrace_words(refused)));
    }
    lines
}

/// The labels of the profile and its children, in quotes.
pub(super) fn own_label(name: &str) -> String {
    format!("\"{name}{{,//**}}\"")
}

fn refused_outside(rules: &[Rule]) -> u32 {
    rules
        .iter()
        .filter(|rule| rule.verdict == Verdict::Deny)
        .filter_map(|rule| match &rule.object {
            Object::Ptrace(ptrace) if ptrace.scope == PtraceScope::Outside => Some(ptrace.access.0),
            _ => None,
        })
        .fold(0, |all, one| all | one)
}

//! The mode RuntimeDefault: what container runtimes refuse to an ordinary container through AppArmor.

use super::Contribution;
use super::hardening::EVERY_MOUNT;
use crate::abi::{PTRACE_READ, PTRACE_TRACE};
use crate::profile::{Access, PtraceAccess, PtraceRule, PtraceScope};

/// The rule id of everything in this list.
pub const RUNTIME_DEFAULT_ID: &str = "runtime-default";

const EVERYTHING: Access = Access::READ_WRITE.with(Access::EXEC);
const WRITE_EXEC: Access = Access::WRITE.with(Access::EXEC);

/// What the mode contributes to the profile.
///
/// Names cannot be negated as a whole, so "all but `sys`" is spelt out letter by letter, as the AppArmor template
/// of the runtimes does; unlike there, the spelling here leaves no other name out.
pub const RUNTIME_DEFAULT: &[Contribution] = &[
    Contribution::Path("/proc/{sysrq-trigger,mem,kmem,kcore}", EVERYTHING),
    Contribution::Path("/proc/**/mem", Access::READ_WRITE),
    // The files that are directly in /proc.
    Contribution::Path("/proc/*", Access::WRITE),
    // Everything in the folders of /proc, but not in those of the processes and not in sys.
    Contribution::Path("/proc/{[!0-9s]*,s,s[!y]*,sy,sy[!s]*,sys?*}/**", Access::WRITE),
    // Everything in /proc/sys, but not in kernel.
    Contribution::Path(
        "/proc/sys/{[!k]*,k,k[!e]*,ke,ke[!r]*,ker,ker[!n]*}{,/**}",
        Access::WRITE,
    ),
    // Everything in /proc/sys/kernel, but not the limits of shared memory, which belong to the IPC namespace.
    Contribution::Path(
        "/proc/sys/kernel/{[!s]*,s,s[!h]*,sh,sh[!m]*}{,/**}",
        Access::WRITE,
    ),
    // Everything in /sys, but not in /sys/fs/cgroup.
    Contribution::Path("/sys/{[!f]*,f,f[!s]*,fs?*}/**", WRITE_EXEC),
    Contribution::Path("/sys/fs/{[!c]*,c,c[!g]*,cg,cg[!r]*}{,/**}", WRITE_EXEC),
    Contribution::Path("/sys/firmware/**", EVERYTHING),
    Contribution::Path("/sys/devices/virtual/powercap/**", EVERYTHING),
    Contribution::Path("/sys/kernel/security/**", EVERYTHING),
    EVERY_MOUNT,
    Contribution::Ptrace(PtraceRule {
        access: PtraceAccess(PTRACE_TRACE | PTRACE_READ),
        scope: PtraceScope::Outside,
    }),
];

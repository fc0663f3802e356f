//! The hooks. The kernel calls a program only when no earlier one denied (a chain of LSM programs stops at the first
//! error), so there is no earlier verdict to respect: the hook decides, and `verdict` ends it.

mod attributes;
mod capability;
mod device;
mod exec;
mod file;
mod guard;
mod identity;
mod mount;
mod namespace;
mod network;
mod ptrace;
mod unix;

/// The current task's subject, or the end of the hook.
macro_rules! subject_or_return {
    ($what:expr) => {
        match $crate::identity::current() {
            $crate::identity::Who::Free => return $crate::verdict::ALLOW,
            $crate::identity::Who::Subject(subject) => subject,
            $crate::identity::Who::Lost(fault) => return $crate::verdict::lost($what, fault),
        }
    };
}
use subject_or_return;

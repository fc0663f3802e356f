//! Attempts to make user namespaces.

use std::fs;

use nix::sched::{CloneFlags, unshare};

use super::{attempt::Attempt, policies::NAMESPACES};
use crate::attack::Failure;

pub(super) fn attempts() -> Vec<Attempt> {
    vec![
        Attempt::attack("make a user namespace", NAMESPACES, || {
            Ok(unshare(CloneFlags::CLONE_NEWUSER)?)
        })
        .unless(no_hook),
        Attempt::benign("make a mount namespace", NAMESPACES, || {
            Ok::<(), Failure>(unshare(CloneFlags::CLONE_NEWNS)?)
        }),
    ]
}

/// The hook came with 6.1.
fn no_hook() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release
        .starts_with("5.")
        .then(|| "this kernel has no hook userns_create; capability rules or seccomp cover it".to_owned())
}

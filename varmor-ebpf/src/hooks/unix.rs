//! Unix sockets by path: who may not write to the path may not talk to the server behind it.
//!
//! The kernel asks for write permission when it looks the path up, and so do the rules. A rule that only forbids reading
//! does not stop a connection. `bind(2)` of a path is a creation, which `path_mknod` judges.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use varmor_common::abi::{EVENT_FILE, FAULT_READ, PERM_WRITE, operation};

use super::subject_or_return;
use crate::{
    audit::What,
    identity::Subject,
    kernel::{probe, raw_argument},
    offsets::{PATH_DENTRY, PATH_MNT, SOCKET_SK, UNIX_PATH},
    path::{climb, fault_of, pack},
    seen::seen,
    verdict::{ALLOW, file, lost},
};

#[lsm(hook = "unix_stream_connect")]
pub fn unix_stream_connect(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::CONNECT);
    let subject = subject_or_return!(WHAT);
    peer(&subject, WHAT, raw_argument::<1>(&ctx))
}

/// Datagrams and connected datagram sockets.
#[lsm(hook = "unix_may_send")]
pub fn unix_may_send(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::SENDMSG);
    let subject = subject_or_return!(WHAT);
    let sock = raw_argument::<1>(&ctx).and_then(|socket| probe::<u64>(socket + u64::from(SOCKET_SK.load())));
    peer(&subject, WHAT, sock)
}

/// Judges the path that the peer, a `struct unix_sock`, is bound to. Abstract and unnamed peers have none.
#[inline(always)]
fn peer(subject: &Subject, what: What, sock: Option<u64>) -> i32 {
    let profile = subject.profile;
    if profile.file_perms & PERM_WRITE == 0 {
        return ALLOW;
    }
    let Some(sock) = sock else {
        return lost(what, FAULT_READ);
    };
    let path = sock + u64::from(UNIX_PATH.load());
    let (Some(dentry), Some(mount)) = (
        probe::<u64>(path + u64::from(PATH_DENTRY.load())),
        probe::<u64>(path + u64::from(PATH_MNT.load())),
    ) else {
        return lost(what, FAULT_READ);
    };
    if dentry == 0 || mount == 0 {
        return ALLOW;
    }
    let (start, wanted) = (profile.file_start, pack(subject.artefact, PERM_WRITE));
    let mut collected = climb(dentry, mount, start, wanted, 0);
    if fault_of(collected) == 0 {
        collected = seen(dentry, mount, start, wanted, collected);
    }
    file(subject, what, PERM_WRITE, collected, || (dentry, mount))
}

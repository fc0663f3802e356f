//! Unix sockets by path: who may not write to the path may not talk to the server behind it.
//!
//! The kernel asks for write permission when it looks the path up, and so do the rules. A rule that only forbids reading
//! does not stop a connection. `bind(2)` of a path is a creation, which `path_mknod` judges.

use core::ffi::c_void;

use aya_ebpf::{helpers::generated::bpf_skc_to_unix_sock, macros::lsm, programs::LsmContext};
use varmor_common::abi::{EVENT_FILE, FAULT_READ, PERM_WRITE, operation};

use super::subject_or_return;
use crate::{
    alias::{is_foreign, seen},
    audit::What,
    identity::Subject,
    kernel::{Typed, pointer, scalar},
    offsets::{HAVE_UNIX_SOCK, PATH_DENTRY, PATH_MNT, SOCKET_SK, UNIX_PATH},
    path::{climb, fault_of, pack, walk},
    verdict::{ALLOW, file, lost},
};

#[lsm(hook = "unix_stream_connect")]
pub fn unix_stream_connect(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::CONNECT);
    let subject = subject_or_return!(WHAT);
    peer(&subject, WHAT, ctx.arg(1))
}

/// Datagrams and connected datagram sockets.
#[lsm(hook = "unix_may_send")]
pub fn unix_may_send(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::SENDMSG);
    let subject = subject_or_return!(WHAT);
    let socket: Typed = ctx.arg(1);
    // SAFETY: `socket` is the hook's argument.
    let sock = unsafe { pointer(socket, SOCKET_SK.load()) };
    if sock.is_null() {
        return lost(WHAT, FAULT_READ);
    }
    peer(&subject, WHAT, sock)
}

/// Judges the path that the peer, a `struct sock`, is bound to. Abstract and unnamed peers have none.
#[inline(always)]
fn peer(subject: &Subject, what: What, sock: Typed) -> i32 {
    let profile = subject.profile;
    if profile.file_perms & PERM_WRITE == 0 {
        return ALLOW;
    }
    let (start, wanted) = (profile.file_start, pack(subject.artefact, PERM_WRITE));
    let (mnt, dentry) = (
        UNIX_PATH.load() + PATH_MNT.load(),
        UNIX_PATH.load() + PATH_DENTRY.load(),
    );
    let (Some(mount_address), Some(dentry_address)) = (scalar(sock, mnt), scalar(sock, dentry)) else {
        return lost(what, FAULT_READ);
    };
    if dentry_address == 0 || mount_address == 0 {
        return ALLOW;
    }
    let mut collected;
    if HAVE_UNIX_SOCK.load() == 1 {
        // SAFETY: `sock` is a BTF pointer to a socket; the result is one to a unix socket, or NULL.
        let unix: Typed = unsafe { bpf_skc_to_unix_sock(sock.cast_mut().cast::<c_void>()) }.cast();
        if unix.is_null() {
            return ALLOW;
        }
        // SAFETY: checked for NULL.
        let (mount, dentry) = unsafe { (pointer(unix, mnt), pointer(unix, dentry)) };
        collected = walk(subject, mount, mount_address, dentry, PERM_WRITE);
    } else {
        collected = climb(dentry_address, mount_address, u64::from(start), wanted, 0);
    }
    if fault_of(collected) == 0 && is_foreign(mount_address) {
        collected = seen(dentry_address, start, wanted, collected);
    }
    file(subject, what, PERM_WRITE, collected, || {
        (dentry_address, mount_address)
    })
}

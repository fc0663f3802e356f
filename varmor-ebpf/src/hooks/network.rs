//! Sockets and destinations.

use aya_ebpf::{helpers::generated::bpf_probe_read_kernel, macros::lsm, programs::LsmContext};
use core::ffi::c_void;
use varmor_common::abi::{EVENT_CONNECT, EVENT_SOCKET, PROFILE_EGRESS, PROFILE_SOCKETS, operation};

use super::subject_or_return;
use crate::{
    audit::What,
    egress::{destination, socket},
    identity::Subject,
    kernel::{Typed, mask, pointer, raw_argument, u16_at, u32_at, u64_at},
    offsets::{MSG_NAME, MSG_NAMELEN, SOCK_FAMILY, SOCK_PROTOCOL, SOCKET_SK},
    verdict::{ALLOW, DENY, point},
};

const AF_UNSPEC: u32 = 0;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const SOCK_TYPE_MASK: u32 = 0xf;
const V4_MAPPED: u64 = 0xffff << 32;
/// `sizeof(struct sockaddr_in6)`.
const ADDRESS_SIZE: u64 = 28;

/// Domain, type and the protocol that the program asked for.
#[lsm(hook = "socket_create")]
pub fn socket_create(ctx: LsmContext) -> i32 {
    let family: i32 = ctx.arg(0);
    let kind: i32 = ctx.arg(1);
    let protocol: i32 = ctx.arg(2);
    let kernel: i32 = ctx.arg(3);
    judge_socket(kernel, family as u32, kind as u32, protocol as u32)
}

/// The protocol that the socket really has: 0 in `socket(2)` means the type's default.
#[lsm(hook = "socket_post_create")]
pub fn socket_post_create(ctx: LsmContext) -> i32 {
    let made: Typed = ctx.arg(0);
    let family: i32 = ctx.arg(1);
    let kind: i32 = ctx.arg(2);
    let kernel: i32 = ctx.arg(4);
    // SAFETY: `made` is the hook's argument.
    let sock = unsafe { pointer(made, SOCKET_SK.load()) };
    if sock.is_null() {
        return ALLOW;
    }
    // SAFETY: checked for NULL.
    let protocol = u32::from(unsafe { u16_at(sock, SOCK_PROTOCOL.load()) });
    judge_socket(kernel, family as u32, kind as u32, protocol)
}

#[inline(always)]
fn judge_socket(kernel: i32, family: u32, kind: u32, protocol: u32) -> i32 {
    const WHAT: What = What::new(EVENT_SOCKET, operation::SOCKET_CREATE);
    if kernel != 0 {
        return ALLOW;
    }
    let subject = subject_or_return!(WHAT);
    if subject.profile.flags & PROFILE_SOCKETS == 0 {
        return ALLOW;
    }
    let kind = kind & SOCK_TYPE_MASK;
    let verdict = socket(subject.artefact, family, kind, protocol);
    point(
        &subject,
        WHAT,
        u32::MAX,
        verdict,
        [u64::from(family), u64::from(kind), u64::from(protocol)],
    )
}

#[lsm(hook = "socket_connect")]
pub fn socket_connect(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_CONNECT, operation::CONNECT);
    let subject = subject_or_return!(WHAT);
    if subject.profile.flags & PROFILE_EGRESS == 0 {
        return ALLOW;
    }
    let Some(address) = raw_argument::<1>(&ctx) else {
        return DENY;
    };
    let length: i32 = ctx.arg(2);
    // `AF_UNSPEC` dissolves the association here.
    judge_address(&subject, WHAT, address, length as u64, AF_UNSPEC)
}

/// Datagrams to an address, and TCP fast open, which connects without `connect`.
#[lsm(hook = "socket_sendmsg")]
pub fn socket_sendmsg(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_CONNECT, operation::SENDMSG);
    let subject = subject_or_return!(WHAT);
    if subject.profile.flags & PROFILE_EGRESS == 0 {
        return ALLOW;
    }
    let message: Typed = ctx.arg(1);
    // SAFETY: `message` is the hook's argument; the name is a plain (`void *`) address.
    let (name, length) = unsafe {
        (
            u64_at(message, MSG_NAME.load()),
            u32_at(message, MSG_NAMELEN.load()),
        )
    };
    if name == 0 {
        return ALLOW;
    }
    let sending: Typed = ctx.arg(0);
    // SAFETY: `sending` is the hook's argument.
    let sock = unsafe { pointer(sending, SOCKET_SK.load()) };
    if sock.is_null() {
        return ALLOW;
    }
    // SAFETY: checked for NULL. An IPv4 socket takes `AF_UNSPEC` for its own family when it sends.
    let family = u32::from(unsafe { u16_at(sock, SOCK_FAMILY.load()) });
    judge_address(&subject, WHAT, name, u64::from(length), family)
}

/// Judges a `struct sockaddr`; `unspecified` is what a family of `AF_UNSPEC` stands for.
#[inline(always)]
fn judge_address(subject: &Subject, what: What, address: u64, length: u64, unspecified: u32) -> i32 {
    let mut words = [0u64; 4];
    let length = if length > ADDRESS_SIZE {
        ADDRESS_SIZE
    } else {
        length
    };
    let length = mask::<31>(length) as u32;
    // SAFETY: at most 31 of the 32 bytes are written.
    let failed = unsafe {
        bpf_probe_read_kernel(
            words.as_mut_ptr().cast::<c_void>(),
            length,
            address as *const c_void,
        )
    };
    if failed != 0 {
        return DENY;
    }
    let named = (words[0] & 0xffff) as u32;
    let family = if named == AF_UNSPEC { unspecified } else { named };
    let port = u32::from(u16::from_be((words[0] >> 16) as u16));
    let (hi, lo) = if family == AF_INET {
        (0, V4_MAPPED | u64::from(u32::from_be((words[0] >> 32) as u32)))
    } else if family == AF_INET6 {
        (u64::from_be(words[1]), u64::from_be(words[2]))
    } else {
        return ALLOW;
    };
    let verdict = destination(subject.artefact, hi, lo, port);
    point(
        subject,
        what,
        u32::MAX,
        verdict,
        [hi, lo, u64::from(port) | u64::from(family) << 32],
    )
}

//! Sockets, destinations and local addresses.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use varmor_common::{
    abi::{
        EVENT_CONNECT, EVENT_SOCKET, FAULT_LENGTH, FAULT_READ, FAULT_TABLE, PROFILE_EGRESS, PROFILE_INGRESS,
        PROFILE_SOCKETS, SOCKET_DOMAINS, VERDICT_DENY, operation,
    },
    matcher::{V4_MAPPED, embedded, first_byte, is_v4, protocol_bit, real_protocol, socket_address},
};

use super::subject_or_return;
use crate::{
    audit::What,
    destination::answer,
    identity::Subject,
    kernel::{Typed, mask, pointer, probe, raw_argument, scalar, u16_at, u32_at, u64_at},
    offsets::{MSG_NAME, SOCK_FAMILY, SOCK_NUM, SOCK_RCV_SADDR, SOCK_V6_RCV_SADDR, SOCKET_SK},
    verdict::{ALLOW, lost, point},
};

const AF_UNSPEC: u32 = 0;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_SMC: u32 = 43;
const SOCK_TYPE_MASK: u32 = 0xf;

/// Fields of `struct sockaddr_in` and `struct sockaddr_in6`, which no kernel can change.
const SOCKADDR_PORT: u32 = 2;
const SOCKADDR_IN: u32 = 4;
const SOCKADDR_IN6: u32 = 8;
const SOCKADDR_IN6_LOW: u32 = 16;
const SOCKADDR_IN_SIZE: u64 = 16;
const SOCKADDR_IN6_SIZE: u64 = 28;

/// Options of SCTP sockets that come with addresses (include/uapi/linux/sctp.h): two that name an address which the
/// association has already, ...
const SCTP_SET_PEER_PRIMARY_ADDR: i32 = 5;
const SCTP_PRIMARY_ADDR: i32 = 6;
/// ... the one that binds, ...
const SCTP_SOCKOPT_BINDX_ADD: i32 = 100;
/// ... and two that the peer asks for, on behalf of no task.
const SCTP_PARAM_ADD_IP: i32 = 0xc001;
const SCTP_PARAM_SET_PRIMARY: i32 = 0xc004;
/// Addresses of one call that are judged; a call with more is refused.
const SCTP_ADDRESSES: u32 = 8;

/// An address and a port; IPv4 as v4-mapped.
#[derive(Clone, Copy)]
struct Address {
    hi: u64,
    lo: u64,
    port: u32,
    family: u32,
}

impl Address {
    #[inline(always)]
    fn v4(word: u32, port: u32) -> Self {
        Self {
            hi: 0,
            lo: V4_MAPPED | u64::from(u32::from_be(word)),
            port,
            family: AF_INET,
        }
    }

    #[inline(always)]
    fn v6(words: [u64; 2], port: u32) -> Self {
        Self {
            hi: u64::from_be(words[0]),
            lo: u64::from_be(words[1]),
            port,
            family: AF_INET6,
        }
    }

    #[inline(always)]
    fn data(&self) -> [u64; 3] {
        [
            self.hi,
            self.lo,
            u64::from(self.port) | u64::from(self.family) << 32,
        ]
    }
}

/// Domain, type and the protocol that the socket will have. socketpair(2) comes here too.
#[lsm(hook = "socket_create")]
pub fn socket_create(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_SOCKET, operation::SOCKET_CREATE);
    let kernel: i32 = ctx.arg(3);
    if kernel != 0 {
        return ALLOW;
    }
    let subject = subject_or_return!(WHAT);
    let profile = subject.profile;
    if profile.flags & PROFILE_SOCKETS == 0 {
        return ALLOW;
    }
    let domain: i32 = ctx.arg(0);
    let kind: i32 = ctx.arg(1);
    let protocol: i32 = ctx.arg(2);
    let kind = kind as u32 & SOCK_TYPE_MASK;
    let domain = mask::<{ SOCKET_DOMAINS as i32 - 1 }>(domain as u64) as u32;
    let protocol = real_protocol(domain, kind, protocol as u32) & 0xffff;
    // SAFETY: `domain` is below `SOCKET_DOMAINS`.
    if unsafe { *profile.net.protocols.as_ptr().add(domain as usize) } & protocol_bit(protocol) == 0 {
        return ALLOW;
    }
    // SAFETY: as above.
    let start = unsafe { *profile.net.sockets.as_ptr().add(domain as usize) };
    let Some(verdict) = answer(subject.artefact, start, socket_address(domain, kind), 0, protocol) else {
        return lost(WHAT, FAULT_TABLE);
    };
    point(
        &subject,
        WHAT,
        u32::MAX,
        verdict,
        [u64::from(domain), u64::from(kind), u64::from(protocol)],
    )
}

#[lsm(hook = "socket_connect")]
pub fn socket_connect(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_CONNECT, operation::CONNECT);
    let subject = subject_or_return!(WHAT);
    if subject.profile.flags & PROFILE_EGRESS == 0 {
        return ALLOW;
    }
    let address: Typed = ctx.arg(1);
    // SAFETY: `address` is the hook's argument: the kernel's copy, which has room for every family.
    let family = u32::from(unsafe { u16_at(address, 0) });
    if family == AF_INET {
        // SAFETY: as above.
        let (port, word) = unsafe { (u16_at(address, SOCKADDR_PORT), u32_at(address, SOCKADDR_IN)) };
        let to = Address::v4(word, u32::from(u16::from_be(port)));
        return outgoing(&subject, WHAT, to, || raw_argument::<0>(&ctx));
    }
    if family != AF_INET6 {
        // `AF_UNSPEC` dissolves the association here.
        return ALLOW;
    }
    // The lower half of the address lies behind `struct sockaddr`, out of the reach of typed loads.
    let Some(low) = scalar(address, SOCKADDR_IN6_LOW) else {
        return lost(WHAT, FAULT_READ);
    };
    // SAFETY: as above.
    let (port, high) = unsafe { (u16_at(address, SOCKADDR_PORT), u64_at(address, SOCKADDR_IN6)) };
    let to = Address::v6([high, low], u32::from(u16::from_be(port)));
    outgoing(&subject, WHAT, to, || raw_argument::<0>(&ctx))
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
    let name = unsafe { u64_at(message, MSG_NAME.load()) };
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
    match read(name, family) {
        Read::Address(to) => outgoing(&subject, WHAT, to, || raw_argument::<0>(&ctx)),
        Read::Other => ALLOW,
        Read::Failed => lost(WHAT, FAULT_READ),
    }
}

#[lsm(hook = "socket_bind")]
pub fn socket_bind(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_CONNECT, operation::BIND);
    let subject = subject_or_return!(WHAT);
    if subject.profile.flags & PROFILE_INGRESS == 0 {
        return ALLOW;
    }
    let Some(address) = raw_argument::<1>(&ctx) else {
        return lost(WHAT, FAULT_READ);
    };
    // Old programs bind IPv4 sockets with `AF_UNSPEC`, and no other family takes it.
    match read(address, AF_INET) {
        Read::Address(to) => incoming(&subject, WHAT, to),
        Read::Other => ALLOW,
        Read::Failed => lost(WHAT, FAULT_READ),
    }
}

/// A socket that was never bound listens on every address and on a port that the kernel chooses: port 0 here.
#[lsm(hook = "socket_listen")]
pub fn socket_listen(ctx: LsmContext) -> i32 {
    of_socket(&ctx, What::new(EVENT_CONNECT, operation::LISTEN))
}

/// Also for sockets that were bound before the task had a policy, or by another task.
#[lsm(hook = "socket_accept")]
pub fn socket_accept(ctx: LsmContext) -> i32 {
    of_socket(&ctx, What::new(EVENT_CONNECT, operation::ACCEPT))
}

/// Addresses that come by `setsockopt`.
#[lsm(hook = "sctp_bind_connect")]
pub fn sctp_bind_connect(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_CONNECT, operation::CONNECT);
    let option: i32 = ctx.arg(1);
    if option == SCTP_SET_PEER_PRIMARY_ADDR
        || option == SCTP_PRIMARY_ADDR
        || option == SCTP_PARAM_ADD_IP
        || option == SCTP_PARAM_SET_PRIMARY
    {
        return ALLOW;
    }
    let subject = subject_or_return!(WHAT);
    let binds = option == SCTP_SOCKOPT_BINDX_ADD;
    let concerned = if binds { PROFILE_INGRESS } else { PROFILE_EGRESS };
    if subject.profile.flags & concerned == 0 {
        return ALLOW;
    }
    let (Some(mut address), Some(length)) = (raw_argument::<2>(&ctx), raw_argument::<3>(&ctx)) else {
        return lost(WHAT, FAULT_READ);
    };
    let end = address + (length & 0xffff_ffff);
    let mut i = 0;
    while i < SCTP_ADDRESSES {
        if address >= end {
            return ALLOW;
        }
        let to = match read(address, AF_UNSPEC) {
            Read::Address(to) => to,
            Read::Other => return ALLOW,
            Read::Failed => return lost(WHAT, FAULT_READ),
        };
        let verdict = if binds {
            incoming(&subject, What::new(EVENT_CONNECT, operation::BIND), to)
        } else {
            outgoing(&subject, WHAT, to, || None)
        };
        if verdict != ALLOW {
            return verdict;
        }
        address += if to.family == AF_INET {
            SOCKADDR_IN_SIZE
        } else {
            SOCKADDR_IN6_SIZE
        };
        i += 1;
    }
    if address < end {
        return lost(WHAT, FAULT_LENGTH);
    }
    ALLOW
}

enum Read {
    Address(Address),
    /// Of a family that the rules do not speak about.
    Other,
    Failed,
}

/// Reads a `struct sockaddr`; `unspecified` is what a family of `AF_UNSPEC` stands for. What lies behind a short
/// address is not the caller's, but the kernel refuses short addresses after this hook.
#[inline(always)]
fn read(address: u64, unspecified: u32) -> Read {
    let Some(words) = probe::<[u64; 2]>(address) else {
        return Read::Failed;
    };
    let named = (words[0] & 0xffff) as u32;
    let family = if named == AF_UNSPEC { unspecified } else { named };
    let port = u32::from(u16::from_be((words[0] >> 16) as u16));
    if family == AF_INET {
        return Read::Address(Address::v4((words[0] >> 32) as u32, port));
    }
    if family != AF_INET6 {
        return Read::Other;
    }
    match probe::<u64>(address + u64::from(SOCKADDR_IN6_LOW)) {
        Some(low) => Read::Address(Address::v6([words[1], low], port)),
        None => Read::Failed,
    }
}

/// Judges a destination, and what else leads to the same host. `socket` gives the address of the `struct socket`.
#[inline(always)]
fn outgoing(subject: &Subject, what: What, to: Address, socket: impl FnOnce() -> Option<u64>) -> i32 {
    let Some(mut verdict) = exact(subject, to.hi, to.lo, to.port) else {
        return lost(what, FAULT_TABLE);
    };
    if is_v4(to.hi, to.lo) {
        // A socket that is bound to an address reaches that one through the unspecified address. The compiler knows
        // of the loopback, to which it leads otherwise.
        if to.lo == V4_MAPPED
            && let Some(own) = socket().and_then(own_v4)
        {
            let Some(more) = exact(subject, 0, own, to.port) else {
                return lost(what, FAULT_TABLE);
            };
            verdict = add(verdict, more);
        }
    } else {
        let others = embedded(to.hi, to.lo);
        let mut i = 0;
        while i < 2 {
            if others[i] != 0 {
                let Some(more) = exact(subject, 0, others[i], to.port) else {
                    return lost(what, FAULT_TABLE);
                };
                verdict = add(verdict, more);
            }
            i += 1;
        }
    }
    point(subject, what, u32::MAX, verdict, to.data())
}

#[inline(always)]
const fn add(verdict: u64, more: u64) -> u64 {
    let denies = more & VERDICT_DENY as u64 != 0 && verdict & VERDICT_DENY as u64 == 0;
    if denies || verdict >> 32 == 0 {
        more | verdict & 0xffff_ffff
    } else {
        verdict | more & 0xffff_ffff
    }
}

#[inline(always)]
fn exact(subject: &Subject, hi: u64, lo: u64, port: u32) -> Option<u64> {
    let starts = &subject.profile.net;
    let v4 = is_v4(hi, lo);
    let byte = mask::<255>(u64::from(first_byte(hi, lo, v4))) as usize;
    let row = if v4 { &starts.egress_v4 } else { &starts.egress_v6 };
    // SAFETY: `byte` is below 256.
    let start = unsafe { *row.as_ptr().add(byte) };
    answer(subject.artefact, start, hi, lo, port)
}

/// The local IPv4 address of a socket as the lower half of a v4-mapped one, if it has one.
#[inline(always)]
fn own_v4(socket: u64) -> Option<u64> {
    let sock = probe::<u64>(socket + u64::from(SOCKET_SK.load()))?;
    let word = probe::<u32>(sock + u64::from(SOCK_RCV_SADDR.load()))?;
    (word != 0).then_some(V4_MAPPED | u64::from(u32::from_be(word)))
}

#[inline(always)]
fn incoming(subject: &Subject, what: What, at: Address) -> i32 {
    let starts = &subject.profile.net;
    let start = if is_v4(at.hi, at.lo) {
        starts.ingress_v4
    } else {
        starts.ingress_v6
    };
    let Some(verdict) = answer(subject.artefact, start, at.hi, at.lo, at.port) else {
        return lost(what, FAULT_TABLE);
    };
    point(subject, what, u32::MAX, verdict, at.data())
}

/// Judges the local address of the socket that is the hook's first argument.
#[inline(always)]
fn of_socket(ctx: &LsmContext, what: What) -> i32 {
    let subject = subject_or_return!(what);
    if subject.profile.flags & PROFILE_INGRESS == 0 {
        return ALLOW;
    }
    let socket: Typed = ctx.arg(0);
    let Some(sock) = scalar(socket, SOCKET_SK.load()) else {
        return lost(what, FAULT_READ);
    };
    match local_address(sock) {
        Read::Address(at) => incoming(&subject, what, at),
        Read::Other => ALLOW,
        Read::Failed => lost(what, FAULT_READ),
    }
}

#[inline(always)]
fn local_address(sock: u64) -> Read {
    let (Some(family), Some(port)) = (
        probe::<u16>(sock + u64::from(SOCK_FAMILY.load())),
        probe::<u16>(sock + u64::from(SOCK_NUM.load())),
    ) else {
        return Read::Failed;
    };
    let (family, port) = (u32::from(family), u32::from(port));
    if family == AF_SMC {
        // The TCP socket inside has the address; unbound it is as if it had none.
        return Read::Address(Address::v6([0, 0], 0));
    }
    if family == AF_INET {
        return match probe::<u32>(sock + u64::from(SOCK_RCV_SADDR.load())) {
            Some(word) => Read::Address(Address::v4(word, port)),
            None => Read::Failed,
        };
    }
    if family != AF_INET6 {
        return Read::Other;
    }
    match probe::<[u64; 2]>(sock + u64::from(SOCK_V6_RCV_SADDR.load())) {
        Some(words) => Read::Address(Address::v6(words, port)),
        None => Read::Failed,
    }
}

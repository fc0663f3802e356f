//! The audit's netlink socket, in the group of those who only read.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::netlink::{AUDIT, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size_force, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, bind, recvfrom, sendto,
    socket_with,
};
use tracing::error;
use varmor_common::audit::{AVC, SECCOMP, parse_body};

use super::{Intake, count};

/// `AUDIT_NLGRP_READLOG` as a bit.
const READ_LOG: u32 = 1;
/// `AUDIT_GET`: the question for the audit's state, and the answer.
const STATE: u16 = 1000;
/// `struct nlmsghdr`: length, type, flags, sequence, port.
const HEAD: usize = 16;
/// Of the lost records in `struct audit_status`, behind the head.
const LOST: usize = HEAD + 24;
const REQUEST: u16 = 1;
/// A record is at most 8970 bytes; a batch of them waits here while the agent is slow.
const BUFFER: usize = 4 << 20;
const LONGEST: usize = 16 << 10;
/// How soon the thread notices that nobody listens any more.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two questions for what the audit has lost.
const ASK: Duration = Duration::from_secs(10);

pub(super) struct Socket {
    fd: OwnedFd,
}

impl Socket {
    pub(super) fn open() -> io::Result<Self> {
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(AUDIT),
        )?;
        bind(&fd, &SocketAddrNetlink::new(0, READ_LOG))?;
        set_socket_recv_buffer_size_force(&fd, BUFFER)?;
        set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { fd })
    }

    /// Reads until nobody listens any more.
    pub(super) fn run(&self, intake: &Intake) {
        let mut buffer = vec![0; LONGEST];
        let mut lost = None;
        let mut asked: Option<Instant> = None;
        while !intake.is_closed() {
            if asked.is_none_or(|asked| asked.elapsed() >= ASK) {
                asked = Some(Instant::now());
                // Needs CAP_AUDIT_CONTROL; without an answer this one kind of loss stays unknown.
                let _ = sendto(
                    &self.fd,
                    &question(),
                    SendFlags::empty(),
                    &SocketAddrNetlink::new(0, 0),
                );
            }
            match recvfrom(&self.fd, &mut buffer[..], RecvFlags::empty()) {
                Ok((length, _, sender)) if is_kernel(sender.as_ref()) => {
                    message(&buffer[..length], intake, &mut lost);
                }
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOBUFS) => count(&intake.counters.overruns, 1),
                Err(error) => {
                    error!(%error, "the audit cannot be read any more; violations of AppArmor and seccomp are in no log");
                    return;
                }
            }
        }
    }
}

/// Whoever may administer the network of the machine can send to this socket as well.
fn is_kernel(sender: Option<&SocketAddrAny>) -> bool {
    sender
        .and_then(|sender| SocketAddrNetlink::try_from(sender.clone()).ok())
        .is_some_and(|sender| sender.pid() == 0)
}

fn question() -> [u8; HEAD] {
    let mut message = [0; HEAD];
    message[..4].copy_from_slice(&16_u32.to_ne_bytes());
    message[4..6].copy_from_slice(&STATE.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    message
}

/// One datagram is one message; the length in its head is another on some kernels, so it is not used.
fn message(bytes: &[u8], intake: &Intake, lost: &mut Option<u32>) {
    let Some((head, body)) = bytes.split_at_checked(HEAD) else {
        return;
    };
    let kind = u16::from_ne_bytes([head[4], head[5]]);
    if kind == STATE {
        if let Some(now) = bytes.get(LOST..LOST + 4) {
            let now = u32::from_ne_bytes(now.try_into().expect("four bytes were asked for"));
            let before = lost.replace(now).unwrap_or(now);
            count(&intake.counters.kernel, now.wrapping_sub(before).into());
        }
        return;
    }
    let kind = u32::from(kind);
    if kind != AVC && kind != SECCOMP {
        return;
    }
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
    match parse_body(kind, &body[..end]) {
        Ok(record) => intake.take(record),
        Err(_) => count(&intake.counters.unreadable, 1),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::tests::intake;
    use super::*;

    fn datagram(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn records_are_taken_and_others_are_not() {
        let (intake, mut records) = intake(4);
        let mut lost = None;
        let ours =
            b"audit(1.002:3): apparmor=\"DENIED\" operation=\"open\" profile=\"varmor-a-b\" name=\"/x\"\0";
        message(&datagram(1400, ours), &intake, &mut lost);
        message(&datagram(1300, b"audit(1.002:3): arch=1"), &intake, &mut lost);
        message(&datagram(1400, b"no record"), &intake, &mut lost);
        message(&[0; 3], &intake, &mut lost);
        let taken = records.try_recv().unwrap();
        assert_eq!(taken.record.get("name").unwrap(), b"/x");
        assert!(records.try_recv().is_err());
        assert_eq!(intake.counters.unreadable.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_the_audit_lost_since_the_start_is_counted() {
        let (intake, _records) = intake(1);
        let mut lost = None;
        for now in [7_u32, 7, 12] {
            let mut status = vec![0; 40];
            status[24..28].copy_from_slice(&now.to_ne_bytes());
            message(&datagram(STATE, &status), &intake, &mut lost);
        }
        message(&datagram(STATE, &[0; 4]), &intake, &mut lost);
        assert_eq!(intake.counters.kernel.load(Ordering::Relaxed), 5);
    }
}

//! What rules forbid that the table of the `AppArmor` suite does not have: addresses, and what system calls alone hold.
//!
//! A test of `varmor-common` reads this file and fails for a rule of the catalogue that stands in neither table.

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    os::unix::fs::PermissionsExt,
};

use nix::{errno::Errno, libc};

use crate::{
    apparmor::{load_bpf_program, numbers, with_buffer},
    attack::{Failure, Outcome},
};

type Done = Result<(), Failure>;

pub(super) struct Entry {
    pub(super) rule: &'static str,
    forbidden: fn() -> Done,
    benign: fn() -> Done,
}

/// Rules about Services, whose addresses only a cluster knows: without one they have no effect, and `varmor check` says so.
pub(super) const OF_CLUSTERS: &[&str] = &["block-access-to-kube-apiserver", "ingress-nightmare-mitigation"];

const fn entry(rule: &'static str, forbidden: fn() -> Done, benign: fn() -> Done) -> Entry {
    Entry {
        rule,
        forbidden,
        benign,
    }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "block-access-to-metadata-service",
        || connect([169, 254, 169, 254]),
        || connect([169, 254, 169, 253]),
    ),
    entry(
        "block-access-to-aws-metadata-service",
        || connect([169, 254, 169, 254]),
        || connect([100, 96, 0, 96]),
    ),
    entry(
        "block-access-to-volc-metadata-service",
        || connect([100, 96, 0, 96]),
        || connect([169, 254, 169, 254]),
    ),
    entry(
        "block-access-to-alibaba-metadata-service",
        || connect([100, 100, 100, 200]),
        || connect([169, 254, 169, 254]),
    ),
    entry(
        "block-access-to-oci-metadata-service",
        || connect([192, 0, 0, 192]),
        || connect([169, 254, 169, 254]),
    ),
    entry(
        "disallow-load-all-bpf-prog",
        || Ok(load_bpf_program()?),
        // BPF_MAP_GET_NEXT_ID: another command of the same call.
        || {
            let mut attribute = [0; 16];
            answered(with_buffer(libc::SYS_bpf, &[12, 0, 16], 1, &mut attribute))
        },
    ),
    entry(
        "disallow-load-bpf-via-setsockopt",
        // SO_ATTACH_FILTER; the empty program is refused after the question.
        || option(26),
        // SO_PRIORITY
        || option(12),
    ),
    entry(
        "disallow-userfaultfd-creation",
        || answered(numbers(libc::SYS_userfaultfd, &[0])),
        || answered(numbers(libc::SYS_eventfd2, &[0, 0])),
    ),
    entry("disable-chmod-x-bit", || chmod(0o755), || chmod(0o600)),
    entry("disable-chmod-s-bit", || chmod(0o4644), || chmod(0o755)),
    entry(
        "dirty-pipe-mitigation",
        // Descriptors that nobody has are refused after the question.
        || answered(numbers(libc::SYS_splice, &[-1, 0, -1, 0, 1, 0])),
        || answered(numbers(libc::SYS_tee, &[-1, -1, 1, 0])),
    ),
];

/// What becomes of one of the operations; none for a rule without an entry.
pub(super) fn outcome_of(rule: &str, is_forbidden: bool) -> Option<Outcome> {
    let entry = ENTRIES.iter().find(|entry| entry.rule == rule)?;
    let run = if is_forbidden {
        entry.forbidden
    } else {
        entry.benign
    };
    Some(Outcome::of(run()))
}

/// Connecting a datagram socket sends nothing, and needs a route only.
fn connect(address: [u8; 4]) -> Done {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    Ok(socket.connect(SocketAddr::from((address, 80)))?)
}

/// Any answer of the call itself will do.
fn answered(said: nix::Result<i64>) -> Done {
    match said {
        Ok(_) | Err(Errno::EBADF | Errno::EINVAL | Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Sets an option of `SOL_SOCKET` to zeros.
fn option(number: i64) -> Done {
    use std::os::fd::AsRawFd;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let mut value = [0; 16];
    let arguments = [i64::from(socket.as_raw_fd()), 1, number, 0, 16];
    answered(with_buffer(libc::SYS_setsockopt, &arguments, 3, &mut value))
}

fn chmod(mode: u32) -> Done {
    let done = fs::set_permissions("/srv/mode", fs::Permissions::from_mode(mode));
    fs::set_permissions("/srv/mode", fs::Permissions::from_mode(0o644))?;
    Ok(done?)
}

//! bpf(2), which no crate here wraps.
#![expect(unsafe_code, reason = "a raw system call; every block says what it relies on")]

use std::os::fd::{FromRawFd, OwnedFd};

use nix::{errno::Errno, libc};

/// What has ids: the commands that list them and that open one.
#[derive(Clone, Copy)]
pub(super) struct Objects {
    next_id: i64,
    open: i64,
}

pub(super) const PROGRAMS: Objects = Objects {
    next_id: 11,
    open: 13,
};
pub(super) const MAPS: Objects = Objects {
    next_id: 12,
    open: 14,
};
pub(super) const LINKS: Objects = Objects {
    next_id: 31,
    open: 30,
};
const MAP_CREATE: i64 = 0;
const OBJECT_GET_INFO: i64 = 15;
const ARRAY: u32 = 2;

/// The first id after `id`; `None` after the last.
pub(super) fn next(objects: Objects, id: u32) -> nix::Result<Option<u32>> {
    let mut attributes = [id, 0, 0, 0];
    match bpf(objects.next_id, &mut attributes) {
        Ok(_) => Ok(Some(attributes[1])),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn open(objects: Objects, id: u32) -> nix::Result<OwnedFd> {
    descriptor(bpf(objects.open, &mut [id, 0, 0, 0])?)
}

/// An array of one word.
pub(super) fn create_array() -> nix::Result<OwnedFd> {
    descriptor(bpf(MAP_CREATE, &mut [ARRAY, 4, 4, 1, 0, 0, 0, 0])?)
}

/// The id of a map.
pub(super) fn id_of(map: &OwnedFd) -> nix::Result<u32> {
    use std::os::fd::AsRawFd;
    let mut info = [0_u32; 32];
    let address = info.as_mut_ptr() as u64;
    let fd = u32::try_from(map.as_raw_fd()).map_err(|_| Errno::EBADF)?;
    let halves = |value: u64| [value & 0xffff_ffff, value >> 32].map(|half| u32::try_from(half).unwrap_or(0));
    let [low, high] = halves(address);
    bpf(OBJECT_GET_INFO, &mut [fd, 128, low, high])?;
    Ok(info[1])
}

fn bpf(command: i64, attributes: &mut [u32]) -> nix::Result<i64> {
    // SAFETY: the attributes live until the call returns and the size is theirs; addresses in them are of memory that
    // the caller keeps.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_mut_ptr(),
            size_of_val(attributes),
        )
    })
}

fn descriptor(number: i64) -> nix::Result<OwnedFd> {
    let number = i32::try_from(number).map_err(|_| Errno::EBADF)?;
    // SAFETY: the call succeeded, so the descriptor is open and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

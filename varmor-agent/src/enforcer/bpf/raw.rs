//! The unsafe floor of the enforcer: shared structures as map values, and system calls that aya has no name for.
#![expect(
    unsafe_code,
    reason = "map values and raw system calls; every block says what it relies on"
)]

use std::ffi::CString;
use std::io;
use std::os::fd::FromRawFd as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use aya::Pod;
use varmor_common::abi;

use super::super::KernelEvent;

/// A structure of `varmor_common::abi` as a map key or value.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(pub(super) T);

macro_rules! shared {
    ($($name:ident),*) => {$(
        // SAFETY: `repr(C)` integers without padding (sizes are asserted in `varmor_common::abi`): every bit
        // pattern is valid.
        unsafe impl Pod for Shared<abi::$name> {}
    )*};
}

shared!(
    Binding, Calls, Descriptor, GlobRow, HitKey, Hits, Label, Managed, NetRow, NetTest, Point, PointKey,
    Recent, SlotCounts, State, Transition, Waiting
);

/// Deletes an element of a map whose keys are `u32` indexes: aya has no call for arrays of maps.
pub(super) fn delete_element(map: BorrowedFd<'_>, key: u32) -> io::Result<()> {
    const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
    element(BPF_MAP_DELETE_ELEM, map, key, 0)
}

/// The id of the inner map at an index of an array of maps, without opening it; `None` for an empty place.
pub(super) fn inner_map_id(map: BorrowedFd<'_>, key: u32) -> io::Result<Option<u32>> {
    const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
    let mut id = 0u32;
    match element(BPF_MAP_LOOKUP_ELEM, map, key, (&raw mut id) as u64) {
        Ok(()) => Ok(Some(id)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// `value` is 0 or the address of a `u32` that outlives the call.
fn element(command: libc::c_long, map: BorrowedFd<'_>, key: u32, value: u64) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        map_fd: u32,
        _pad: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let attributes = Attributes {
        map_fd: u32::try_from(map.as_raw_fd()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        _pad: 0,
        key: std::ptr::from_ref(&key) as u64,
        value,
        flags: 0,
    };
    // SAFETY: the attributes, the key and the value they point to live until the call returns; the size is theirs.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes a map unwritable for user space, for good (`BPF_MAP_FREEZE`).
pub(super) fn freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    const BPF_MAP_FREEZE: libc::c_long = 22;
    let attributes = [descriptor(map)?, 0];
    // SAFETY: the attributes live until the call returns; the size is theirs.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_FREEZE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Pins any kind of BPF object.
pub(super) fn object_pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    const BPF_OBJ_PIN: libc::c_long = 6;
    object_call(BPF_OBJ_PIN, path, descriptor(object)?).map(drop)
}

/// Opens any kind of pinned BPF object.
pub(super) fn object_get(path: &Path) -> io::Result<OwnedFd> {
    const BPF_OBJ_GET: libc::c_long = 7;
    let fd = object_call(BPF_OBJ_GET, path, 0)?;
    // SAFETY: the call succeeded, so the descriptor is open and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn object_call(command: libc::c_long, path: &Path, fd: u32) -> io::Result<i32> {
    #[repr(C)]
    struct Attributes {
        path: u64,
        fd: u32,
        flags: u32,
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = Attributes {
        path: path.as_ptr() as u64,
        fd,
        flags: 0,
    };
    // SAFETY: the attributes and the path live until the call returns; the size is theirs.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(result).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

fn descriptor(object: BorrowedFd<'_>) -> io::Result<u32> {
    u32::try_from(object.as_raw_fd()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Reads one event out of the ring buffer's bytes; `None` if they are no event.
pub(super) fn event(bytes: &[u8]) -> Option<KernelEvent> {
    let mut texts = bytes.get(size_of::<abi::RawEvent>()..)?;
    // SAFETY: long enough, as the line above has found; every bit pattern of the integers is valid; the read does
    // not need alignment.
    let head = unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<abi::RawEvent>()) };
    let mut parts = head.lengths.iter().map(|length| {
        let (rest, text) = texts.split_at_checked(texts.len().checked_sub(usize::from(*length))?)?;
        texts = rest;
        Some(text.to_vec())
    });
    let mut next = || parts.next().flatten();
    Some(KernelEvent {
        head,
        path: next()?,
        executable: next()?,
        ancestors: [next()?, next()?, next()?, next()?],
    })
}

/// Opens the cgroup v2 directory with this id, if it still exists. `mount` is any directory of the hierarchy.
pub(super) fn open_cgroup(mount: BorrowedFd<'_>, id: u64) -> io::Result<OwnedFd> {
    /// `FILEID_KERNFS` (include/linux/exportfs.h): the handle is the node's 64-bit id.
    const FILEID_KERNFS: i32 = 0xfe;
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        id: [u8; 8],
    }
    let mut handle = Handle {
        bytes: 8,
        kind: FILEID_KERNFS,
        id: id.to_ne_bytes(),
    };
    // SAFETY: the handle has the layout of `struct file_handle` with eight bytes of payload.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut handle,
            libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = i32::try_from(fd).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: the call succeeded, so the descriptor is open and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Nanoseconds of the boot clock, which task start times are in.
pub(super) fn boot_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Nanoseconds of the clock that events are stamped with.
pub(super) fn monotonic_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// An exclusive lock on a file, held until the value is dropped.
pub(super) struct Lock(#[expect(dead_code, reason = "closing the file gives the lock up")] std::fs::File);

impl Lock {
    pub(super) fn take(path: &std::path::Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        rustix::fs::flock(file.as_fd(), rustix::fs::FlockOperation::LockExclusive)?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_behind_the_head_from_the_end() {
        let head = abi::RawEvent {
            tgid: 7,
            lengths: [5, 4, 3, 0, 0, 0],
            ..abi::RawEvent::default()
        };
        // SAFETY: a structure of integers without padding is its bytes.
        let mut bytes =
            unsafe { std::slice::from_raw_parts((&raw const head).cast::<u8>(), size_of::<abi::RawEvent>()) }
                .to_vec();
        bytes.extend_from_slice(b"junk/sh/exe/path");
        let event = event(&bytes).unwrap();
        assert_eq!(event.head.tgid, 7);
        assert_eq!(event.path, b"/path");
        assert_eq!(event.executable, b"/exe");
        assert_eq!(event.ancestors[0], b"/sh");
        assert_eq!(event.ancestors[1], b"");
        assert!(
            super::event(&bytes[..bytes.len() - 8]).is_none(),
            "texts longer than the event"
        );
        assert!(super::event(&bytes[..100]).is_none());
    }
}

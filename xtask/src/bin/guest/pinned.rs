//! Maps that the product has pinned, as a test of its insides reads and writes them.
#![expect(unsafe_code, reason = "bpf(2); every block says what it relies on")]

use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use nix::libc;

const LOOKUP: libc::c_long = 1;
const UPDATE: libc::c_long = 2;
const NEXT_KEY: libc::c_long = 4;
const OBJ_GET: libc::c_long = 7;

/// A map with keys of `K` and values of `V` bytes.
pub(crate) struct PinnedMap<const K: usize, const V: usize>(OwnedFd);

/// `union bpf_attr`, the part for elements of maps.
#[repr(C)]
#[derive(Default)]
struct Element {
    map: u64,
    key: u64,
    value_or_next: u64,
    flags: u64,
}

impl<const K: usize, const V: usize> PinnedMap<K, V> {
    /// The caller says how large keys and values are; another size than the map's would be memory that is not ours.
    pub(crate) fn open(pin: &Path) -> io::Result<Self> {
        let path = CString::new(pin.as_os_str().as_bytes())?;
        let attributes = Element {
            map: path.as_ptr() as u64,
            ..Element::default()
        };
        // SAFETY: the attributes, and the string they point to, live until the call returns; the rest is zero.
        let result = unsafe { libc::syscall(libc::SYS_bpf, OBJ_GET, &raw const attributes, 16) };
        let fd = i32::try_from(check(result)?).map_err(io::Error::other)?;
        // SAFETY: the call succeeded, so the descriptor is open and ours alone.
        let map = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
        for (field, bytes) in [("key_size:", K), ("value_size:", V)] {
            let size = about.lines().find_map(|line| line.strip_prefix(field));
            if size.and_then(|size| size.trim().parse().ok()) != Some(bytes) {
                return Err(io::Error::other(format!(
                    "{}: {field} {size:?}, not {bytes}",
                    pin.display()
                )));
            }
        }
        Ok(map)
    }

    pub(crate) fn get(&self, key: [u8; K]) -> io::Result<[u8; V]> {
        let mut value = [0; V];
        // The sizes were compared when the map was opened.
        self.call(LOOKUP, &raw const key as u64, &raw mut value as u64)?;
        Ok(value)
    }

    pub(crate) fn set(&self, key: [u8; K], value: [u8; V]) -> io::Result<()> {
        self.call(UPDATE, &raw const key as u64, &raw const value as u64)
    }

    /// How many entries a hash has.
    pub(crate) fn count(&self) -> io::Result<usize> {
        let mut keys = 0;
        let mut last: Option<[u8; K]> = None;
        loop {
            let mut next = [0; K];
            let before = last.as_ref().map_or(0, |key| &raw const *key as u64);
            match self.call(NEXT_KEY, before, &raw mut next as u64) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(keys),
                Err(error) => return Err(error),
            }
            keys += 1;
            last = Some(next);
        }
    }

    fn call(&self, command: libc::c_long, key: u64, value_or_next: u64) -> io::Result<()> {
        let attributes = Element {
            map: u64::try_from(self.0.as_raw_fd()).map_err(io::Error::other)?,
            key,
            value_or_next,
            flags: 0,
        };
        // SAFETY: the callers' keys and values have the sizes of the map, and live until the call returns.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                &raw const attributes,
                size_of::<Element>(),
            )
        };
        check(result).map(drop)
    }
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

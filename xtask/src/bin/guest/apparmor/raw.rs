//! System calls that no crate here wraps, for the operations of the suite.
#![expect(unsafe_code, reason = "raw system calls; every block says what it relies on")]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::{errno::Errno, libc};

/// A system call whose arguments are numbers, or addresses of memory that the caller keeps.
///
/// SAFETY (of callers): pointers among the arguments point to memory of the size that the call reads or writes.
unsafe fn call(number: i64, arguments: [u64; 6]) -> nix::Result<i64> {
    let [one, two, three, four, five, six] = arguments;
    // SAFETY: the caller vouches for the pointers.
    Errno::result(unsafe { libc::syscall(number, one, two, three, four, five, six) })
}

/// A call of which every argument is a number.
pub(crate) fn numbers(number: i64, arguments: &[i64]) -> nix::Result<i64> {
    let mut all = [0; 6];
    for (slot, argument) in all.iter_mut().zip(arguments) {
        *slot = argument.cast_unsigned();
    }
    // SAFETY: callers pass no addresses but zero, which every call here takes as "none".
    unsafe { call(number, all) }
}

/// A call that fills or reads a buffer; the buffer's address is argument `place`.
pub(crate) fn with_buffer(
    number: i64,
    arguments: &[i64],
    place: usize,
    buffer: &mut [u8],
) -> nix::Result<i64> {
    let mut all = [0; 6];
    for (slot, argument) in all.iter_mut().zip(arguments) {
        *slot = argument.cast_unsigned();
    }
    all[place] = buffer.as_mut_ptr() as u64;
    // SAFETY: every caller hands over a buffer that is larger than the structure of its call.
    unsafe { call(number, all) }
}

/// Opens a file by its handle, which needs no path and one capability.
pub(super) fn open_by_handle(path: &std::ffi::CStr, mount: &impl AsRawFd) -> nix::Result<OwnedFd> {
    // struct file_handle: size and type of the handle, and the handle.
    let mut handle = [0_u32; 34];
    handle[0] = 128;
    let mut mount_id = 0_i32;
    let here = i64::from(libc::AT_FDCWD).cast_unsigned();
    // SAFETY: the path ends with a zero; the handle has room for the 128 bytes that it claims; the id is ours.
    unsafe {
        call(
            libc::SYS_name_to_handle_at,
            [
                here,
                path.as_ptr() as u64,
                handle.as_mut_ptr() as u64,
                (&raw mut mount_id) as u64,
                0,
                0,
            ],
        )
    }?;
    let mount = i64::from(mount.as_raw_fd()).cast_unsigned();
    // SAFETY: the kernel has just filled the handle.
    let fd = unsafe {
        call(
            libc::SYS_open_by_handle_at,
            [mount, handle.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    }?;
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Loads the socket filter `return 0`.
pub(crate) fn load_bpf_program() -> nix::Result<()> {
    // r0 = 0; exit
    let program: [u64; 2] = [0xb7, 0x95];
    let license = *b"GPL\0";
    // union bpf_attr: type, number of instructions, instructions, licence.
    let mut attribute = [0_u64; 16];
    attribute[0] = 1 | (2 << 32);
    attribute[1] = program.as_ptr() as u64;
    attribute[2] = license.as_ptr() as u64;
    // SAFETY: BPF_PROG_LOAD reads the attribute and what it points to; all of it is alive.
    let fd = unsafe {
        call(
            libc::SYS_bpf,
            [
                5,
                attribute.as_mut_ptr() as u64,
                size_of_val(&attribute) as u64,
                0,
                0,
                0,
            ],
        )
    }?;
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

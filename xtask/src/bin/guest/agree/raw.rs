//! System calls that no crate here wraps, for the operations of the suite.
#![expect(unsafe_code, reason = "raw system calls; every block says what it relies on")]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::{
    errno::Errno,
    libc,
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, Pid, fork},
};

/// A call of which every argument is a number.
pub(super) fn numbers(number: i64, arguments: &[i64]) -> nix::Result<i64> {
    let mut all = [0_i64; 6];
    for (slot, argument) in all.iter_mut().zip(arguments) {
        *slot = *argument;
    }
    let [one, two, three, four, five, six] = all;
    // SAFETY: callers pass no addresses but zero, which every call here takes as "none".
    Errno::result(unsafe { libc::syscall(number, one, two, three, four, five, six) })
}

/// socket(2) with numbers, also those that no crate knows.
pub(super) fn socket(domain: i32, kind: i32, protocol: i32) -> nix::Result<OwnedFd> {
    // SAFETY: no pointers.
    let number = Errno::result(unsafe { libc::socket(domain, kind, protocol) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// connect(2), bind(2) or sendto(2) with an address as bytes.
pub(super) fn with_address(call: Addressed, socket: &OwnedFd, to: &[u8]) -> nix::Result<()> {
    let length = libc::socklen_t::try_from(to.len()).map_err(|_| Errno::EINVAL)?;
    let (socket, address) = (socket.as_raw_fd(), to.as_ptr().cast());
    // SAFETY: the slice outlives the call and has this length; nothing is read through the null pointer of length 0.
    Errno::result(unsafe {
        match call {
            Addressed::Connect => libc::connect(socket, address, length) as isize,
            Addressed::Bind => libc::bind(socket, address, length) as isize,
            Addressed::Send => libc::sendto(socket, std::ptr::null(), 0, 0, address, length),
        }
    })
    .map(drop)
}

#[derive(Clone, Copy)]
pub(super) enum Addressed {
    Connect,
    Bind,
    Send,
}

/// `delete_module(2)` of a module that nobody has.
pub(super) fn delete_module() -> nix::Result<()> {
    // SAFETY: the string is static and ends with a zero.
    Errno::result(unsafe { libc::syscall(libc::SYS_delete_module, c"varmor-nobody".as_ptr(), 0) }).map(drop)
}

/// `clock_settime(2)` to what the clock says.
pub(super) fn set_clock() -> nix::Result<()> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a timespec that outlives both calls.
    unsafe {
        Errno::result(libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now))?;
        Errno::result(libc::clock_settime(libc::CLOCK_REALTIME, &raw const now))?;
    }
    Ok(())
}

/// Raises the hard limit of open files.
pub(super) fn raise_limit() -> nix::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is an rlimit that outlives both calls.
    unsafe {
        Errno::result(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        limit.rlim_max += 1;
        Errno::result(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit))?;
    }
    Ok(())
}

/// Runs `part` in a child; the result is the child's.
pub(super) fn in_child(part: impl FnOnce() -> nix::Result<()>) -> nix::Result<()> {
    // SAFETY: the operator has one thread, so the child may do anything.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let code = part().err().map_or(0, |errno| errno as i32);
            // SAFETY: ends the process without running what the parent has registered for its own end.
            unsafe { libc::_exit(code) }
        }
        ForkResult::Parent { child } => match waitpid(child, None)? {
            WaitStatus::Exited(_, 0) => Ok(()),
            WaitStatus::Exited(_, code) => Err(Errno::from_raw(code)),
            _ => Err(Errno::ECHILD),
        },
    }
}

/// A child that waits until it is killed.
pub(super) fn sleeper() -> nix::Result<Pid> {
    // SAFETY: as above.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => loop {
            // SAFETY: pause(2) has no precondition.
            unsafe { libc::pause() };
        },
    }
}

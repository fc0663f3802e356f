//! System calls that have no safe name: real-time scheduling, fork, mappings, bpf(2) and seccomp.
#![expect(unsafe_code, reason = "raw system calls; every block says what it relies on")]

use std::{
    ffi::{CStr, CString},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::Command,
    ptr,
};

use nix::libc;

/// One instruction of a seccomp filter.
#[repr(C)]
pub(super) struct FilterInstruction {
    pub(super) code: u16,
    pub(super) jump_true: u8,
    pub(super) jump_false: u8,
    pub(super) value: u32,
}

/// Of real-time tasks.
pub(super) const PRIORITY: i32 = 10;

/// If this process is a real-time task, the command will be one of the usual priority, less urgent than the server that this
/// process has started.
pub(super) fn less_urgent(command: &mut Command) -> &mut Command {
    let become_one = || {
        if is_real_time() {
            make_real_time(0, PRIORITY)
        } else {
            Ok(())
        }
    };
    // SAFETY: between fork and exec there are two system calls, which take no memory and no lock.
    unsafe { command.pre_exec(become_one) }
}

/// If this process is a real-time task, the command will be one, and what it starts will not: whoever waits for a vfork goes
/// on before the child does more than become another program.
pub(super) fn urgent_alone(command: &mut Command) -> &mut Command {
    let become_one = || {
        if is_real_time() {
            schedule(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, PRIORITY)
        } else {
            Ok(())
        }
    };
    // SAFETY: between fork and exec there are two system calls, which take no memory and no lock.
    unsafe { command.pre_exec(become_one) }
}

fn is_real_time() -> bool {
    // SAFETY: the call takes a number and returns one.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_FIFO }
}

/// Nothing else gets the processor while this process wants it.
pub(super) fn become_real_time() -> io::Result<()> {
    make_real_time(0, PRIORITY)
}

/// The same for another process (0: this one), and for all that it starts from now on. To become less urgent is allowed to all.
pub(super) fn make_real_time(process: i32, priority: i32) -> io::Result<()> {
    schedule(process, libc::SCHED_FIFO, priority)
}

fn schedule(process: i32, policy: i32, sched_priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the parameters live until the call returns.
    check(unsafe { libc::sched_setscheduler(process, policy, &raw const parameters) }.into()).map(|_| ())
}

/// As many open files as this process may allow itself: a server has one for each connection.
pub(super) fn open_many_files() -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit lives until the call returns, which fills it.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }.into())?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the limit lives until the call returns.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }.into()).map(|_| ())
}

/// Forks; the child ends at once, or after becoming `program`.
pub(super) fn fork_and_wait(program: Option<(&CStr, &CStr)>) -> io::Result<()> {
    // SAFETY: this process has one thread, and the child only calls execve and _exit.
    let child = check(unsafe { libc::fork() }.into())?;
    if child == 0 {
        if let Some((path, name)) = program {
            let arguments = [name.as_ptr(), ptr::null()];
            let environment = [ptr::null()];
            // SAFETY: the strings and the lists, which end with a null pointer, are alive.
            unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        }
        // SAFETY: ends the child without running what the parent has registered for its own end.
        unsafe { libc::_exit(i32::from(program.is_some())) };
    }
    let mut status = 0;
    let child = i32::try_from(child).map_err(io::Error::other)?;
    // SAFETY: the status lives until the call returns.
    check(unsafe { libc::waitpid(child, &raw mut status, 0) }.into())?;
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "the child ended with status {status:#x}"
        )))
    }
}

/// Maps one page of a file and unmaps it.
pub(super) fn map_and_unmap(file: BorrowedFd<'_>, executable: bool) -> io::Result<()> {
    const PAGE: usize = 4096;
    let protection = libc::PROT_READ | if executable { libc::PROT_EXEC } else { 0 };
    // SAFETY: the kernel chooses a free place, so no memory in use is replaced.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            PAGE,
            protection,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: exactly the page that was just mapped, which nobody has a reference to.
    check(unsafe { libc::munmap(page, PAGE) }.into()).map(|_| ())
}

/// Puts this process and all that it starts under a filter.
pub(super) fn filter_system_calls(filter: &[FilterInstruction]) -> io::Result<()> {
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: *const FilterInstruction,
    }
    let program = Program {
        length: u16::try_from(filter.len()).map_err(io::Error::other)?,
        instructions: filter.as_ptr(),
    };
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program has the layout of `struct sock_fprog` and outlives the call, which copies it.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) }.into()).map(|_| ())
}

/// Loads a program that returns 0 for an LSM hook, given by the type id of its function.
pub(super) fn load_empty_program(hook: u32) -> io::Result<OwnedFd> {
    const LOAD: libc::c_long = 5;
    const TYPE_LSM: u32 = 29;
    const ATTACH_LSM: u32 = 27;
    /// `r0 = 0; exit`
    const INSTRUCTIONS: [u64; 2] = [0xb7, 0x95];
    /// `union bpf_attr`, the part for `BPF_PROG_LOAD` up to the field that is used last.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u64; 2],
        interface: u32,
        attach_type: u32,
        btf: u32,
        function_info_size: u32,
        function_info: u64,
        function_infos: u32,
        line_info_size: u32,
        line_info: u64,
        line_infos: u32,
        attach_to: u32,
    }
    let attributes = Attributes {
        kind: TYPE_LSM,
        count: 2,
        instructions: INSTRUCTIONS.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        attach_type: ATTACH_LSM,
        attach_to: hook,
        ..Attributes::default()
    };
    // SAFETY: the attributes, and the instructions and the licence they point to, live until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            LOAD,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    owned(result)
}

/// Attaches an LSM program; it stays attached while the descriptor is open.
pub(super) fn attach(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
    #[repr(C)]
    struct Attributes {
        name: u64,
        program: u32,
        _pad: u32,
    }
    let attributes = Attributes {
        name: 0,
        program: u32::try_from(program.as_raw_fd()).map_err(io::Error::other)?,
        _pad: 0,
    };
    // SAFETY: the attributes live until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            RAW_TRACEPOINT_OPEN,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    owned(result)
}

/// Opens a program that is pinned.
pub(super) fn pinned(path: &Path) -> io::Result<OwnedFd> {
    const OBJ_GET: libc::c_long = 7;
    #[repr(C)]
    struct Attributes {
        path: u64,
        descriptor: u32,
        flags: u32,
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = Attributes {
        path: path.as_ptr() as u64,
        descriptor: 0,
        flags: 0,
    };
    // SAFETY: the attributes, and the string they point to, live until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            OBJ_GET,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    owned(result)
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(check(result)?).map_err(io::Error::other)?;
    // SAFETY: the call succeeded, so the descriptor is open and ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

//! System calls that no crate here wraps. The only file of the lab with unsafe code.

use std::{
    ffi::{CStr, CString},
    io::{Read, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    libc,
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, Pid, fork},
};

use super::case::{Done, Failure, broken};

/// Numbers that are the same on every architecture since 5.x.
const MOUNT_SETATTR: i64 = 442;
const FILE_GETATTR: i64 = 468;
const FILE_SETATTR: i64 = 469;

/// Exit codes by which a child says what became of its part.
const CODE_ALLOWED: i32 = 40;
const CODE_REFUSED: i32 = 41;
const CODE_MISSING: i32 = 43;
const CODE_BROKEN: i32 = 44;
/// What the programs of the battery's executions return (`battery proof`, `exit 42`).
pub(super) const PROOF: i32 = 42;

/// A system call whose arguments are numbers, or addresses of memory that the caller keeps.
///
/// SAFETY (of callers): pointers among the arguments point to memory of the size that the call reads or writes.
unsafe fn call(number: i64, arguments: [u64; 6]) -> nix::Result<i64> {
    let [one, two, three, four, five, six] = arguments;
    // SAFETY: the caller vouches for the pointers.
    Errno::result(unsafe { libc::syscall(number, one, two, three, four, five, six) })
}

fn fd_of(result: nix::Result<i64>) -> nix::Result<OwnedFd> {
    let number = i32::try_from(result?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn address<T: ?Sized>(value: &T) -> u64 {
    std::ptr::from_ref(value).cast::<u8>() as u64
}

fn address_mut<T: ?Sized>(value: &mut T) -> u64 {
    std::ptr::from_mut(value).cast::<u8>() as u64
}

fn number(fd: &impl AsFd) -> u64 {
    u64::try_from(fd.as_fd().as_raw_fd()).unwrap_or(u64::MAX)
}

/// `AT_FDCWD` as an argument.
const HERE: u64 = (-100_i64).cast_unsigned();

/// Runs `part` in a child and returns what became of it.
pub(super) fn in_child(part: impl FnOnce() -> Done) -> Done {
    child(part, || {
        // SAFETY: steps are single-threaded programs, so the child may do anything.
        Ok(match unsafe { fork() }? {
            ForkResult::Child => 0,
            ForkResult::Parent { child } => i64::from(child.as_raw()),
        })
    })
}

/// As [`in_child`], for a child made by clone(2) with these flags.
pub(super) fn in_clone(flags: i32, part: impl FnOnce() -> Done) -> Done {
    let flags = u64::from((flags | libc::SIGCHLD).cast_unsigned());
    // SAFETY: without CLONE_VM and with no stack the child is a copy of this process, as after fork.
    child(part, || unsafe { call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]) })
}

/// As [`in_child`], for a child made by clone3(2) with these flags.
pub(super) fn in_clone3(flags: i32, part: impl FnOnce() -> Done) -> Done {
    // struct clone_args of CLONE_ARGS_SIZE_VER0: flags, pidfd, child_tid, parent_tid, exit_signal, stack, size, tls.
    let mut arguments = [0_u64; 8];
    arguments[0] = u64::from(flags.cast_unsigned());
    arguments[4] = u64::from(libc::SIGCHLD.cast_unsigned());
    // SAFETY: as in `in_clone`; the kernel reads 64 bytes.
    child(part, || unsafe {
        call(libc::SYS_clone3, [address(&arguments), 64, 0, 0, 0, 0])
    })
}

/// The child says by its exit code what became of the part, and by a pipe why.
fn child(part: impl FnOnce() -> Done, make: impl FnOnce() -> nix::Result<i64>) -> Done {
    let (mut reader, mut writer) = std::io::pipe()?;
    let child = make()?;
    if child == 0 {
        let (code, why) = match part() {
            Ok(()) => (CODE_ALLOWED, String::new()),
            Err(Failure::Refused(why)) => (CODE_REFUSED, why),
            Err(Failure::Missing(why)) => (CODE_MISSING, why),
            Err(Failure::Broken(why)) => (CODE_BROKEN, why),
        };
        let _ = writer.write_all(why.as_bytes());
        // SAFETY: ends the process without running what the parent has registered for its own end.
        unsafe { libc::_exit(code) }
    }
    drop(writer);
    let mut why = String::new();
    reader.read_to_string(&mut why)?;
    match waitpid(Pid::from_raw(i32::try_from(child).unwrap_or(-1)), None)? {
        WaitStatus::Exited(_, CODE_ALLOWED | PROOF) => Ok(()),
        WaitStatus::Exited(_, CODE_REFUSED) => Err(Failure::Refused(why)),
        WaitStatus::Exited(_, CODE_MISSING) => Err(Failure::Missing(why)),
        WaitStatus::Signaled(_, signal, _) => Err(Failure::Refused(format!("killed by {signal}"))),
        status => Err(broken(format!("a child ended with {status:?}: {why}"))),
    }
}

/// Replaces the process by a program; returns only the error.
pub(super) fn execveat(folder: impl AsFd, path: &CStr, arguments: &[&CStr], flags: i32) -> Errno {
    let mut pointers: Vec<u64> = arguments.iter().map(|word| word.as_ptr() as u64).collect();
    pointers.push(0);
    let environment = [0_u64];
    let numbers = [
        number(&folder),
        path.as_ptr() as u64,
        address(pointers.as_slice()),
        address(&environment),
        u64::from(flags.cast_unsigned()),
        0,
    ];
    // SAFETY: strings and arrays end with zero and outlive the call.
    match unsafe { call(libc::SYS_execveat, numbers) } {
        Ok(_) => Errno::UnknownErrno,
        Err(errno) => errno,
    }
}

/// Asks the kernel to load a module from a file.
pub(super) fn finit_module(file: impl AsFd) -> nix::Result<()> {
    // SAFETY: the second argument is an empty string.
    unsafe {
        call(
            libc::SYS_finit_module,
            [number(&file), c"".as_ptr() as u64, 0, 0, 0, 0],
        )
    }
    .map(drop)
}

/// bpf(2) with an attribute of 16 words, which the kernel may fill.
pub(super) fn bpf(command: u32, attribute: &mut [u32; 16]) -> nix::Result<i64> {
    let attribute = address_mut(attribute);
    // SAFETY: the attribute has the size that is said; commands used here get no other pointers than those of
    // strings that outlive the call.
    unsafe { call(libc::SYS_bpf, [u64::from(command), attribute, 64, 0, 0, 0]) }
}

/// Any system call whose arguments are numbers.
pub(super) fn numbers(call_number: i64, arguments: [u64; 4]) -> nix::Result<i64> {
    let [one, two, three, four] = arguments;
    // SAFETY: no pointers.
    unsafe { call(call_number, [one, two, three, four, 0, 0]) }
}

/// `fchmod(2)` through the gate for 32-bit programs.
#[cfg(target_arch = "x86_64")]
pub(super) fn fchmod_32(file: impl AsFd, mode: u32) -> nix::Result<()> {
    const FCHMOD: u64 = 94;
    let result: i64;
    // SAFETY: int 0x80 keeps the stack and clobbers rax and r8 to r11 only; rbx, which the compiler reserves, is put
    // back; no pointers.
    unsafe {
        core::arch::asm!(
            "push rbx",
            "mov rbx, {file}",
            "int 0x80",
            "pop rbx",
            file = in(reg) number(&file),
            inlateout("rax") FCHMOD => result,
            in("rcx") u64::from(mode),
            lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
        );
    }
    // The 32-bit convention returns 32 bits.
    let result = u32::try_from(result & 0xffff_ffff).unwrap_or(0).cast_signed();
    if (-4095..0).contains(&result) {
        Err(Errno::from_raw(-result))
    } else {
        Ok(())
    }
}

/// `setsockopt(2)` with one program of classic BPF: "keep everything".
pub(super) fn attach_filter(socket: impl AsFd, level: u64, option: u64) -> nix::Result<()> {
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: u64,
    }
    // BPF_RET | BPF_K
    let keep: u64 = 0x0000_ffff_0000_0006;
    let program = Program {
        length: 1,
        instructions: address(&keep),
    };
    let arguments = [
        number(&socket),
        level,
        option,
        address(&program),
        size_of::<Program>() as u64,
        0,
    ];
    // SAFETY: the program and its instruction live until the call returns.
    unsafe { call(libc::SYS_setsockopt, arguments) }.map(drop)
}

/// `BPF_PROG_LOAD` of a socket filter that returns 0.
pub(super) fn load_program(command: u64) -> nix::Result<()> {
    // r0 = 0; exit
    let instructions: [u64; 2] = [0x0000_0000_0000_00b7, 0x0000_0000_0000_0095];
    let license = c"GPL";
    let mut attribute = [0_u64; 8];
    // BPF_PROG_TYPE_SOCKET_FILTER, two instructions.
    attribute[0] = 1 | 2 << 32;
    attribute[1] = address(&instructions);
    attribute[2] = license.as_ptr() as u64;
    // SAFETY: the attribute and what it points to live until the call returns.
    fd_of(unsafe { call(libc::SYS_bpf, [command, address_mut(&mut attribute), 64, 0, 0, 0]) }).map(drop)
}

/// As [`bpf`], for commands that return a descriptor.
pub(super) fn bpf_fd(command: u32, attribute: &mut [u32; 16]) -> nix::Result<OwnedFd> {
    fd_of(bpf(command, attribute))
}

/// The two halves of a string's address, for an attribute.
pub(super) fn halves(text: &CStr) -> [u32; 2] {
    let address = text.as_ptr() as u64;
    [
        u32::try_from(address & 0xffff_ffff).unwrap_or(0),
        u32::try_from(address >> 32).unwrap_or(0),
    ]
}

/// `mount_setattr(2)` on a path: sets and clears attributes.
pub(super) fn mount_setattr(
    folder: Option<&OwnedFd>,
    path: &CStr,
    flags: i32,
    set: u64,
    clear: u64,
) -> nix::Result<()> {
    let attributes = [set, clear, 0, 0];
    let folder = folder.map_or(HERE, number);
    let numbers = [
        folder,
        path.as_ptr() as u64,
        u64::from(flags.cast_unsigned()),
        address(&attributes),
        32,
        0,
    ];
    // SAFETY: the kernel reads 32 bytes of attributes.
    unsafe { call(MOUNT_SETATTR, numbers) }.map(drop)
}

/// `file_setattr(2)`: writes back the attributes that the file has.
pub(super) fn file_setattr(path: &CStr) -> Result<(), Failure> {
    let mut attributes = [0_u64; 3];
    let buffer = address_mut(&mut attributes);
    // SAFETY: the kernel writes at most 24 bytes.
    unsafe { call(FILE_GETATTR, [HERE, path.as_ptr() as u64, buffer, 24, 0, 0]) }
        .map_err(|errno| super::case::missing(format!("file_getattr: {errno}")))?;
    // SAFETY: the kernel reads 24 bytes.
    Ok(unsafe { call(FILE_SETATTR, [HERE, path.as_ptr() as u64, buffer, 24, 0, 0]) }.map(drop)?)
}

/// A file handle of a path, and a descriptor of the object behind it.
pub(super) fn open_by_handle(mount: impl AsFd, path: &CStr) -> Result<OwnedFd, Failure> {
    // struct file_handle: bytes, type, then the handle.
    let mut handle = [0_u32; 34];
    handle[0] = 128;
    let mut mount_id = 0_i32;
    let numbers = [
        HERE,
        path.as_ptr() as u64,
        address_mut(&mut handle),
        address_mut(&mut mount_id),
        0,
        0,
    ];
    // SAFETY: the buffer holds a handle of 128 bytes.
    super::case::setup("name_to_handle_at", unsafe {
        call(libc::SYS_name_to_handle_at, numbers)
    })?;
    let flags = u64::from(libc::O_RDONLY.cast_unsigned());
    // SAFETY: the handle was filled by the kernel.
    Ok(fd_of(unsafe {
        call(
            libc::SYS_open_by_handle_at,
            [number(&mount), address(&handle), flags, 0, 0, 0],
        )
    })?)
}

/// How [`map_file`] asks for execution.
#[derive(Clone, Copy)]
pub(super) enum Mapping {
    Executable,
    ExecutableLater,
    SharedWritable,
}

/// Maps the first page of a file.
pub(super) fn map_file(file: impl AsFd, mapping: Mapping) -> nix::Result<()> {
    let read = u64::from(libc::PROT_READ.cast_unsigned());
    let (protection, flags) = match mapping {
        Mapping::Executable => (read | 4, 2),
        Mapping::ExecutableLater => (read, 2),
        Mapping::SharedWritable => (read | 2, 1),
    };
    // SAFETY: the kernel chooses the place, nothing else uses it.
    let at = unsafe { call(libc::SYS_mmap, [0, 4096, protection, flags, number(&file), 0]) }?;
    if matches!(mapping, Mapping::ExecutableLater) {
        // SAFETY: the page was mapped above and holds no Rust object.
        unsafe { call(libc::SYS_mprotect, [at.cast_unsigned(), 4096, read | 4, 0, 0, 0]) }?;
    }
    Ok(())
}

/// Copies from another process's memory.
pub(super) fn process_vm_readv(pid: i32, from: u64) -> nix::Result<()> {
    let mut buffer = [0_u64; 1];
    let own = [address_mut(&mut buffer), 8];
    let other = [from, 8];
    let pid = u64::from(pid.cast_unsigned());
    // SAFETY: the kernel writes 8 bytes to `buffer`.
    unsafe {
        call(
            libc::SYS_process_vm_readv,
            [pid, address(&own), 1, address(&other), 1, 0],
        )
    }
    .map(drop)
}

/// sendmmsg(2) with one message.
pub(super) fn sendmmsg(socket: impl AsFd, to: &[u8], flags: i32) -> nix::Result<()> {
    let data = *b"x";
    let parts = [address(&data), 1_u64];
    // struct mmsghdr: msg_name, msg_namelen, msg_iov, msg_iovlen, msg_control, msg_controllen, msg_flags, msg_len.
    let message = [address(to), to.len() as u64, address(&parts), 1, 0, 0, 0, 0];
    let flags = u64::from(flags.cast_unsigned());
    // SAFETY: addresses of locals that outlive the call, with their sizes.
    let sent = unsafe {
        call(
            libc::SYS_sendmmsg,
            [number(&socket), address(&message), 1, flags, 0, 0],
        )
    }?;
    if sent == 1 { Ok(()) } else { Err(Errno::EIO) }
}

/// sendto(2) with the address as bytes: no wrapper takes one whose family is wrong.
pub(super) fn sendto(socket: impl AsFd, data: &[u8], to: &[u8], flags: i32) -> nix::Result<()> {
    let numbers = [
        number(&socket),
        address(data),
        data.len() as u64,
        u64::from(flags.cast_unsigned()),
        address(to),
        to.len() as u64,
    ];
    // SAFETY: both slices outlive the call.
    unsafe { call(libc::SYS_sendto, numbers) }.map(drop)
}

/// sendmsg(2) with an address as bytes and control data.
pub(super) fn sendmsg(
    socket: impl AsFd,
    data: &[u8],
    to: &[u8],
    control: &[u8],
    flags: i32,
) -> nix::Result<()> {
    let parts = [address(data), data.len() as u64];
    let message = Message {
        name: address(to),
        name_length: to.len() as u64,
        parts: address(&parts),
        part_count: 1,
        control: if control.is_empty() { 0 } else { address(control) },
        control_length: control.len() as u64,
        flags: 0,
    };
    let flags = u64::from(flags.cast_unsigned());
    // SAFETY: addresses of locals and slices that outlive the call, with their sizes.
    unsafe {
        call(
            libc::SYS_sendmsg,
            [number(&socket), address(&message), flags, 0, 0, 0],
        )
    }
    .map(drop)
}

/// connect(2) with an address as bytes.
pub(super) fn connect(socket: impl AsFd, to: &[u8]) -> nix::Result<()> {
    // SAFETY: the slice outlives the call.
    unsafe {
        call(
            libc::SYS_connect,
            [number(&socket), address(to), to.len() as u64, 0, 0, 0],
        )
    }
    .map(drop)
}

/// bind(2) with an address as bytes.
pub(super) fn bind(socket: impl AsFd, to: &[u8]) -> nix::Result<()> {
    // SAFETY: the slice outlives the call.
    unsafe {
        call(
            libc::SYS_bind,
            [number(&socket), address(to), to.len() as u64, 0, 0, 0],
        )
    }
    .map(drop)
}

/// socket(2) with numbers, also those that no crate knows.
pub(super) fn socket(domain: i32, kind: i32, protocol: i32) -> nix::Result<OwnedFd> {
    let numbers = [domain, kind, protocol].map(|number| u64::from(number.cast_unsigned()));
    // SAFETY: no pointers.
    fd_of(unsafe { call(libc::SYS_socket, [numbers[0], numbers[1], numbers[2], 0, 0, 0]) })
}

/// `struct msghdr`.
#[repr(C)]
pub(super) struct Message {
    name: u64,
    name_length: u64,
    parts: u64,
    part_count: u64,
    control: u64,
    control_length: u64,
    flags: u64,
}

/// A submission of `io_uring`: the words that the operations here use.
#[derive(Default)]
pub(super) struct Submission<'a> {
    pub(super) opcode: u8,
    pub(super) fd: Option<i32>,
    pub(super) offset: u64,
    pub(super) address: Option<&'a [u8]>,
    pub(super) length: u32,
    pub(super) flags: u32,
    /// Sends `data` to `to`, for `IORING_OP_SENDMSG`.
    pub(super) message: Option<(&'a [u8], &'a [u8])>,
    /// The second path of a rename, in the place of the offset.
    pub(super) second: Option<&'a CStr>,
}

/// Submits one operation and returns its result.
pub(super) fn uring(submission: &Submission<'_>) -> Result<i32, Failure> {
    const PARAMETERS: usize = 30;
    const RING: u64 = 4096;
    let mut parameters = [0_u32; PARAMETERS];
    // SAFETY: struct io_uring_params has 120 bytes.
    let ring = fd_of(unsafe {
        call(
            libc::SYS_io_uring_setup,
            [4, address_mut(&mut parameters), 0, 0, 0, 0],
        )
    })
    .map_err(|errno| match errno {
        Errno::ENOSYS | Errno::EPERM => super::case::missing(format!("io_uring_setup: {errno}")),
        errno => broken(format!("io_uring_setup: {errno}")),
    })?;
    let map = |offset: u64| {
        // SAFETY: a shared mapping of the ring, which the kernel sized; nothing else lies there.
        super::case::setup("map the ring", unsafe {
            call(libc::SYS_mmap, [0, RING, 3, 0x8001, number(&ring), offset])
        })
        .map(i64::cast_unsigned)
    };
    let (rings, entries) = (map(0)?, map(0x1000_0000)?);
    // sq_off and cq_off: head, tail, ring_mask, ring_entries, ...; array is the seventh word of sq_off, cqes the
    // sixth of cq_off.
    let (tail, array) = (parameters[11], parameters[16]);
    let cqes = parameters[25];
    let parts = submission
        .message
        .map(|(data, _)| [address(data), data.len() as u64]);
    let message = submission
        .message
        .zip(parts.as_ref())
        .map(|((_, to), parts)| Message {
            name: address(to),
            name_length: to.len() as u64,
            parts: address(parts),
            part_count: 1,
            control: 0,
            control_length: 0,
            flags: 0,
        });
    let target = submission.address.map_or(0, address);
    let mut entry = [0_u64; 8];
    let fd = submission.fd.unwrap_or(-100).cast_unsigned();
    entry[0] = u64::from(submission.opcode) | u64::from(fd) << 32;
    entry[1] = submission
        .second
        .map_or(submission.offset, |path| path.as_ptr() as u64);
    entry[2] = message.as_ref().map_or(target, address);
    entry[3] = u64::from(submission.length) | u64::from(submission.flags) << 32;
    // SAFETY: the mappings are at least a page, the kernel said where the words are, and nobody else uses the ring.
    unsafe {
        (entries as *mut [u64; 8]).write_volatile(entry);
        ((rings + u64::from(array)) as *mut u32).write_volatile(0);
        ((rings + u64::from(tail)) as *mut u32).write_volatile(1);
    }
    // SAFETY: no pointers; waits for one completion.
    super::case::setup("io_uring_enter", unsafe {
        call(libc::SYS_io_uring_enter, [number(&ring), 1, 1, 1, 0, 0])
    })?;
    // SAFETY: the kernel has written one completion: user_data, then the result.
    let result = unsafe { ((rings + u64::from(cqes) + 8) as *const i32).read_volatile() };
    match result {
        0.. => Ok(result),
        // The connection is on its way.
        -115 => Ok(0),
        // What a kernel without the operation says.
        -22 => Err(super::case::missing("io_uring has not this operation")),
        error => Err(Errno::from_raw(-error).into()),
    }
}

/// A C string without zero bytes inside.
pub(super) fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// Makes a descriptor available under another number, also after an exec.
pub(super) fn duplicate_to(from: i32, to: i32) -> nix::Result<()> {
    // SAFETY: no pointers; nobody else owns the number `to`.
    Errno::result(unsafe { libc::dup2(from, to) }).map(drop)
}

/// Has a program's process do something between its fork and its exec.
pub(super) fn before_exec(command: &mut std::process::Command, part: fn() -> std::io::Result<()>) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the parts make a system call and touch no lock or memory of the parent.
    unsafe { command.pre_exec(part) };
}

/// A copy of a descriptor that this process was started with.
pub(super) fn inherited(number: i32) -> std::io::Result<OwnedFd> {
    // SAFETY: the number is only used for the copy, and a wrong one is an error.
    unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()
}

/// Lets a descriptor live on after an exec.
pub(super) fn keep_open(file: impl AsFd) -> Done {
    Ok(rustix::io::fcntl_setfd(
        file.as_fd(),
        rustix::io::FdFlags::empty(),
    )?)
}

/// Runs `part` in a child, which ends after it.
pub(super) fn fork_into(part: impl FnOnce()) -> nix::Result<Pid> {
    // SAFETY: other threads of the launcher only wait for connections and hold no lock.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            part();
            // SAFETY: ends the process without running what the parent has registered for its own end.
            unsafe { libc::_exit(1) }
        }
    }
}

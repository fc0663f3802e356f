//! Events: written after the verdict, never part of it. What is not written is counted.

mod admit;
mod text;

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{
    bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_task, bpf_get_current_uid_gid,
    bpf_ktime_get_ns, bpf_probe_read_kernel,
};
use varmor_common::abi::{
    EVENT_ANCESTOR_EXE, EVENT_ANCESTORS, EVENT_EXE, EVENT_EXEC, EVENT_FILE, EVENT_PATH, EVENT_TEXT,
};

use crate::{
    kernel::word_or_zero,
    labels, maps,
    offsets::{
        DENTRY_NAME_LEN, FILE_PATH, MM_EXE_FILE, MNTNS_INUM, NSPROXY_MNT, PATH_DENTRY, PATH_MNT, TASK_COMM,
        TASK_MM, TASK_NSPROXY, TASK_REAL_PARENT, TASK_TGID,
    },
};

/// What an event is about, in one word: event kind, operation, action, fault, whose rules.
#[derive(Clone, Copy)]
pub struct What {
    kind: u32,
    operation: u32,
    action: u32,
    fault: u32,
    /// It is counted and not written.
    quiet: bool,
    /// Index of the artefact whose rules spoke; 0 = none.
    artefact: u32,
}

impl What {
    #[inline(always)]
    pub const fn new(kind: u32, operation: u32) -> Self {
        Self {
            kind,
            operation,
            action: 0,
            fault: 0,
            quiet: false,
            artefact: 0,
        }
    }

    #[inline(always)]
    pub const fn operation(self) -> u32 {
        self.operation
    }

    #[inline(always)]
    pub const fn action(self, action: u32) -> Self {
        Self { action, ..self }
    }

    #[inline(always)]
    pub const fn fault(self, fault: u32) -> Self {
        Self { fault, ..self }
    }

    #[inline(always)]
    pub const fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    #[inline(always)]
    pub const fn artefact(self, artefact: u32) -> Self {
        Self { artefact, ..self }
    }

    #[inline(always)]
    pub const fn pack(self) -> u64 {
        self.kind as u64
            | (self.operation as u64) << 8
            | (self.action as u64) << 16
            | (self.fault as u64) << 24
            | (self.quiet as u64) << QUIET_SHIFT
            | (self.artefact as u64) << ARTEFACT_SHIFT
    }
}

const QUIET_SHIFT: u32 = 32;
const ARTEFACT_SHIFT: u32 = 40;

#[inline(always)]
pub const fn site_request(site: u32, request: u32) -> u64 {
    site as u64 | (request as u64) << 32
}

/// Counts one verdict and writes its event, unless it is quiet, a repetition, or one too many. `first` and `second`
/// are the dentry and the mount for files and executables, else data.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn emit(what: u64, site_request: u64, first: u64, second: u64, third: u64) -> u32 {
    let profile = profile_of(what >> ARTEFACT_SHIFT);
    let slot = profile as u32;
    let domain = current_domain() as u32;
    let site = site_request as u32;
    let action = (what >> 16 & 0xff) as u32;
    let quiet = (what >> QUIET_SHIFT & 1) * admit::QUIET;
    let identity = identity_of(what, site_request, first, second, third, slot);
    let admitted = admit::admit(
        profile,
        u64::from(domain) | u64::from(site) << 32,
        u64::from(action) | quiet | site_request >> 32 << 32,
        identity,
    );
    if admitted & admit::WRITE == 0 {
        return 0;
    }
    let buffer = text::claim_buffer();
    if buffer == text::NONE {
        admit::lost(slot);
        return 0;
    }
    // SAFETY: the helper has no precondition.
    let task = unsafe { bpf_get_current_task() };
    let kind = (what & 0xff) as u32;
    let mut floor = (EVENT_TEXT - EVENT_PATH) as u32;
    if kind == EVENT_FILE || kind == EVENT_EXEC {
        text::write_path(text::place(buffer, 0), floor, first, second);
    }
    floor -= EVENT_EXE as u32;
    write_executable(text::place(buffer, 1), floor, task);
    let mut parent = task;
    let mut i = 0;
    while i < EVENT_ANCESTORS as u32 {
        parent = word_at(parent + u64::from(TASK_REAL_PARENT.load()));
        floor -= EVENT_ANCESTOR_EXE as u32;
        write_executable(text::place(buffer, 2 + i), floor, parent);
        i += 1;
    }
    let cgroup = current_cgroup();
    let written = text::output(buffer, |event| {
        // SAFETY: `output` gives a place for the event; every field is an integer, so writing it in place is whole,
        // and a helper that fails leaves zeros.
        unsafe {
            (*event).kind = kind;
            (*event).operation = (what >> 8 & 0xff) as u32;
            (*event).action = action;
            (*event).fault = (what >> 24 & 0xff) as u32;
            (*event).time = bpf_ktime_get_ns();
            (*event).cgroup = cgroup;
            (*event).identity = identity;
            (*event).slot = slot;
            (*event).generation = (profile >> 32) as u32;
            (*event).domain = domain;
            (*event).site = site;
            (*event).requested = (site_request >> 32) as u32;
            (*event).repeated = admitted as u32;
            let id = bpf_get_current_pid_tgid();
            (*event).tgid = (id >> 32) as u32;
            (*event).tid = id as u32;
            let id = bpf_get_current_uid_gid();
            (*event).uid = id as u32;
            (*event).gid = (id >> 32) as u32;
            (*event).mount_namespace = mount_namespace(task);
            (*event)._pad = 0;
            (*event).data = [first, second, third, 0];
            let _ = bpf_get_current_comm((&raw mut (*event).comm).cast::<c_void>(), 16);
            let mut parent = task;
            let mut i = 0;
            while i < EVENT_ANCESTORS {
                parent = word_at(parent + u64::from(TASK_REAL_PARENT.load()));
                let ancestor = &raw mut (*event).ancestors[i];
                copy(&raw mut (*ancestor).tgid, parent + u64::from(TASK_TGID.load()));
                (*ancestor)._pad = 0;
                copy(&raw mut (*ancestor).comm, parent + u64::from(TASK_COMM.load()));
                i += 1;
            }
        }
    });
    text::release(buffer);
    if !written {
        admit::lost(slot);
    }
    1
}

/// Slot (low half) and generation of the artefact whose rules spoke: the one that judged, also while another takes its
/// place. A function of its own, as `claim_buffer`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn profile_of(artefact: u64) -> u64 {
    match maps::descriptor(artefact as u32) {
        Some(profile) => u64::from(profile.slot) | u64::from(profile.generation) << 32,
        None => 0,
    }
}

/// Id of the container's cgroup; 0 = not protected.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn current_cgroup() -> u64 {
    labels::current().map_or(0, |label| label.cgroup)
}

/// The target groups that the task has entered.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn current_domain() -> u64 {
    labels::current().map_or(0, |label| u64::from(label.domain))
}

/// A word of kernel memory, or zero. A function of its own, so that each of many reads has the same place on the stack
/// that the programs share with all their functions.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn word_at(address: u64) -> u64 {
    word_or_zero(address)
}

/// Copies from kernel memory, or zeros.
///
/// # Safety
/// `to` is writable.
#[inline(always)]
unsafe fn copy<T>(to: *mut T, from: u64) {
    // SAFETY: see above; the helper writes all bytes.
    unsafe { bpf_probe_read_kernel(to.cast::<c_void>(), size_of::<T>() as u32, from as *const c_void) };
}

/// Equal for equal events. A dentry's address may be reused at once, but not with the hash of the same name (which
/// the kernel salts with the parent) and the same parent.
#[inline(always)]
fn identity_of(what: u64, site_request: u64, first: u64, second: u64, third: u64, slot: u32) -> u64 {
    let kind = (what & 0xff) as u32;
    // Elsewhere `first` is data, which the task may have chosen: no address to read at.
    let dentry = if kind == EVENT_FILE || kind == EVENT_EXEC {
        first
    } else {
        0
    };
    let name = word_at(dentry + u64::from(DENTRY_NAME_LEN.load()) - 4);
    // SAFETY: the helper has no precondition.
    let tgid = unsafe { bpf_get_current_pid_tgid() } >> 32;
    let mut identity = mix(what & 0xffff_ffff, site_request);
    identity = mix(identity, first);
    identity = mix(identity, second);
    identity = mix(identity, third);
    identity = mix(identity, name);
    mix(identity, tgid | u64::from(slot) << 32)
}

/// One step of a multiplicative hash (the constant of FxHash); only equality counts.
#[inline(always)]
const fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Writes the path of a task's executable. A thread of the kernel has none: reading through NULL gives NULL, and the
/// path of nothing is empty.
#[inline(always)]
fn write_executable(place: u64, floor: u32, task: u64) {
    let mm = word_at(task + u64::from(TASK_MM.load()));
    let file = word_at(mm + u64::from(MM_EXE_FILE.load()));
    let path = file + u64::from(FILE_PATH.load());
    text::write_path(
        place,
        floor,
        word_at(path + u64::from(PATH_DENTRY.load())),
        word_at(path + u64::from(PATH_MNT.load())),
    );
}

#[inline(always)]
fn mount_namespace(task: u64) -> u32 {
    let proxy = word_at(task + u64::from(TASK_NSPROXY.load()));
    let namespace = word_at(proxy + u64::from(NSPROXY_MNT.load()));
    word_at(namespace + u64::from(MNTNS_INUM.load())) as u32
}

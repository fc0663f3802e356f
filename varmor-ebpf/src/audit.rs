//! Events: written after the verdict, never part of it. A full ring loses the event and counts the loss.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{
    bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_task, bpf_get_current_uid_gid,
    bpf_ktime_get_ns, bpf_probe_read_kernel,
};
use varmor_common::abi::{
    Ancestor, COUNTER_LOST, EVENT_ANCESTORS, EVENT_CONNECT, EVENT_EXE, EVENT_EXEC, EVENT_FILE, EVENT_PATH,
    RawEvent,
};

use crate::{
    identity::{self, Who},
    kernel::{mask, probe},
    maps::{EVENTS, count},
    offsets::{
        FILE_PATH, MM_EXE_FILE, MNTNS_INUM, MOUNT_PARENT, MOUNT_VFSMOUNT, NSPROXY_MNT, PATH_DENTRY, PATH_MNT,
        TASK_COMM, TASK_MM, TASK_NSPROXY, TASK_REAL_PARENT, TASK_TGID, VFSMOUNT_ROOT,
    },
    path::Name,
};

/// Components of a path in an event; a deeper path keeps its tail.
const PATH_COMPONENTS: u32 = 40;
const EXE_COMPONENTS: u32 = 20;

/// What an event is about, in one word: event kind, operation, action, fault.
#[derive(Clone, Copy)]
pub struct What {
    kind: u32,
    operation: u32,
    action: u32,
    fault: u32,
}

impl What {
    #[inline(always)]
    pub const fn new(kind: u32, operation: u32) -> Self {
        Self {
            kind,
            operation,
            action: 0,
            fault: 0,
        }
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
    pub const fn pack(self) -> u64 {
        self.kind as u64
            | (self.operation as u64) << 8
            | (self.action as u64) << 16
            | (self.fault as u64) << 24
    }
}

#[inline(always)]
pub const fn site_request(site: u32, request: u32) -> u64 {
    site as u64 | (request as u64) << 32
}

/// Writes one event. `first` and `second` are the dentry and the mount for files and executables, else data.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn emit(what: u64, site_request: u64, first: u64, second: u64, third: u64) -> u32 {
    let Some(mut entry) = EVENTS.reserve::<RawEvent>(0) else {
        count(COUNTER_LOST);
        return 0;
    };
    let event: *mut RawEvent = entry.as_mut_ptr();
    // SAFETY: the reservation is ours until it is submitted and large enough for the event; every field is an
    // integer, so writing it in place is whole.
    unsafe {
        (*event).kind = (what & 0xff) as u32;
        (*event).operation = (what >> 8 & 0xff) as u32;
        (*event).action = (what >> 16 & 0xff) as u32;
        (*event).fault = (what >> 24 & 0xff) as u32;
        (*event).site = site_request as u32;
        (*event).requested = (site_request >> 32) as u32;
        (*event).time = bpf_ktime_get_ns();
        let id = bpf_get_current_pid_tgid();
        (*event).tgid = (id >> 32) as u32;
        (*event).tid = id as u32;
        let id = bpf_get_current_uid_gid();
        (*event).uid = id as u32;
        (*event).gid = (id >> 32) as u32;
        (*event).domain = 0;
        (*event).cgroup = 0;
        (*event).slot = 0;
        (*event).generation = 0;
        if let Some(label) = identity::storage::current() {
            (*event).cgroup = label.cgroup;
            if let Who::Subject(subject) = identity::subject(label) {
                (*event).slot = subject.profile.slot;
                (*event).generation = subject.profile.generation;
            }
        }
        (*event).comm = [0; 16];
        let _ = bpf_get_current_comm((&raw mut (*event).comm).cast::<c_void>(), 16);
        let task = bpf_get_current_task();
        (*event).mount_namespace = mount_namespace(task).unwrap_or(0);
        let mut parent = task;
        let mut i = 0;
        while i < EVENT_ANCESTORS {
            parent = probe::<u64>(parent + u64::from(TASK_REAL_PARENT.load())).unwrap_or(0);
            let tgid = probe::<u32>(parent + u64::from(TASK_TGID.load())).unwrap_or(0);
            let comm = probe::<[u8; 16]>(parent + u64::from(TASK_COMM.load())).unwrap_or([0; 16]);
            (*event).ancestors[i] = Ancestor { tgid, _pad: 0, comm };
            i += 1;
        }
        (*event).path_start = EVENT_PATH as u32;
        (*event).exe_start = EVENT_EXE as u32;
        let kind = (what & 0xff) as u32;
        if kind == EVENT_FILE || kind == EVENT_EXEC {
            (*event).data = [0; 4];
            path::<{ EVENT_PATH as i32 - 1 }>(
                (&raw mut (*event).path).cast::<u8>(),
                &raw mut (*event).path_start,
                first,
                second,
                PATH_COMPONENTS,
            );
        } else {
            // A destination has its family beside the port.
            let (third, fourth) = if kind == EVENT_CONNECT {
                (third & 0xffff, third >> 32)
            } else {
                (third, 0)
            };
            (*event).data = [first, second, third, fourth];
        }
        if let Some((dentry, mount)) = executable(task) {
            path::<{ EVENT_EXE as i32 - 1 }>(
                (&raw mut (*event).exe).cast::<u8>(),
                &raw mut (*event).exe_start,
                dentry,
                mount,
                EXE_COMPONENTS,
            );
        }
    }
    entry.submit(0);
    1
}

#[inline(always)]
fn mount_namespace(task: u64) -> Option<u32> {
    let proxy = probe::<u64>(task + u64::from(TASK_NSPROXY.load()))?;
    let namespace = probe::<u64>(proxy + u64::from(NSPROXY_MNT.load()))?;
    probe::<u32>(namespace + u64::from(MNTNS_INUM.load()))
}

#[inline(always)]
fn executable(task: u64) -> Option<(u64, u64)> {
    let mm = probe::<u64>(task + u64::from(TASK_MM.load()))?;
    let file = probe::<u64>(mm + u64::from(MM_EXE_FILE.load()))?;
    let path = file + u64::from(FILE_PATH.load());
    Some((
        probe(path + u64::from(PATH_DENTRY.load()))?,
        probe(path + u64::from(PATH_MNT.load()))?,
    ))
}

/// Writes a path from the end of a field of `MASK + 1` bytes; `start` holds where the path starts so far. The 256
/// bytes behind the field take what the mask cannot rule out.
///
/// `start` is kept in the event and read back for each component, because a value from memory is any number to the
/// verifier: its states converge, where an exact one would differ in every round.
///
/// # Safety
/// `field` points to `MASK + 257` writable bytes, `start` to a field of the same reservation.
#[inline(always)]
unsafe fn path<const MASK: i32>(field: *mut u8, start: *mut u32, dentry: u64, mount: u64, components: u32) {
    let mut dentry = dentry;
    let mut mount = mount;
    let Some(mut root) = probe::<u64>(mount + u64::from(VFSMOUNT_ROOT.load())) else {
        return;
    };
    let mut i = 0;
    while i < components {
        i += 1;
        if dentry == root {
            let own = mount - u64::from(MOUNT_VFSMOUNT.load());
            let Some([parent, mountpoint]) = probe::<[u64; 2]>(own + u64::from(MOUNT_PARENT.load())) else {
                break;
            };
            if parent == own {
                break;
            }
            dentry = mountpoint;
            mount = parent + u64::from(MOUNT_VFSMOUNT.load());
            let Some(next) = probe::<u64>(mount + u64::from(VFSMOUNT_ROOT.load())) else {
                break;
            };
            root = next;
            continue;
        }
        let Some(name) = Name::read(dentry) else { break };
        let length = mask::<255>(u64::from(name.length)) as u32;
        // SAFETY: `start` is valid, see above.
        let end = unsafe { start.read_volatile() };
        if end < length + 1 || name.parent == dentry {
            break;
        }
        let at = end - length - 1;
        // SAFETY: as above; the masked index is within the field, and at most 255 bytes follow it.
        unsafe {
            start.write_volatile(at);
            let at = mask::<MASK>(u64::from(at)) as usize;
            *field.add(at) = b'/';
            if bpf_probe_read_kernel(
                field.add(at + 1).cast::<c_void>(),
                length,
                name.name as *const c_void,
            ) != 0
            {
                break;
            }
        }
        dentry = name.parent;
    }
}

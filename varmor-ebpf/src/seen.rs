//! Under which paths the current task sees an object that another mount namespace opened: a server's socket that is
//! mounted into a container has the server's path, and the rules speak of the container's.

use aya_ebpf::helpers::generated::bpf_get_current_task;
use varmor_common::abi::{FAULT_DEPTH, FAULT_READ, MAX_DEPTH};

use crate::{
    kernel::probe,
    offsets::{
        DENTRY_PARENT, DENTRY_SB, MNTNS_ROOT, MOUNT_CHILD, MOUNT_CHILDREN, MOUNT_NAMESPACE, MOUNT_PARENT,
        MOUNT_VFSMOUNT, NSPROXY_MNT, TASK_NSPROXY, VFSMOUNT_ROOT,
    },
    path::{climb, fault_of},
};

/// Steps through the tree of mounts, two for each at most; a larger namespace cannot be judged.
const STEPS: u32 = 1024;

/// Whether `mount` belongs to another mount namespace than the current task's; one that cannot be read does.
#[inline(always)]
pub fn is_foreign(mount: u64) -> bool {
    let own = mount - u64::from(MOUNT_VFSMOUNT.load());
    let theirs = probe::<u64>(own + u64::from(MOUNT_NAMESPACE.load()));
    theirs.is_none() || theirs != current_namespace()
}

/// What the rules say about `dentry` by all its paths in the current task's mount namespace.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn seen(dentry: u64, number: u32, artefact_request: u64, collected: u64) -> u64 {
    let unreadable = u64::from(FAULT_READ) << 24;
    let (Some(namespace), Some(superblock)) = (
        current_namespace(),
        probe::<u64>(dentry + u64::from(DENTRY_SB.load())),
    ) else {
        return unreadable;
    };
    let Some(top) = probe::<u64>(namespace + u64::from(MNTNS_ROOT.load())) else {
        return unreadable;
    };
    let mut collected = collected;
    let mut at = top;
    let mut down = true;
    let mut done = false;
    let mut step = 0;
    while step < STEPS {
        step += 1;
        if down {
            // `mnt_root` and `mnt_sb` are neighbours, a fact that the loader checks.
            let vfsmount = at + u64::from(MOUNT_VFSMOUNT.load());
            let Some([root, on]) = probe::<[u64; 2]>(vfsmount + u64::from(VFSMOUNT_ROOT.load())) else {
                return unreadable;
            };
            if on == superblock && is_below(dentry, root) != 0 {
                collected = climb(dentry, vfsmount, number, artefact_request, collected);
                if fault_of(collected) != 0 {
                    return collected;
                }
            }
            let children = at + u64::from(MOUNT_CHILDREN.load());
            let Some(first) = probe::<u64>(children) else {
                return unreadable;
            };
            if first == children {
                down = false;
            } else {
                at = first - u64::from(MOUNT_CHILD.load());
            }
        } else if at == top {
            done = true;
            break;
        } else {
            let (Some(sibling), Some(parent)) = (
                probe::<u64>(at + u64::from(MOUNT_CHILD.load())),
                probe::<u64>(at + u64::from(MOUNT_PARENT.load())),
            ) else {
                return unreadable;
            };
            if sibling == parent + u64::from(MOUNT_CHILDREN.load()) {
                at = parent;
            } else {
                at = sibling - u64::from(MOUNT_CHILD.load());
                down = true;
            }
        }
    }
    if done {
        collected
    } else {
        u64::from(FAULT_DEPTH) << 24
    }
}

/// 1 if `dentry` is `root` or below it.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn is_below(dentry: u64, root: u64) -> u32 {
    let mut dentry = dentry;
    let mut depth = 0;
    while depth < MAX_DEPTH {
        depth += 1;
        if dentry == root {
            return 1;
        }
        let Some(parent) = probe::<u64>(dentry + u64::from(DENTRY_PARENT.load())) else {
            return 0;
        };
        if parent == dentry {
            return 0;
        }
        dentry = parent;
    }
    // Deeper than what can be judged: the climb says so.
    1
}

#[inline(always)]
fn current_namespace() -> Option<u64> {
    // SAFETY: the helper has no precondition.
    let task = unsafe { bpf_get_current_task() };
    let proxy = probe::<u64>(task + u64::from(TASK_NSPROXY.load()))?;
    probe::<u64>(proxy + u64::from(NSPROXY_MNT.load()))
}

//! The enforcer's own maps, programs, links and process: out of reach for every labelled task, whatever its profile
//! says and also when its container is gone. Not part of a policy, so complain mode does not open it.
//!
//! Pins are neither removed nor renamed, nor are any put beside them.
//!
//! The kernel itself refuses to detach or to replace the program of an LSM link (`BPF_LINK_DETACH`,
//! `BPF_LINK_UPDATE`), and a pinned link that is opened by its path gives no other power.

use aya_ebpf::{macros::lsm, programs::LsmContext};
use varmor_common::abi::{
    ACTION_DENIED, COUNTER_DENIED, EVENT_GUARD, OWN_FOLDER, OWN_LINK, OWN_MAP, OWN_PROCESS, OWN_PROGRAM,
    SETTING_AGENT, operation, own_key, patch,
};

use crate::{
    audit::{self, What},
    field::{pointer, word},
    identity,
    kernel::{Typed, probe, raw_argument, word_or_zero},
    maps::{self, count},
    offsets::{AUX_ID, DENTRY_INODE, DENTRY_PARENT, INODE_INO, MAP_ID, PROG_AUX, TASK_TGID},
    verdict::{ALLOW, DENY},
};

/// `BPF_LINK_GET_FD_BY_ID`: no hook is told the link that a descriptor is made for.
const LINK_GET_FD_BY_ID: u32 = 30;

/// A descriptor for a map, by its id, its pin or its creation.
#[lsm(hook = "bpf_map")]
pub fn bpf_map(ctx: LsmContext) -> i32 {
    if identity::current_label().is_none() {
        return ALLOW;
    }
    let id = raw_argument::<0>(&ctx).and_then(|map| probe::<u32>(map + u64::from(MAP_ID.load())));
    judge(OWN_MAP, id)
}

/// A descriptor for a program: to attach, to extend or to detach it.
#[lsm(hook = "bpf_prog")]
pub fn bpf_prog(ctx: LsmContext) -> i32 {
    if identity::current_label().is_none() {
        return ALLOW;
    }
    let id = raw_argument::<0>(&ctx)
        .and_then(|program| probe::<u64>(program + u64::from(PROG_AUX.load())))
        .and_then(|aux| probe::<u32>(aux + u64::from(AUX_ID.load())));
    judge(OWN_PROGRAM, id)
}

#[lsm(hook = "bpf")]
pub fn bpf(ctx: LsmContext) -> i32 {
    let command: i32 = ctx.arg(0);
    if command as u32 != LINK_GET_FD_BY_ID || identity::current_label().is_none() {
        return ALLOW;
    }
    // The attributes are the kernel's copy; the id comes first.
    judge(OWN_LINK, raw_argument::<1>(&ctx).and_then(probe::<u32>))
}

#[lsm(hook = "task_kill")]
pub fn task_kill(ctx: LsmContext) -> i32 {
    let signal: i32 = ctx.arg(2);
    // Signal 0 only asks whether the process is there.
    if signal == 0 || identity::current_label().is_none() {
        return ALLOW;
    }
    match raw_argument::<0>(&ctx) {
        Some(task) if !is_agent(task) => ALLOW,
        _ => refuse(operation::KILL, OWN_PROCESS, agent()),
    }
}

/// Whether the task at an address is one of the agent's.
#[inline(always)]
pub fn is_agent(task: u64) -> bool {
    let agent = agent();
    agent != 0 && probe::<u32>(task + u64::from(TASK_TGID.load())) == Some(agent)
}

/// Whether an entry of a folder is a pin of the enforcer, or a folder of them; `entry` is the hook's dentry.
#[inline(always)]
pub fn is_pin(entry: Typed, address: Option<u64>) -> bool {
    /// `BPF_FS_MAGIC` (include/uapi/linux/magic.h).
    const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
    // SAFETY: `entry` is an argument of the hook.
    let magic = unsafe { word::<{ patch::SB_MAGIC }>(pointer::<{ patch::DENTRY_SB }>(entry)) };
    // An address that cannot be read is taken for a pin.
    magic == BPF_FS_MAGIC && address.is_none_or(|dentry| below_own_folder(dentry) != 0)
}

/// 1 if the dentry is one of the enforcer's folders, or in one. Inode numbers of the BPF filesystem come from the one
/// counter that all mounts of it share.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn below_own_folder(dentry: u64) -> u32 {
    /// Pins lie three folders deep.
    const DEPTH: u64 = 8;
    let mut dentry = dentry;
    let mut depth = 0u64;
    while depth < DEPTH {
        depth += 1;
        let inode = word_or_zero(dentry + u64::from(DENTRY_INODE.load()));
        let number = word_or_zero(inode + u64::from(INODE_INO.load())) as u32;
        let key = own_key(OWN_FOLDER, number);
        // SAFETY: only the presence of the entry counts.
        if unsafe { maps::OWN.get(&key) }.is_some() {
            return 1;
        }
        let parent = word_or_zero(dentry + u64::from(DENTRY_PARENT.load()));
        if parent == dentry || parent == 0 {
            return 0;
        }
        dentry = parent;
    }
    0
}

/// Ends a hook with a refusal, and says so.
#[inline(always)]
pub fn refuse(operation: u32, kind: u32, id: u32) -> i32 {
    count(COUNTER_DENIED);
    audit::emit(
        What::new(EVENT_GUARD, operation).action(ACTION_DENIED).pack(),
        0,
        u64::from(kind),
        u64::from(id),
        0,
    );
    DENY
}

/// The agent's process number.
#[inline(always)]
pub fn agent() -> u32 {
    maps::SETTINGS.get(SETTING_AGENT).copied().unwrap_or(0)
}

#[inline(always)]
fn judge(kind: u32, id: Option<u32>) -> i32 {
    let Some(id) = id else {
        return refuse(operation::BPF, kind, 0);
    };
    let key = own_key(kind, id);
    // SAFETY: only the presence of the entry counts.
    if unsafe { maps::OWN.get(&key) }.is_some() {
        refuse(operation::BPF, kind, id)
    } else {
        ALLOW
    }
}

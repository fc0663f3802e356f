//! Who a task is: the label it carries and the way from the label to the profile.

/// What a protected task carries; inherited at fork, lost only by death.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Index into the bindings.
    pub binding: u32,
    /// Target groups that the task has entered: bit n = group n of its profile. Only ever grows.
    pub domain: u32,
    /// Id of the cgroup through which the task got the label: names the container.
    pub cgroup: u64,
    /// Target groups that the exec in progress will enter when it cannot fail any more.
    pub pending: u32,
    /// Flags of the task's last mount(2), if that was a bind mount.
    pub bind_flags: u32,
    /// Hash of the start of that mount's source; 0 = it was no bind mount.
    pub bind_source: u64,
}
const _: () = assert!(size_of::<Label>() == 32);

/// One container: which profile slot it uses. An entry whose cgroup is not the label's is an orphan (the
/// container is gone and the entry was reused): its tasks are denied.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    pub cgroup: u64,
    /// Profile slot; `SLOT_NONE` = no policy any more, everything is allowed.
    pub slot: u32,
    pub _pad: u32,
}
const _: () = assert!(size_of::<Binding>() == 16);

/// The slot of containers whose policy was removed.
pub const SLOT_NONE: u32 = 0;
/// Most containers of one node at a time.
pub const MAX_BINDINGS: u32 = 16_384;
/// Most profiles of one node at a time.
pub const MAX_SLOTS: u32 = 4_096;
/// Most compiled profiles at a time: every slot may hold an old one and a new one for the moment of the swap.
pub const MAX_ARTEFACTS: u32 = 8_192;

/// A managed cgroup: how the tasks in it get their label.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    /// Of a container; else without meaning.
    pub binding: u32,
    /// `MANAGED_*`: the innermost entry on the way from a task's cgroup to the root counts.
    pub kind: u32,
    /// Tasks that started before this time (ns of the boot clock) take the label at their next hook; younger
    /// ones take it at exec, so that a container runtime's own set-up is never judged. 0 = only at exec.
    pub adopt_before: u64,
}
const _: () = assert!(size_of::<Managed>() == 16);

/// A container with a binding.
pub const MANAGED_CONTAINER: u32 = 0;
/// Containers appear below: the first program of a cgroup that nobody knows yet waits for the agent.
pub const MANAGED_GATE: u32 = 1;
/// Known to the agent, and no policy is about it.
pub const MANAGED_FREE: u32 = 2;
/// Most managed cgroups of one node: containers with a policy, those without one, and gates.
pub const MAX_MANAGED: u32 = 65_536;

/// A process that waits at the gate, by its number in the first pid namespace.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub cgroup: u64,
    /// Nanoseconds of the boot clock, or `PASSES_ONCE`.
    pub since: u64,
}
const _: () = assert!(size_of::<Waiting>() == 16);

/// The process may make one exec in this cgroup and comes to the gate again with the next: it is the runtime's own, which
/// makes a container that nobody can know yet.
pub const PASSES_ONCE: u64 = u64::MAX;

/// Most processes that wait at a time; one more is refused.
pub const MAX_WAITING: u32 = 4_096;
/// Seconds without a sign of life after which the agent is taken for absent.
pub const AGENT_LAPSE: u32 = 10;

/// Words of the settings map.
pub const SETTINGS: u32 = 8;
/// Setting: 1 while some cgroup may hold tasks that have to be adopted.
pub const SETTING_ADOPT: u32 = 0;
/// Setting: the `ABI_VERSION` of the programs behind the map.
pub const SETTING_ABI: u32 = 1;
/// Setting: seconds of the boot clock at the agent's last sign of life.
pub const SETTING_ALIVE: u32 = 2;
/// Setting: what happens at the gate without an agent: 0 = the start is refused, 1 = it goes on.
pub const SETTING_ABSENT: u32 = 3;
/// Setting: counts the changes that user space made to the maps, so that it notices those of another process.
pub const SETTING_WRITES: u32 = 4;
/// Setting: the process number of the agent in the first pid namespace, which protected tasks may not touch; 0 = no
/// agent, or none that this number can name.
pub const SETTING_AGENT: u32 = 6;

/// The key of an object of the enforcer in the map `OWN`: one of these in the high half, the kernel's id in the low.
pub const OWN_MAP: u32 = 1;
pub const OWN_PROGRAM: u32 = 2;
pub const OWN_LINK: u32 = 3;
/// Not in the map: the process of `SETTING_AGENT`, in events.
pub const OWN_PROCESS: u32 = 4;
/// A folder of pins on the BPF filesystem, by its inode number.
pub const OWN_FOLDER: u32 = 5;
/// Most objects of the enforcer: inner maps make up nearly all of them.
pub const MAX_OWN: u32 = 131_072;

/// The key of an object in the map `OWN`.
#[must_use]
pub const fn own_key(kind: u32, id: u32) -> u64 {
    (kind as u64) << 32 | id as u64
}

/// Setting: nanoseconds between two events of a profile at its full rate; 0 = no limit.
pub const SETTING_EVENT_INTERVAL: u32 = 5;
/// Setting: events that a profile may write at once before the rate holds.
pub const SETTING_EVENT_BURST: u32 = 7;

/// Per-CPU counters; the fault reasons follow from `COUNTER_FAULTS`.
pub const COUNTER_DENIED: u32 = 0;
pub const COUNTER_AUDITED: u32 = 1;
/// Events that found the ring full.
pub const COUNTER_LOST: u32 = 2;
pub const COUNTER_FAULTS: u32 = 3;

//! Who asks: the label of a task and the profile behind it.
//!
//! A label is inherited at fork, taken at exec in a managed cgroup, and lost only by death: nothing that a task
//! does to its namespaces, root, user or cgroup changes it.

use aya_ebpf::helpers::generated::{
    bpf_get_current_ancestor_cgroup_id, bpf_get_current_cgroup_id, bpf_get_current_task,
};
use varmor_common::abi::{Descriptor, Label, MANAGED_CONTAINER, Managed, SETTING_ADOPT, SLOT_NONE};

use crate::{credentials, kernel, labels, maps, offsets};

/// Deepest cgroup level at which a managed cgroup is found from a task in one of its descendants.
const ANCESTOR_LEVELS: i32 = 12;

/// A protected task and its profile.
pub struct Subject {
    /// Index into the bindings: which container.
    pub binding: u32,
    /// Index of the artefact in the maps of tables.
    pub artefact: u32,
    pub profile: &'static Descriptor,
}

/// What a hook finds out about the current task first.
pub enum Who {
    /// Not protected, or its policy was removed.
    Free,
    Subject(Subject),
    /// Protected, but its profile cannot be found: denied, with this fault.
    Lost(u32),
}

/// The current task's profile.
#[inline(always)]
pub fn current() -> Who {
    let Some(label) = current_label() else {
        return Who::Free;
    };
    subject(label)
}

/// The profile behind a label.
#[inline(always)]
pub fn subject(label: Label) -> Who {
    use varmor_common::abi::{FAULT_ORPHAN, FAULT_TABLE};
    let Some(binding) = maps::BINDINGS.get(label.binding) else {
        return Who::Lost(FAULT_TABLE);
    };
    if binding.cgroup != label.cgroup {
        return Who::Lost(FAULT_ORPHAN);
    }
    if binding.slot == SLOT_NONE {
        return Who::Free;
    }
    let Some(artefact) = maps::SLOTS.get(binding.slot) else {
        return Who::Lost(FAULT_TABLE);
    };
    let artefact = *artefact;
    if artefact == 0 {
        return Who::Free;
    }
    let Some(profile) = maps::descriptor(artefact) else {
        return Who::Lost(FAULT_TABLE);
    };
    if label.domain == 0 {
        return Who::Subject(Subject {
            binding: label.binding,
            artefact,
            profile,
        });
    }
    in_domain(label, artefact, profile)
}

/// The tables of a task that has entered target groups: those of the profile where it has none for these groups any
/// more.
#[inline(always)]
fn in_domain(label: Label, artefact: u32, profile: &'static Descriptor) -> Who {
    use varmor_common::abi::{DOMAINS, FAULT_TABLE};
    let index = kernel::mask::<{ DOMAINS as i32 - 1 }>(u64::from(label.domain)) as usize;
    // SAFETY: the masked index is below `DOMAINS`.
    let own = unsafe { *profile.domains.as_ptr().add(index) };
    let artefact = if own == 0 { artefact } else { own };
    match maps::descriptor(artefact) {
        Some(profile) => Who::Subject(Subject {
            binding: label.binding,
            artefact,
            profile,
        }),
        None => Who::Lost(FAULT_TABLE),
    }
}

/// Notes the target groups that the exec in progress will enter.
#[inline(always)]
pub fn add_pending(groups: u32) {
    if let Some(label) = labels::current_mut() {
        // SAFETY: the label of the current task, which alone writes it.
        unsafe { (*label).pending |= groups };
    }
}

/// Forgets what an exec that failed has noted.
#[inline(always)]
pub fn clear_pending() {
    if let Some(label) = labels::current_mut() {
        // SAFETY: as above.
        unsafe { (*label).pending = 0 };
    }
}

/// Notes what the task's mount(2) binds; 0 for any other mount.
#[inline(always)]
pub fn note_bind(source: u64, flags: u32) {
    if let Some(label) = labels::current_mut() {
        // SAFETY: as above.
        unsafe {
            (*label).bind_source = source;
            (*label).bind_flags = flags;
        }
    }
}

/// The exec cannot fail any more: the task enters the noted groups for good.
#[inline(always)]
pub fn enter_pending() {
    if let Some(label) = labels::current_mut() {
        // SAFETY: as above.
        unsafe {
            (*label).domain |= (*label).pending;
            (*label).pending = 0;
        }
    }
}

/// The current task's label; a task that was already running when its container became managed takes it here.
#[inline(always)]
pub fn current_label() -> Option<Label> {
    if let Some(label) = labels::current() {
        return Some(label);
    }
    match maps::SETTINGS.get(SETTING_ADOPT) {
        Some(&adopt) if adopt != 0 => adopt_current(),
        _ => None,
    }
}

/// The label of the managed cgroup that the current task is in, stored for good; for tasks older than the
/// container's registration only.
#[inline(never)]
fn adopt_current() -> Option<Label> {
    let (cgroup, managed) = managed_cgroup()?;
    if managed.kind != MANAGED_CONTAINER || managed.adopt_before == 0 {
        return None;
    }
    // SAFETY: the helper has no precondition.
    let task = unsafe { bpf_get_current_task() };
    let started: u64 = kernel::probe(task + u64::from(offsets::TASK_START.load()))?;
    if started >= managed.adopt_before {
        return None;
    }
    let label = Label {
        binding: managed.binding,
        cgroup,
        ..Label::default()
    };
    if let Some(credential) = kernel::probe::<u64>(task + u64::from(offsets::TASK_REAL_CRED.load())) {
        credentials::insert(credential);
    }
    labels::set_current(label);
    Some(label)
}

/// The nearest managed cgroup of the current task: its own, or an ancestor.
#[inline(always)]
pub fn managed_cgroup() -> Option<(u64, Managed)> {
    // SAFETY: the helpers have no precondition.
    let own = unsafe { bpf_get_current_cgroup_id() };
    if let Some(managed) = lookup(own) {
        return Some((own, managed));
    }
    let cgroup = own_cgroup();
    let mut level = 1;
    // No `Option` around them: what is undefined beside a `None` lies on the stack, and 6.1 refuses to copy it.
    let mut innermost = 0u64;
    let mut binding = 0u32;
    let mut kind = 0u32;
    let mut adopt_before = 0u64;
    while level < ANCESTOR_LEVELS {
        let id = ancestor(cgroup, level);
        if id == 0 {
            break;
        }
        if let Some(managed) = lookup(id) {
            // Deeper levels come later: the innermost managed cgroup wins.
            innermost = id;
            binding = managed.binding;
            kind = managed.kind;
            adopt_before = managed.adopt_before;
        }
        level += 1;
    }
    if innermost == 0 {
        return None;
    }
    Some((
        innermost,
        Managed {
            binding,
            kind,
            adopt_before,
        },
    ))
}

/// The address of the current task's cgroup, for kernels whose programs cannot ask for the ids above it.
#[inline(always)]
fn own_cgroup() -> u64 {
    if offsets::HAVE_ANCESTOR_CGROUP.load() != 0 {
        return 0;
    }
    // SAFETY: the helper has no precondition.
    let task = unsafe { bpf_get_current_task() };
    let set = kernel::word_or_zero(task + u64::from(offsets::TASK_CGROUPS.load()));
    kernel::word_or_zero(set + u64::from(offsets::CSS_SET_CGROUP.load()))
}

/// The id of the ancestor at a level (the root is 0); 0 for a level that does not exist.
#[inline(always)]
fn ancestor(cgroup: u64, level: i32) -> u64 {
    if offsets::HAVE_ANCESTOR_CGROUP.load() != 0 {
        // SAFETY: the helper has no precondition.
        return unsafe { bpf_get_current_ancestor_cgroup_id(level) };
    }
    let own = kernel::word_or_zero(cgroup + u64::from(offsets::CGROUP_LEVEL.load())) as u32;
    if level as u32 > own {
        return 0;
    }
    // `u64 ancestor_ids[]`, the cgroup's own id the last.
    let ids = cgroup + u64::from(offsets::CGROUP_ANCESTOR_IDS.load());
    kernel::word_or_zero(ids + level as u64 * 8)
}

#[inline(always)]
fn lookup(cgroup: u64) -> Option<Managed> {
    // SAFETY: entries are replaced, never changed in place (no-prealloc hash), so the copy is whole.
    unsafe { maps::CGROUPS.get(&cgroup) }.copied()
}

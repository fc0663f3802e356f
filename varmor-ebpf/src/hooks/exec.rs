//! Execution: every pass of exec, and every executable mapping of a file.

#[cfg(not(feature = "ts"))]
use aya_ebpf::helpers::generated::bpf_get_current_task;
#[cfg(feature = "ts")]
use aya_ebpf::helpers::generated::bpf_get_current_task_btf;
use aya_ebpf::{macros::lsm, programs::LsmContext};
#[cfg(feature = "ts")]
use varmor_common::abi::PROFILE_COMPLAIN;
use varmor_common::abi::{
    EVENT_EXEC, FAULT_READ, Label, PERM_EXEC, PERM_READ, STATE_GLOBS, STATE_LATE_GLOBS, operation, patch,
};

use super::{identity::begin_exec, subject_or_return};
use crate::{
    audit::What,
    field,
    identity::{self, Subject, Who, add_pending},
    kernel::{Typed, mask, pointer, probe, raw_argument, scalar, u64_at},
    labels,
    name::{INLINE_NAME, hash_long, keep},
    offsets::{
        BACKING_MODE, BACKING_PATH, BPRM_EXEC, BPRM_FILE, BPRM_FILENAME, BPRM_INTERP, BPRM_VMA, FILE_PATH,
        PATH_DENTRY, PATH_MNT, TASK_PTRACE, VMA_END, VMA_FILE,
    },
    path::{self, COLLECT_CLASSES, MOUNT_FAULT, walk},
    step::may_have,
    verdict::{ALLOW, DENY, file, file_within, lost},
};
#[cfg(feature = "ts")]
use crate::{
    kernel::u32_at,
    offsets::{MM_ENV_END, MM_EXE_FILE, TASK_MM},
};

const PROT_EXEC: u64 = 4;
/// Longest `execve` path whose last component is judged as an alias of the file.
const MAX_FILENAME: u64 = 255;

/// Judges the file that is really executed, on every pass: a script, then its interpreter. The name by which it
/// was called counts too: on an image where `sh` is a link to `busybox`, a rule against `sh` holds.
#[lsm(hook = "bprm_check_security")]
pub fn bprm_check_security(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_EXEC, operation::EXEC);
    let label = match entered(ctx.arg(0)) {
        Ok(label) => label,
        Err(answer) => return answer,
    };
    let subject = match identity::subject(label) {
        Who::Free => return ALLOW,
        Who::Subject(subject) => subject,
        Who::Lost(fault) => return lost(WHAT, fault),
    };
    // SAFETY: the hook's argument is a `linux_binprm` and has a file on every pass.
    let executed = unsafe { pointer(ctx.arg(0), BPRM_FILE.load()) };
    if subject.profile.targets != 0 {
        let groups = targets(&subject, executed);
        if groups & MOUNT_FAULT != 0 {
            return lost(WHAT, groups as u32 & 0xf);
        }
        if groups != 0 {
            add_pending(groups as u32);
        }
    }
    let request = exec_request();
    if subject.profile.file_perms & request == 0 {
        return ALLOW;
    }
    let verdict = mapped(&subject, WHAT, executed, request);
    if verdict != ALLOW {
        return DENY;
    }
    if subject.profile.file_perms & PERM_EXEC == 0 {
        return ALLOW;
    }
    // Loaded again: across the walk they would take up stack that its functions need.
    let bprm: Typed = ctx.arg(0);
    if is_called_by_its_name(bprm) {
        return ALLOW;
    }
    // SAFETY: as above.
    let executed = unsafe { pointer(bprm, BPRM_FILE.load()) };
    let Some(name) = scalar(bprm, BPRM_FILENAME.load()) else {
        return DENY;
    };
    let called = last_component(name);
    if called == 0 {
        return ALLOW;
    }
    let offset = called & 0xffff;
    let length = called >> 16;
    // A name that no rule knows says no more than the file's own did.
    let profile = subject.profile;
    if profile.file_start_flags & (STATE_GLOBS | STATE_LATE_GLOBS) == 0
        && !may_have(subject.artefact, profile, hash_long(name + offset, length as u32))
    {
        return ALLOW;
    }
    let Some(dentry) = scalar(executed, FILE_PATH.load() + PATH_DENTRY.load()) else {
        return DENY;
    };
    let Some(mount) = scalar(executed, FILE_PATH.load() + PATH_MNT.load()) else {
        return DENY;
    };
    let collected = path::climb_as(
        dentry,
        mount,
        name + offset,
        length,
        path::pack(subject.artefact, PERM_EXEC),
    );
    // The file itself was judged above; its other name can only be denied.
    file_within(&subject, WHAT, PERM_EXEC, 0, collected, || (dentry, mount))
}

/// The label of the task that executes a program, or what the hook shall return.
#[inline(always)]
fn entered(bprm: Typed) -> Result<Label, i32> {
    if let Some(label) = identity::current_label() {
        if label.pending != 0 && is_first_pass(bprm) {
            // Left by an exec that failed.
            identity::clear_pending();
        }
        return Ok(label);
    }
    if !is_first_pass(bprm) {
        return Err(ALLOW);
    }
    match begin_exec(bprm) {
        0 => labels::current().ok_or(ALLOW),
        answer => Err(answer),
    }
}

/// Whether the kernel asks about the file that was called, and not about the interpreter that it names.
#[inline(always)]
fn is_first_pass(bprm: Typed) -> bool {
    // Read as numbers: newer verifiers take the fields for pointers into memory, which cannot be compared.
    scalar(bprm, BPRM_FILENAME.load()) == scalar(bprm, BPRM_INTERP.load())
}

/// By length: the masks that keep a name in four words.
static NAMES: [[u64; 4]; INLINE_NAME as usize] = name_masks();

const fn name_masks() -> [[u64; 4]; INLINE_NAME as usize] {
    let mut masks = [[0; 4]; INLINE_NAME as usize];
    let mut length = 0;
    while length < masks.len() {
        let mut byte = 0;
        while byte < length {
            masks[length][byte / 8] |= 0xff << (byte % 8 * 8);
            byte += 1;
        }
        length += 1;
    }
    masks
}

/// Whether the last component of the name by which the program was called is that of the file itself, as for all that is
/// not called through a link. `false` also if that cannot be told.
///
/// The kernel has put the string first on the new stack, below an empty word (`bprm_mm_init` and `copy_string_kernel` in
/// fs/exec.c): so its length is known without a search for its end.
#[inline(never)]
fn is_called_by_its_name(bprm: Typed) -> bool {
    // SAFETY: `bprm` is a hook's argument with a file, and with the memory of the new program.
    unsafe {
        let dentry = field::pointer::<{ patch::FILE_DENTRY }>(pointer(bprm, BPRM_FILE.load()));
        let length = field::half::<{ patch::DENTRY_NAME_LEN }>(dentry);
        let top = u64_at(pointer(bprm, BPRM_VMA.load()), VMA_END.load());
        let called = top.wrapping_sub(u64_at(bprm, BPRM_EXEC.load())).wrapping_sub(9);
        if length >= INLINE_NAME || called < length || called > MAX_FILENAME {
            return false;
        }
        let Some(name) = scalar(bprm, BPRM_FILENAME.load()) else {
            return false;
        };
        let start = name + called - length;
        let Some([before, words @ ..]) = probe::<[u64; 5]>(start - 8) else {
            return false;
        };
        if called > length && before >> 56 != u64::from(b'/') {
            return false;
        }
        let masks = NAMES.as_ptr().add(mask::<31>(length) as usize).cast::<u64>();
        let different = (words[0] ^ field::word::<{ patch::DENTRY_NAME_0 }>(dentry)) & *masks
            | (words[1] ^ field::word::<{ patch::DENTRY_NAME_8 }>(dentry)) & *masks.add(1)
            | (words[2] ^ field::word::<{ patch::DENTRY_NAME_16 }>(dentry)) & *masks.add(2)
            | (words[3] ^ field::word::<{ patch::DENTRY_NAME_24 }>(dentry)) & *masks.add(3);
        different == 0
    }
}

/// An executable mapping is an execution: the dynamic loader, `dlopen`, `PT_INTERP`.
///
/// `file` is NULL for anonymous memory, and from 6.4 to 6.19 the verifier believes that it cannot be: the
/// decision is taken on the raw argument. The typed check is for 7.x, which demands it.
#[lsm(hook = "mmap_file")]
pub fn mmap_file(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_EXEC, operation::MMAP_EXEC);
    let protection: u64 = ctx.arg(1);
    if protection & PROT_EXEC == 0 {
        return ALLOW;
    }
    let subject = subject_or_return!(WHAT);
    if subject.profile.file_perms & PERM_EXEC == 0 {
        return ALLOW;
    }
    match raw_argument::<0>(&ctx) {
        None => return DENY,
        Some(0) => return ALLOW,
        Some(_) => {}
    }
    let mapped_file: Typed = ctx.arg(0);
    if mapped_file.is_null() {
        return ALLOW;
    }
    // In complain mode a recording wants to know of both. Target groups are entered between the two.
    #[cfg(feature = "ts")]
    if subject.profile.flags & PROFILE_COMPLAIN == 0
        && subject.profile.targets == 0
        && is_starting(mapped_file)
    {
        return ALLOW;
    }
    mapped(&subject, WHAT, mapped_file, PERM_EXEC)
}

/// Whether the kernel is mapping the program that this task executes, which `bprm_check_security` has judged a moment ago.
/// The new memory belongs to that file, and where its environment ends is not yet known: that is written when everything
/// is mapped (`create_elf_tables` in fs/binfmt_elf.c), before the program's first instruction.
#[cfg(feature = "ts")]
#[inline(always)]
fn is_starting(file: Typed) -> bool {
    // SAFETY: the helper has no precondition and gives a BTF pointer; the fault handler of the loads covers a task without
    // memory of its own.
    unsafe {
        let task = bpf_get_current_task_btf().cast::<u8>().cast_const();
        let memory = pointer(task, TASK_MM.load());
        pointer(memory, MM_EXE_FILE.load()) == file && u64_at(memory, MM_ENV_END.load()) == 0
    }
}

/// Memory that becomes executable later.
#[lsm(hook = "file_mprotect")]
pub fn file_mprotect(ctx: LsmContext) -> i32 {
    const WHAT: What = What::new(EVENT_EXEC, operation::MPROTECT_EXEC);
    let protection: u64 = ctx.arg(2);
    if protection & PROT_EXEC == 0 {
        return ALLOW;
    }
    let subject = subject_or_return!(WHAT);
    if subject.profile.file_perms & PERM_EXEC == 0 {
        return ALLOW;
    }
    let area: Typed = ctx.arg(0);
    let address = match scalar(area, VMA_FILE.load()) {
        None => return DENY,
        Some(0) => return ALLOW,
        Some(address) => address,
    };
    // SAFETY: `area` is the hook's argument.
    let mapped_file = unsafe { pointer(area, VMA_FILE.load()) };
    if mapped_file.is_null() {
        return ALLOW;
    }
    // SAFETY: checked for NULL.
    let mode = unsafe { field::half::<{ patch::FILE_MODE }>(mapped_file) } as u32;
    if BACKING_PATH.load() != 0 && mode & BACKING_MODE.load() != 0 {
        return backed(&subject, WHAT, address + u64::from(BACKING_PATH.load()));
    }
    mapped(&subject, WHAT, mapped_file, PERM_EXEC)
}

/// Judges the path that the user opened, at an address: the file itself is one of an overlay's layers.
#[inline(always)]
fn backed(subject: &Subject, what: What, path: u64) -> i32 {
    let (Some(mount), Some(dentry)) = (
        probe::<u64>(path + u64::from(PATH_MNT.load())),
        probe::<u64>(path + u64::from(PATH_DENTRY.load())),
    ) else {
        return lost(what, FAULT_READ);
    };
    let wanted = path::pack(subject.artefact, PERM_EXEC);
    let collected = path::climb(dentry, mount, u64::from(subject.profile.file_start), wanted, 0);
    file(subject, what, PERM_EXEC, collected, || (dentry, mount))
}

/// What an exec asks for: to read the file too if somebody traces the task, for the tracer will be able to read the
/// program, and the kernel does not ask again. A function of its own: its two answers are one number to the verifier.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn exec_request() -> u32 {
    if is_traced() {
        PERM_EXEC | PERM_READ
    } else {
        PERM_EXEC
    }
}

#[cfg(feature = "ts")]
#[inline(always)]
fn is_traced() -> bool {
    // SAFETY: the helper has no precondition and gives a BTF pointer.
    unsafe { u32_at(bpf_get_current_task_btf().cast::<u8>(), TASK_PTRACE.load()) != 0 }
}

/// What cannot be read counts as traced.
#[cfg(not(feature = "ts"))]
#[inline(always)]
fn is_traced() -> bool {
    // SAFETY: the helper has no precondition.
    let task = unsafe { bpf_get_current_task() };
    probe::<u32>(task + u64::from(TASK_PTRACE.load())) != Some(0)
}

#[inline(always)]
fn mapped(subject: &Subject, what: What, mapped_file: Typed, request: u32) -> i32 {
    // SAFETY: `mapped_file` is a BTF pointer to a file.
    let (mount, dentry) = unsafe {
        (
            field::pointer::<{ patch::FILE_MNT }>(mapped_file),
            field::pointer::<{ patch::FILE_DENTRY }>(mapped_file),
        )
    };
    let Some(mount_address) = field::address(mount, mapped_file, FILE_PATH.load() + PATH_MNT.load()) else {
        return DENY;
    };
    let collected = walk(subject, mount, mount_address, dentry, request);
    file(subject, what, request, collected, || {
        (
            scalar(mapped_file, FILE_PATH.load() + PATH_DENTRY.load()).unwrap_or(0),
            mount_address,
        )
    })
}

/// The target groups of an executable, as bits, or a fault.
#[inline(always)]
fn targets(subject: &Subject, executed: Typed) -> u64 {
    let dentry = scalar(executed, FILE_PATH.load() + PATH_DENTRY.load());
    let mount = scalar(executed, FILE_PATH.load() + PATH_MNT.load());
    let (Some(dentry), Some(mount)) = (dentry, mount) else {
        return MOUNT_FAULT | u64::from(FAULT_READ);
    };
    path::classes_of(
        dentry,
        mount,
        subject.profile.target_start,
        path::pack(subject.artefact, 0) | COLLECT_CLASSES,
    )
}

/// Where the last component of a string starts (low 16 bits) and how long it is (above); 0 = none, or a string
/// too long to be looked at.
///
/// Reads aligned blocks, which lie within one page each: what stands beside the string can be read too.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn last_component(address: u64) -> u64 {
    let mut block = address & !(BLOCK - 1);
    // The last word with a slash, and the slashes in it.
    let mut slash_word = 0u64;
    let mut slashes = 0u64;
    let mut i = 0;
    while i < MAX_FILENAME / BLOCK + 2 {
        i += 1;
        let Some(words) = probe::<[u64; 4]>(block) else {
            return 0;
        };
        let mut j = 0;
        while j < 4 {
            let at = block + j * 8;
            let mut word = words[j as usize];
            if at < address {
                // Before the string.
                word |= keep(address - at);
            }
            let ends = zero_bytes(word);
            let here = zero_bytes(word ^ SLASHES) & (ends & ends.wrapping_neg()).wrapping_sub(1);
            if here != 0 {
                slash_word = at;
                slashes = here;
            }
            if ends != 0 {
                let end = at + highest_byte(ends & ends.wrapping_neg());
                let start = if slashes == 0 {
                    address
                } else {
                    slash_word + highest_byte(slashes) + 1
                };
                if start >= end || end - address > MAX_FILENAME {
                    return 0;
                }
                return (start - address) & 0xffff | (end - start) << 16;
            }
            j += 1;
        }
        block += BLOCK;
    }
    0
}

const BLOCK: u64 = 32;
const SLASHES: u64 = u64::from_ne_bytes([b'/'; 8]);

/// The highest bit of every byte that is zero.
#[inline(always)]
const fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    !(((word & LOW) + LOW) | word | LOW)
}

/// The number of the highest byte that is not zero, of eight.
#[inline(always)]
const fn highest_byte(word: u64) -> u64 {
    let mut number = 0;
    let mut word = word;
    if word >> 32 != 0 {
        number += 4;
        word >>= 32;
    }
    if word >> 16 != 0 {
        number += 2;
        word >>= 16;
    }
    if word >> 8 != 0 {
        number += 1;
    }
    number
}

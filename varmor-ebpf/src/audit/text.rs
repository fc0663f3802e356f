//! Where an event is put together: a buffer of its own while it is written, texts from its end backwards.
//!
//! A ring's reservation has a constant size and can be no argument of a function. A buffer in a map can be found by
//! its number, so that one function, which the verifier checks once, writes every path, and the ring gets no more
//! bytes than the event has.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use varmor_common::abi::{EVENT_TEXT, EVENT_TEXTS, MAX_DEPTH, RawEvent};

use crate::{
    kernel::{mask, probe},
    maps::EVENTS,
    name::Name,
    offsets::{MOUNT_PARENT, MOUNT_VFSMOUNT, VFSMOUNT_ROOT},
};

const HEAD: usize = size_of::<RawEvent>();
const TEXT_MASK: i32 = 0x1fff;
const _: () = assert!(EVENT_TEXT <= TEXT_MASK as usize && EVENT_TEXT.is_multiple_of(8));
/// What the verifier must allow behind the texts: it takes start and length of the output for independent.
const SPARE: usize = LENGTH_MASK as usize;
/// No event is longer.
const LENGTH_MASK: i32 = 0x3fff;
const _: () = assert!(HEAD + EVENT_TEXT <= LENGTH_MASK as usize);

/// A buffer. The event starts somewhere in `bytes` and ends after `HEAD + EVENT_TEXT` of them.
#[repr(C)]
pub struct Buffer {
    /// Where the texts start so far, counted from the first byte that a text may have. It is kept here and read back,
    /// because a value from memory is any number to the verifier: its states converge, where an exact one would
    /// differ in every round of a loop.
    start: u32,
    /// Bit per text: it is only the tail.
    tails: u32,
    /// Lengths of the texts.
    lengths: [u16; LENGTHS],
    bytes: [u8; (TEXT_MASK as usize + SPARE).next_multiple_of(8)],
}

/// A power of two that the number of texts fits into.
const LENGTHS: usize = 8;
const _: () = assert!(EVENT_TEXTS <= LENGTHS);

/// Buffer and number of a text, as [`write_path`] takes them.
#[inline(always)]
pub const fn place(buffer: u32, text: u32) -> u64 {
    buffer as u64 | (text as u64) << 32
}

/// Writes the path of an object as a text before what is written already, down to `floor` and no further.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn write_path(place: u64, floor: u32, dentry: u64, mount: u64) -> u32 {
    let Some(buffer) = buffer::get(place as u32) else {
        return 0;
    };
    let text = mask::<{ LENGTHS as i32 - 1 }>(place >> 32);
    // SAFETY: the buffer is this program's alone until it is given back.
    let end = unsafe { (&raw const (*buffer).start).read_volatile() };
    let mut dentry = dentry;
    let mut mount = mount;
    let mut root = probe::<u64>(mount + u64::from(VFSMOUNT_ROOT.load())).unwrap_or(0);
    let mut tail = 1u32;
    let mut i = 0;
    while i < MAX_DEPTH {
        i += 1;
        if dentry == root {
            let own = mount - u64::from(MOUNT_VFSMOUNT.load());
            let Some([parent, mountpoint]) = probe::<[u64; 2]>(own + u64::from(MOUNT_PARENT.load())) else {
                break;
            };
            if parent == own {
                tail = 0;
                break;
            }
            dentry = mountpoint;
            mount = parent + u64::from(MOUNT_VFSMOUNT.load());
            root = probe::<u64>(mount + u64::from(VFSMOUNT_ROOT.load())).unwrap_or(0);
            continue;
        }
        let Some(name) = Name::read(dentry) else { break };
        if name.parent == dentry {
            break;
        }
        let length = mask::<255>(u64::from(name.length)) as u32;
        // SAFETY: as above; the masked place is among the texts, and the spare bytes take what the mask cannot
        // rule out.
        unsafe {
            let at = (&raw const (*buffer).start).read_volatile();
            if at < floor + length + 1 {
                break;
            }
            let at = at - length - 1;
            let byte = (&raw mut (*buffer).bytes)
                .cast::<u8>()
                .add(HEAD + mask::<TEXT_MASK>(u64::from(at)) as usize);
            *byte = b'/';
            if bpf_probe_read_kernel(byte.add(1).cast::<c_void>(), length, name.name as *const c_void) != 0 {
                break;
            }
            (&raw mut (*buffer).start).write_volatile(at);
        }
        dentry = name.parent;
    }
    // SAFETY: as above; the text's number is masked.
    unsafe {
        let start = (&raw const (*buffer).start).read_volatile();
        let length = (&raw mut (*buffer).lengths).cast::<u16>().add(text as usize);
        length.write_volatile((end - start) as u16);
        let tails = (&raw const (*buffer).tails).read_volatile();
        (&raw mut (*buffer).tails).write_volatile(tails | tail << text);
    }
    0
}

/// There is no free buffer.
pub const NONE: u32 = u32::MAX;

/// An empty buffer, or [`NONE`]: then the event is lost. A function of its own, so that its ways to an answer are one
/// way for the caller.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn claim_buffer() -> u32 {
    let Some(number) = buffer::claim() else {
        return NONE;
    };
    let Some(buffer) = buffer::get(number) else {
        return NONE;
    };
    // SAFETY: the buffer is ours now.
    unsafe {
        (&raw mut (*buffer).start).write_volatile(EVENT_TEXT as u32);
        (&raw mut (*buffer).tails).write_volatile(0);
        (&raw mut (*buffer).lengths).write_volatile([0; LENGTHS]);
    }
    number
}

/// Gives the buffer back.
#[inline(always)]
pub fn release(number: u32) {
    buffer::release(number);
}

/// Writes the fixed part before the texts and hands the event to the ring; false if that is full.
#[inline(always)]
pub fn output(number: u32, fill: impl FnOnce(*mut RawEvent)) -> bool {
    let Some(buffer) = buffer::get(number) else {
        return false;
    };
    // SAFETY: the buffer is ours; the fixed part fits before any start of the texts, is aligned, and consists of
    // integers; the output is at most `HEAD + EVENT_TEXT` bytes from there, which the buffer has.
    unsafe {
        let start = (&raw const (*buffer).start).read_volatile();
        let at = mask::<{ TEXT_MASK & !7 }>(u64::from(start));
        let event = (&raw mut (*buffer).bytes).cast::<u8>().add(at as usize);
        let event = event.cast::<RawEvent>();
        fill(event);
        let mut i = 0;
        while i < EVENT_TEXTS {
            (*event).lengths[i] = (*buffer).lengths[i];
            i += 1;
        }
        (*event).tails = (*buffer).tails as u16;
        (*event)._pad2 = 0;
        let length = (HEAD + EVENT_TEXT) as u64 - at;
        let bytes = core::slice::from_raw_parts(event.cast::<u8>(), mask::<LENGTH_MASK>(length) as usize);
        EVENTS.output::<[u8]>(bytes, 0).is_ok()
    }
}

/// Buffers that any task may claim: a program may be preempted by another one on the same processor.
#[cfg(feature = "ts")]
mod buffer {
    use aya_ebpf::{btf_maps::Array, helpers::generated::bpf_get_smp_processor_id, macros::btf_map};

    use super::Buffer;

    /// Programs that write events at the same time.
    const BUFFERS: usize = 32;
    /// Buffers that are tried; as many programs may be stacked up on one processor.
    const TRIES: u32 = 4;

    #[btf_map]
    static EVENT_BUFFERS: Array<[u64; size_of::<Buffer>() / 8], BUFFERS> = Array::new();
    /// 1 = in use.
    #[btf_map]
    static EVENT_CLAIMS: Array<u64, BUFFERS> = Array::new();

    #[inline(always)]
    pub fn claim() -> Option<u32> {
        // SAFETY: the helper has no precondition.
        let own = unsafe { bpf_get_smp_processor_id() } as u32;
        let mut i = 0;
        while i < TRIES {
            // Stacked programs of a processor spread over buffers that its neighbours seldom try.
            let number = (own + i * 7) % BUFFERS as u32;
            if let Some(claim) = EVENT_CLAIMS.get_ptr_mut(number) {
                // SAFETY: an aligned word of a map.
                if unsafe { exchange(claim, 1) } == 0 {
                    return Some(number);
                }
            }
            i += 1;
        }
        None
    }

    #[inline(always)]
    pub fn release(number: u32) {
        if let Some(claim) = EVENT_CLAIMS.get_ptr_mut(number) {
            // SAFETY: as in `claim`.
            unsafe { exchange(claim, 0) };
        }
    }

    /// # Safety
    /// `word` is an aligned word of a map's value.
    #[inline(always)]
    unsafe fn exchange(word: *mut u64, value: u64) -> u64 {
        let mut value = value;
        // SAFETY: see above; a full barrier, as every exchange of the instruction set.
        unsafe {
            core::arch::asm!("{value} = xchg_64({word} + 0, {value})", word = in(reg) word, value = inout(reg) value);
        }
        value
    }

    #[inline(always)]
    pub fn get(number: u32) -> Option<*mut Buffer> {
        EVENT_BUFFERS
            .get_ptr_mut(number)
            .map(|words| words.cast::<Buffer>())
    }
}

/// A stack of buffers for each processor: 5.10 has no atomic exchange for programs, and does not preempt them; only
/// an interrupt comes between.
#[cfg(not(feature = "ts"))]
mod buffer {
    use aya_ebpf::{macros::map, maps::PerCpuArray};

    use super::Buffer;

    const LEVELS: u32 = 2;

    #[map]
    static EVENT_BUFFERS: PerCpuArray<[u64; size_of::<Buffer>() / 8]> =
        PerCpuArray::with_max_entries(LEVELS, 0);
    /// Buffers in use on this processor.
    #[map]
    static EVENT_CLAIMS: PerCpuArray<u32> = PerCpuArray::with_max_entries(1, 0);

    #[inline(always)]
    pub fn claim() -> Option<u32> {
        let level = EVENT_CLAIMS.get_ptr_mut(0)?;
        // SAFETY: the word is this processor's; an interrupt leaves it as it was.
        unsafe {
            let number = level.read_volatile();
            if number >= LEVELS {
                return None;
            }
            level.write_volatile(number + 1);
            Some(number)
        }
    }

    #[inline(always)]
    pub fn release(number: u32) {
        if let Some(level) = EVENT_CLAIMS.get_ptr_mut(0) {
            // SAFETY: as in `claim`.
            unsafe { level.write_volatile(number) };
        }
    }

    #[inline(always)]
    pub fn get(number: u32) -> Option<*mut Buffer> {
        EVENT_BUFFERS
            .get_ptr_mut(number)
            .map(|words| words.cast::<Buffer>())
    }
}

//! Devices by number: under any name, on any filesystem, when they are opened, made and mounted.

use varmor_common::abi::{
    ANY, DEVICE_BLOCK, DEVICE_CHARACTER, DEVICE_MAKE, DEVICE_MOUNT, DEVICE_READ, DEVICE_WRITE, EVENT_FILE,
    PERM_APPEND, PERM_READ, PERM_WRITE, POINT_DEVICE, PROFILE_DEVICES, PointKey, VERDICT_DENY, operation,
};

use crate::{
    audit::What,
    identity::Subject,
    kernel::{Typed, pointer, probe, scalar, u16_at, u32_at},
    maps,
    offsets::{BDEV_DEV, FILE_INODE, FILE_PATH, INODE_MODE, INODE_RDEV, PATH_DENTRY, PATH_MNT, SB_BDEV},
    verdict::{ALLOW, point},
};

const S_IFMT: u16 = 0o170_000;
const S_IFCHR: u16 = 0o020_000;
const S_IFBLK: u16 = 0o060_000;
/// Bits of a minor in the kernel's `dev_t`.
const MINOR_BITS: u32 = 20;

/// Opening of a file with `PERM_*` rights: nothing to say about what is no device.
#[inline(always)]
pub fn open(subject: &Subject, opened: Typed, request: u32) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::OPEN);
    if subject.profile.flags & PROFILE_DEVICES == 0 {
        return ALLOW;
    }
    // SAFETY: `opened` is the hook's argument, whose inode is set before the hook.
    let (kind, number) = unsafe {
        let inode = pointer(opened, FILE_INODE.load());
        (
            kind_of(u16_at(inode, INODE_MODE.load())),
            u32_at(inode, INODE_RDEV.load()),
        )
    };
    if kind == 0 {
        return ALLOW;
    }
    let mut access = 0;
    if request & PERM_READ != 0 {
        access |= DEVICE_READ;
    }
    if request & (PERM_WRITE | PERM_APPEND) != 0 {
        access |= DEVICE_WRITE;
    }
    let verdict = device_verdict(subject.artefact, kind, number, access);
    if verdict == 0 {
        return ALLOW;
    }
    let (dentry, mount) = (
        scalar(opened, FILE_PATH.load() + PATH_DENTRY.load()).unwrap_or(0),
        scalar(opened, FILE_PATH.load() + PATH_MNT.load()).unwrap_or(0),
    );
    point(subject, WHAT, request, verdict, [dentry, mount, 0])
}

/// Making a node: `device` as mknod(2) has it.
#[inline(always)]
pub fn make(subject: &Subject, mode: u16, device: u32, place: impl FnOnce() -> (u64, u64)) -> i32 {
    const WHAT: What = What::new(EVENT_FILE, operation::MKNOD);
    if subject.profile.flags & PROFILE_DEVICES == 0 {
        return ALLOW;
    }
    let kind = kind_of(mode);
    if kind == 0 {
        return ALLOW;
    }
    // As in `new_decode_dev` of the kernel.
    let major = (device & 0xf_ff00) >> 8;
    let minor = device & 0xff | device >> 12 & 0xf_ff00;
    let number = major << MINOR_BITS | minor;
    let verdict = device_verdict(subject.artefact, kind, number, DEVICE_MAKE);
    if verdict == 0 {
        return ALLOW;
    }
    let (dentry, mount) = place();
    point(subject, WHAT, PERM_WRITE, verdict, [dentry, mount, 0])
}

/// What is said about mounting the block device behind a superblock: `VERDICT_*` bits, the site above.
#[inline(always)]
pub fn mount(subject: &Subject, superblock: u64) -> u64 {
    if subject.profile.flags & PROFILE_DEVICES == 0 {
        return 0;
    }
    match probe::<u64>(superblock + u64::from(SB_BDEV.load())) {
        Some(0) => 0,
        Some(device) => match probe::<u32>(device + u64::from(BDEV_DEV.load())) {
            Some(number) => device_verdict(subject.artefact, DEVICE_BLOCK, number, DEVICE_MOUNT),
            None => u64::from(VERDICT_DENY),
        },
        None => u64::from(VERDICT_DENY),
    }
}

/// What the rules say about `DEVICE_*` accesses to a device: `VERDICT_*` bits, the site above.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn device_verdict(artefact: u32, kind: u32, number: u32, access: u32) -> u64 {
    let Some(points) = maps::POINTS.get(artefact) else {
        return u64::from(VERDICT_DENY);
    };
    let major = number >> MINOR_BITS;
    let minor = number & ((1 << MINOR_BITS) - 1);
    let ask = |said: u64, wanted: u32, a: u32, b: u32| {
        ask(
            points,
            said,
            access & wanted,
            PointKey {
                hi: 0,
                lo: u64::from(wanted),
                kind: POINT_DEVICE,
                a,
                b,
                c: kind,
            },
        )
    };
    // Written out: the compiler may end a loop by falling into its head, which 6.1 and older refuse ("back-edge").
    let mut said = 0;
    said = ask(said, DEVICE_READ, major, minor);
    said = ask(said, DEVICE_WRITE, major, minor);
    said = ask(said, DEVICE_MAKE, major, minor);
    said = ask(said, DEVICE_MOUNT, major, minor);
    said = ask(said, DEVICE_READ, major, ANY);
    said = ask(said, DEVICE_WRITE, major, ANY);
    said = ask(said, DEVICE_MAKE, major, ANY);
    said = ask(said, DEVICE_MOUNT, major, ANY);
    said = ask(said, DEVICE_READ, ANY, ANY);
    said = ask(said, DEVICE_WRITE, ANY, ANY);
    said = ask(said, DEVICE_MAKE, ANY, ANY);
    ask(said, DEVICE_MOUNT, ANY, ANY)
}

/// Adds what a key says about an access that was wanted; a denying rule names the site before an auditing one.
#[inline(always)]
fn ask(points: &'static maps::PointTable, said: u64, wanted: u32, key: PointKey) -> u64 {
    if wanted == 0 {
        return said;
    }
    let Some(point) = maps::point(points, &key) else {
        return said;
    };
    let denies = point.verdict & VERDICT_DENY != 0 && said & u64::from(VERDICT_DENY) == 0;
    let union = said | u64::from(point.verdict);
    if said >> 32 == 0 || denies {
        union & 0xffff_ffff | u64::from(point.site) << 32
    } else {
        union
    }
}

#[inline(always)]
const fn kind_of(mode: u16) -> u32 {
    match mode & S_IFMT {
        S_IFCHR => DEVICE_CHARACTER,
        S_IFBLK => DEVICE_BLOCK,
        _ => 0,
    }
}

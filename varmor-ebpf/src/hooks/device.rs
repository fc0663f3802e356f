//! Devices by number: under any name, on any filesystem, when they are opened, made and mounted.

use varmor_common::abi::{
    ANY, DEVICE_BLOCK, DEVICE_CHARACTER, DEVICE_MAKE, DEVICE_MOUNT, DEVICE_READ, DEVICE_WRITE, EVENT_FILE,
    PERM_APPEND, PERM_READ, PERM_WRITE, POINT_DEVICE, PROFILE_DEVICES, PointKey, VERDICT_DENY, operation,
};

use crate::{
    audit::What,
    identity::Subject,
    kernel::{Typed, probe, scalar},
    maps,
    offsets::{BDEV_DEV, DENTRY_INODE, FILE_PATH, INODE_MODE, INODE_RDEV, PATH_DENTRY, PATH_MNT, SB_BDEV},
    verdict::{ALLOW, DENY, point},
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
    let Some(dentry) = scalar(opened, FILE_PATH.load() + PATH_DENTRY.load()) else {
        return DENY;
    };
    let Some(inode) = probe::<u64>(dentry + u64::from(DENTRY_INODE.load())) else {
        return DENY;
    };
    let Some(mode) = probe::<u16>(inode + u64::from(INODE_MODE.load())) else {
        return DENY;
    };
    let kind = kind_of(mode);
    if kind == 0 {
        return ALLOW;
    }
    let Some(number) = probe::<u32>(inode + u64::from(INODE_RDEV.load())) else {
        return DENY;
    };
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
    let mount = scalar(opened, FILE_PATH.load() + PATH_MNT.load()).unwrap_or(0);
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
    let mut verdict = 0u32;
    let mut site = 0u32;
    let mut i = 0;
    while i < 12 {
        // Each access with this number, with every minor, with every device.
        let wanted = access & 1 << (i & 3);
        let said = if wanted == 0 {
            0
        } else {
            said(points, kind, wanted, major, minor, i >> 2)
        };
        let bits = said as u32;
        if bits != 0 && (site == 0 || (bits & VERDICT_DENY != 0 && verdict & VERDICT_DENY == 0)) {
            site = (said >> 32) as u32;
        }
        verdict |= bits;
        i += 1;
    }
    u64::from(verdict) | u64::from(site) << 32
}

/// The point of an access; `width`: 0 = this number, 1 = every minor, 2 = every device.
#[inline(always)]
fn said(
    points: &'static maps::PointTable,
    kind: u32,
    wanted: u32,
    major: u32,
    minor: u32,
    width: u32,
) -> u64 {
    let key = PointKey {
        hi: 0,
        lo: u64::from(wanted),
        kind: POINT_DEVICE,
        a: if width == 2 { ANY } else { major },
        b: if width == 0 { minor } else { ANY },
        c: kind,
    };
    match maps::point(points, &key) {
        Some(point) => u64::from(point.verdict) | u64::from(point.site) << 32,
        None => 0,
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

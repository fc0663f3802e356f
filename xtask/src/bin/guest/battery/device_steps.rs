//! F-12: the node's disk by other names than its own.

use std::fs::{self, File};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::{Mode, SFlag, makedev, mknod},
};
use rustix::{
    fs::CWD,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_flag,
        fsconfig_set_string, fsmount, fsopen, move_mount,
    },
};

use super::{
    case::{Done, Failure, Step, Under, broken, setup},
    place::ROOT,
    policies::HARDENING,
};

const DISK: &str = "/dev/vda";
const NODE: &str = "/tmp/innocent";
const PLACE: &str = "/tmp/mounted";
const NOTHING: Option<&str> = None;

/// In a container that has the machine's devices; on the machine itself for the control.
pub(super) fn steps() -> Vec<Step> {
    let rules = Under(HARDENING, ROOT);
    vec![
        rules.plain("open the disk", || open(DISK)),
        rules.attack("open a node of the same numbers", || with_node(|| open(NODE))),
        rules.attack("open it by a path through the new root", || {
            open("/proc/self/root/dev/vda")
        }),
        // The second disk: its file system is mounted read-only and can be mounted once more.
        rules.plain("mount a disk", || mounted("/dev/vdb")),
        rules.attack("mount a node of the same numbers", || {
            with_node_of("/dev/vdb", || mounted(NODE))
        }),
        rules.attack("mount it by a link", || {
            let link = "/tmp/link";
            let _ = fs::remove_file(link);
            setup("link", std::os::unix::fs::symlink("/dev/vdb", link))?;
            mounted(link)
        }),
        rules.attack("mount it by fsopen", || {
            let context = fsopen("ext4", FsOpenFlags::empty())?;
            setup("source", fsconfig_set_string(&context, "source", "/dev/vdb"))?;
            setup("read-only", fsconfig_set_flag(&context, "ro"))?;
            fsconfig_create(&context)?;
            let made = fsmount(&context, FsMountFlags::empty(), MountAttrFlags::empty())?;
            setup("folder", fs::create_dir_all(PLACE))?;
            move_mount(&made, "", CWD, PLACE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
            Ok(umount2(PLACE, MntFlags::MNT_DETACH)?)
        }),
        rules.benign("open another device", || open("/dev/null")),
    ]
}

fn open(path: &str) -> Done {
    File::open(path)?;
    Ok(())
}

fn with_node(attempt: fn() -> Done) -> Done {
    with_node_of(DISK, attempt)
}

/// Makes a node with the numbers that sysfs knows the disk by.
fn with_node_of(disk: &str, attempt: fn() -> Done) -> Done {
    let name = disk.trim_start_matches("/dev/");
    let text = setup(
        "numbers",
        fs::read_to_string(format!("/sys/class/block/{name}/dev")),
    )?;
    let numbers = text
        .trim()
        .split_once(':')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let (major, minor) = numbers.ok_or_else(|| broken(format!("`{text}` are no numbers")))?;
    let _ = fs::remove_file(NODE);
    // Refusing the node itself is as good as refusing its use.
    mknod(NODE, SFlag::S_IFBLK, Mode::S_IRUSR, makedev(major, minor)).map_err(Failure::from)?;
    let done = attempt();
    let _ = fs::remove_file(NODE);
    done
}

fn mounted(source: &str) -> Done {
    setup("folder", fs::create_dir_all(PLACE))?;
    mount(Some(source), PLACE, Some("ext4"), MsFlags::MS_RDONLY, NOTHING)?;
    Ok(umount2(PLACE, MntFlags::MNT_DETACH)?)
}

//! C: capability rules against programs that have every capability.

use std::fs::{self, File, OpenOptions};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::RcvBufForce},
    unistd::{chroot, gethostname, sethostname},
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::{
    case::{Case, Done, Failure, Under, setup},
    identity::become_root,
    place::{Place, ROOT},
    policies::{NO_CAPABILITY, SOME_CAPABILITIES},
    raw,
};

const NOTHING: Option<&str> = None;

pub(super) fn cases() -> Vec<Case> {
    let full = Under(SOME_CAPABILITIES, ROOT);
    let partial = Under(
        SOME_CAPABILITIES,
        Place::with(CapabilitySet::SYS_MODULE.union(CapabilitySet::SYS_ADMIN)),
    );
    let none = Under(NO_CAPABILITY, ROOT);
    let mut matrix = vec![none.plain("set the host's name", host_name)];
    matrix.extend(DEPTHS_AND_SETS.iter().map(|(name, run)| none.attack(name, *run)));
    vec![
        Case::new(
            "C-1",
            "use a denied capability with the full set 0x1ffffffffff",
            vec![
                partial.plain("load a module with two capabilities", load_module),
                full.attack("load a module with all of them", load_module),
                full.attack("mount in a user namespace of one's own", || {
                    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
                    become_root(0)?;
                    mount_somewhere()
                }),
                full.attack("mount after two unshares", || {
                    unshare(CloneFlags::CLONE_NEWUSER)?;
                    unshare(CloneFlags::CLONE_NEWNS)?;
                    mount_somewhere()
                }),
                full.benign("change the owner of a file", || {
                    Ok(std::os::unix::fs::chown("/field/file", Some(65534), Some(65534))?)
                }),
            ],
        ),
        Case::new(
            "C-2",
            "use one with the set of overlayfs mounters, 0x1fffeffffff",
            vec![
                full.plain("set the host's name", host_name),
                full.attack("the same without CAP_SYS_RESOURCE", || {
                    drop_one(CapabilitySet::SYS_RESOURCE)?;
                    host_name()
                }),
                full.attack("load a module without it", || {
                    drop_one(CapabilitySet::SYS_RESOURCE)?;
                    load_module()
                }),
                none.benign("change an overlay's files without any capability", change_overlay),
            ],
        ),
        Case::new(
            "C-3",
            "use one in user namespaces of any depth, with any effective set",
            matrix,
        ),
    ]
}

type Entry = (&'static str, fn() -> Done);

const DEPTHS_AND_SETS: &[Entry] = &[
    ("chroot with the full set", || Ok(chroot("/field")?)),
    ("chroot with this capability alone", || {
        keep(CapabilitySet::SYS_CHROOT)?;
        Ok(chroot("/field")?)
    }),
    ("chroot without one other", || {
        drop_one(CapabilitySet::SYS_TIME)?;
        Ok(chroot("/field")?)
    }),
    ("force a buffer's size with the full set", force_buffer),
    ("force it with this capability alone", || {
        keep(CapabilitySet::NET_ADMIN)?;
        force_buffer()
    }),
    ("chroot one user namespace deeper, full set", || {
        deeper(1)?;
        Ok(chroot("/field")?)
    }),
    ("chroot one deeper, this capability alone", || {
        deeper(1)?;
        keep(CapabilitySet::SYS_CHROOT)?;
        Ok(chroot("/field")?)
    }),
    ("chroot one deeper, without one other", || {
        deeper(1)?;
        drop_one(CapabilitySet::SYS_TIME)?;
        Ok(chroot("/field")?)
    }),
    ("chroot two deeper, full set", || {
        deeper(2)?;
        Ok(chroot("/field")?)
    }),
    ("chroot two deeper, this capability alone", || {
        deeper(2)?;
        keep(CapabilitySet::SYS_CHROOT)?;
        Ok(chroot("/field")?)
    }),
    ("set the host's name one deeper", || {
        deeper(1)?;
        unshare(CloneFlags::CLONE_NEWUTS)?;
        host_name()
    }),
    ("set it two deeper", || {
        deeper(2)?;
        unshare(CloneFlags::CLONE_NEWUTS)?;
        host_name()
    }),
];

fn deeper(levels: usize) -> Done {
    for level in 0..levels {
        if level > 0 {
            // The next namespace needs a user that this one knows.
            become_root(0)?;
        }
        unshare(CloneFlags::CLONE_NEWUSER)?;
    }
    Ok(())
}

fn keep(set: CapabilitySet) -> Done {
    let sets = CapabilitySets {
        effective: set,
        permitted: set,
        inheritable: CapabilitySet::empty(),
    };
    setup("capset", set_capabilities(None, sets))
}

fn drop_one(one: CapabilitySet) -> Done {
    let mut sets = setup("capget", capabilities(None))?;
    sets.effective -= one;
    setup("capset", set_capabilities(None, sets))
}

fn host_name() -> Done {
    Ok(sethostname(gethostname()?)?)
}

/// A text is no module: the kernel says so after it has asked for the capability.
pub(super) fn load_module() -> Done {
    let file = setup("open", File::open("/field/file"))?;
    match raw::finit_module(file) {
        Err(nix::errno::Errno::ENOEXEC) => Ok(()),
        Err(errno) => Err(errno.into()),
        Ok(()) => Err(Failure::Broken("the kernel took a text for a module".to_owned())),
    }
}

fn mount_somewhere() -> Done {
    mount(Some("tmpfs"), "/stack", Some("tmpfs"), MsFlags::empty(), NOTHING)?;
    Ok(umount2("/stack", MntFlags::MNT_DETACH)?)
}

fn force_buffer() -> Done {
    let socket = setup(
        "socket",
        socket(AddressFamily::Unix, SockType::Datagram, SockFlag::empty(), None),
    )?;
    Ok(setsockopt(&socket, RcvBufForce, &65_536)?)
}

/// Copy-up, creation, removal of a file of the lower layer, rename of a new folder.
fn change_overlay() -> Done {
    use std::io::Write;
    OpenOptions::new()
        .append(true)
        .open("/field/file")?
        .write_all(b"more")?;
    fs::write("/field/new", "content")?;
    fs::rename("/field/new", "/field/newer")?;
    fs::remove_file("/vault/file")?;
    fs::create_dir("/field/folder")?;
    fs::rename("/field/folder", "/field/folder-2")?;
    Ok(fs::remove_dir("/field/folder-2")?)
}

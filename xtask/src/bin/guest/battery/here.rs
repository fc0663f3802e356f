//! `--here`: one operation in the place where this program was started, usually a container.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
};

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns, unshare};

use super::{
    case::{Done, Outcome, setup},
    containers, device_steps,
    identity::read,
    mutators, raw,
};

/// Prints what became of an operation by its name, or of a step of a case.
pub(super) fn command(name: &str, step: usize) -> Result<()> {
    if name == "first" {
        println!("{}", containers::pods::first());
        return Ok(());
    }
    let run = match name {
        "shadow-in-container" => || read("/etc/shadow"),
        "host-shadow" => host_shadow,
        "overlay" => change_overlay,
        "short-lived" => short_lived,
        "root-of-first" => || read("/proc/1/root/etc/shadow"),
        case => {
            let steps = if case == "F-12" {
                device_steps::steps()
            } else {
                mutators::on_disk(case)
            };
            steps.get(step).context("no such operation")?.run
        }
    };
    println!("{}", serde_json::to_string(&Outcome::from(run()))?);
    Ok(())
}

/// What `nsenter -t 1 -m` does.
fn host_shadow() -> Done {
    let namespace = setup("open the namespace", File::open("/proc/1/ns/mnt"))?;
    setup("setns", setns(namespace, CloneFlags::CLONE_NEWNS))?;
    read("/etc/shadow")
}

/// Copy-up of a file of the image, a new file, and a file of the image removed.
fn change_overlay() -> Done {
    OpenOptions::new()
        .append(true)
        .open("/etc/group")?
        .write_all(b"\n")?;
    fs::write("/root/new", "content")?;
    fs::rename("/root/new", "/root/newer")?;
    Ok(fs::remove_file("/usr/bin/true")?)
}

/// A grandchild in new namespaces, which is gone before anybody could look at it.
fn short_lived() -> Done {
    rustix::thread::set_name(c"A-3.mark")?;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)?;
    raw::in_child(|| raw::in_child(|| read("/etc/shadow")))
}

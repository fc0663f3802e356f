//! The lab's own promises: a guest has what the other suites build on.

use std::{fs, net::TcpListener, path::Path};

use anyhow::{Context, Result, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::{Case, Verdict};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "bpf_is_an_active_lsm",
        run: bpf_is_active,
    },
    Case {
        name: "apparmor_is_an_active_lsm",
        run: apparmor_is_active,
    },
    Case {
        name: "kernel_has_btf",
        run: kernel_has_btf,
    },
    Case {
        name: "file_systems_are_mounted",
        run: file_systems_are_mounted,
    },
    Case {
        name: "overlay_mounts_work",
        run: overlay_mounts_work,
    },
    Case {
        name: "cgroups_can_be_made",
        run: cgroups_can_be_made,
    },
    Case {
        name: "loopback_carries_connections",
        run: loopback_works,
    },
];

fn lsm(name: &str) -> Result<Verdict> {
    let active = fs::read_to_string("/sys/kernel/security/lsm").context("read the LSMs")?;
    ensure!(
        active.trim().split(',').any(|lsm| lsm == name),
        "the active LSMs are {active}"
    );
    Ok(Verdict::Passed)
}

fn bpf_is_active() -> Result<Verdict> {
    lsm("bpf")
}

fn apparmor_is_active() -> Result<Verdict> {
    lsm("apparmor")
}

fn kernel_has_btf() -> Result<Verdict> {
    let btf = fs::read("/sys/kernel/btf/vmlinux").context("read the kernel's BTF")?;
    ensure!(
        btf.starts_with(&[0x9f, 0xeb]),
        "the kernel's BTF has no magic number"
    );
    Ok(Verdict::Passed)
}

fn file_systems_are_mounted() -> Result<Verdict> {
    let mounts = fs::read_to_string("/proc/mounts").context("read the mounts")?;
    for (path, kind) in [
        ("/sys/fs/bpf", "bpf"),
        ("/sys/fs/cgroup", "cgroup2"),
        ("/sys/kernel/security", "securityfs"),
    ] {
        ensure!(
            mounts
                .lines()
                .any(|line| line.contains(&format!(" {path} {kind} "))),
            "{path} is not {kind}"
        );
    }
    Ok(Verdict::Passed)
}

fn overlay_mounts_work() -> Result<Verdict> {
    let base = Path::new("/tmp/overlay-check");
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir_all(base.join(name)).with_context(|| format!("create {name}"))?;
    }
    fs::write(base.join("lower/file"), "lower").context("write the lower file")?;
    let options =
        "lowerdir=/tmp/overlay-check/lower,upperdir=/tmp/overlay-check/upper,workdir=/tmp/overlay-check/work";
    let merged = base.join("merged");
    mount(
        Some("overlay"),
        &merged,
        Some("overlay"),
        MsFlags::empty(),
        Some(options),
    )
    .context("mount overlay")?;
    fs::write(merged.join("file"), "upper").context("write through the overlay")?;
    let lower = fs::read_to_string(base.join("lower/file")).context("read the lower file")?;
    let upper = fs::read_to_string(base.join("upper/file")).context("read the upper file")?;
    umount2(&merged, MntFlags::MNT_DETACH).context("unmount overlay")?;
    ensure!(
        (lower.as_str(), upper.as_str()) == ("lower", "upper"),
        "the write went to the wrong layer"
    );
    Ok(Verdict::Passed)
}

fn cgroups_can_be_made() -> Result<Verdict> {
    let folder = Path::new("/sys/fs/cgroup/lab-check");
    fs::create_dir(folder).context("make a cgroup")?;
    let there = folder.join("cgroup.procs").exists();
    fs::remove_dir(folder).context("remove the cgroup")?;
    ensure!(there, "a cgroup has no cgroup.procs");
    Ok(Verdict::Passed)
}

fn loopback_works() -> Result<Verdict> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
    let address = listener.local_addr().context("ask for the address")?;
    std::net::TcpStream::connect(address).context("connect")?;
    Ok(Verdict::Passed)
}

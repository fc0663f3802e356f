//! The files that the operations work on.

use std::{fs, os::unix::fs::PermissionsExt};

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};

/// With a file's name: one component, three, nine.
pub(super) const TOP: &str = "";
pub(super) const SHALLOW: &str = "/aa/bb";
pub(super) const DEEP: &str = "/aa/bb/cc/dd/ee/ff/gg/hh";
/// Like a container's root: an overlay mounted at the first component.
pub(super) const OVERLAY: &str = "/ov/bb/cc/dd/ee/ff/gg/hh";
/// Like a volume in it: a part of another filesystem, bound at the fifth component.
pub(super) const VOLUME: &str = "/ov/bb/cc/dd/vv/ff/gg/hh";

const NOTHING: Option<&str> = None;

/// A busybox, which is `true` when it is called so.
const PROGRAM: &str = "/bin/true";

/// What needs no mounts.
pub(super) fn files() -> Result<()> {
    fs::create_dir_all(DEEP)?;
    for folder in [TOP, SHALLOW, DEEP] {
        fs::write(format!("{folder}/file.txt"), [b'x'; 4096])?;
    }
    let program = format!("{DEEP}/true");
    fs::copy(PROGRAM, &program).with_context(|| format!("copy {PROGRAM}"))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

pub(super) fn prepare() -> Result<()> {
    files()?;
    for folder in ["/tmp/lower/bb/cc/dd/ee/ff/gg/hh", "/tmp/lower/bb/cc/dd/vv"] {
        fs::create_dir_all(folder)?;
    }
    for folder in ["/ov", "/tmp/upper", "/tmp/work", "/tmp/volume/source/ff/gg/hh"] {
        fs::create_dir_all(folder)?;
    }
    fs::write("/tmp/lower/bb/cc/dd/ee/ff/gg/hh/file.txt", "content")?;
    fs::write("/tmp/volume/source/ff/gg/hh/file.txt", "content")?;
    let layers = "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work";
    mount(
        Some("overlay"),
        "/ov",
        Some("overlay"),
        MsFlags::empty(),
        Some(layers),
    )
    .context("mount the overlay")?;
    let place = "/ov/bb/cc/dd/vv";
    mount(
        Some("/tmp/volume/source"),
        place,
        NOTHING,
        MsFlags::MS_BIND,
        NOTHING,
    )
    .context("bind the volume")
}

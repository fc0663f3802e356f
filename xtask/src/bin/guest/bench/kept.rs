//! Keeps the product's loaded programs between runs. To load them takes half a minute of a guest that counts
//! instructions, and `varmor run` adopts pins of its own build that it finds in its place: so those of the first
//! run are put, under other names, where the next run will look.

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

const BPFFS: &str = "/sys/fs/bpf";
const STATE: &str = "/run/varmor";
const KEPT_PINS: &str = "/sys/fs/bpf/kept";
const KEPT_STATE: &str = "/run/kept";
/// Attached programs: these are not kept, so that nothing is attached between runs.
const LINKS: &str = "links";

/// Keeps what the run with this process id has pinned, unless something is kept already.
pub(super) fn save(pid: u32) -> Result<()> {
    if Path::new(KEPT_PINS).exists() || !can_attach_again() {
        return Ok(());
    }
    let (pins, state) = places(pid);
    for build in entries(&pins)? {
        let Some(name) = build.file_name() else { continue };
        link_all(&build, &Path::new(KEPT_PINS).join(name))?;
    }
    copy_all(&state, Path::new(KEPT_STATE))
}

/// Puts what is kept where a run with this process id finds it.
pub(super) fn restore(pid: u32) -> Result<()> {
    if !Path::new(KEPT_PINS).exists() {
        return Ok(());
    }
    let (pins, state) = places(pid);
    for build in entries(Path::new(KEPT_PINS))? {
        let Some(name) = build.file_name() else { continue };
        link_all(&build, &pins.join(name))?;
    }
    copy_all(Path::new(KEPT_STATE), &state)
}

/// Pins of the kept programs.
pub(super) fn programs() -> Result<Vec<PathBuf>> {
    let mut pins = Vec::new();
    for build in entries(Path::new(KEPT_PINS))? {
        pins.extend(entries(&build.join("programs"))?);
    }
    Ok(pins)
}

/// Removes what is kept: nothing of the product is in the kernel after that.
pub(super) fn forget() -> Result<()> {
    if Path::new(KEPT_PINS).exists() {
        fs::remove_dir_all(KEPT_PINS).with_context(|| format!("remove {KEPT_PINS}"))?;
    }
    Ok(())
}

/// Before 5.12, a program that was detached cannot be attached any more: there each run loads its own.
fn can_attach_again() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (5, 12)
}

fn places(pid: u32) -> (PathBuf, PathBuf) {
    let name = format!("varmor-run-{pid}");
    (Path::new(BPFFS).join(&name), Path::new(STATE).join(name))
}

/// The folders of one build's pins, with everything in them but links.
fn link_all(from: &Path, to: &Path) -> Result<()> {
    for folder in entries(from)? {
        let Some(name) = folder.file_name() else { continue };
        let copy = to.join(name);
        make_folder(&copy)?;
        if name == LINKS {
            continue;
        }
        for pin in entries(&folder)? {
            let Some(name) = pin.file_name() else { continue };
            let name = copy.join(name);
            fs::hard_link(&pin, &name)
                .with_context(|| format!("link {} to {}", pin.display(), name.display()))?;
        }
    }
    Ok(())
}

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    make_folder(to)?;
    for file in entries(from)?.into_iter().filter(|file| file.is_file()) {
        let Some(name) = file.file_name() else { continue };
        fs::copy(&file, to.join(name)).with_context(|| format!("copy {}", file.display()))?;
    }
    Ok(())
}

fn make_folder(path: &Path) -> Result<()> {
    let mut maker = fs::DirBuilder::new();
    maker.recursive(true).mode(0o700);
    maker
        .create(path)
        .with_context(|| format!("make folder {}", path.display()))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

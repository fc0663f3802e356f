//! The demo's container image: a small Debian-like root as a docker archive, made without a registry.

use std::{
    fs::{self, File},
    io::Cursor,
    path::Path,
};

use anyhow::{Context, Result};
use serde_json::json;
use tar::{Builder, EntryType, Header};

use crate::{process, tools, vm::rootfs, workspace};

/// The name by which containerd knows the image after the import.
const TAG: &str = "varmor/demo:1";
/// Programs that are dynamically linked, so that the loader can be told to run them.
const PROGRAMS: &[&str] = &["usr/bin/dash", "usr/bin/bash"];
const LIBRARIES: &[&str] = &["libc.so.6", "libtinfo.so.6"];
const LOADER: &str = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
/// Applets of the static busybox; `sh` is not among them, it is the real dash.
const APPLETS: &[&str] = &["cat", "cp", "id", "ls", "mv", "ps", "rm", "sleep", "true", "wget"];
const FILES: &[(&str, u32, &str)] = &[
    (
        "etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    ),
    ("etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/shadow", 0o640, "root:*demo-shadow*:20000:0:99999:7:::\n"),
    ("usr/bin/runc", 0o755, "not the real runc\n"),
];
const FOLDERS: &[&str] = &[
    "dev",
    "proc",
    "sys",
    "root",
    "etc",
    "run",
    "mnt",
    "scratch",
    "host-cgroup",
    "var",
    "usr",
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
];
const LINKS: &[(&str, &str)] = &[
    ("bin", "usr/bin"),
    ("sbin", "usr/sbin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("var/run", "../run"),
    ("usr/bin/sh", "dash"),
    (
        "usr/lib64/ld-linux-x86-64.so.2",
        "../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    ),
];

/// Writes the archive that `ctr images import` takes; `guest` is the static `varmor-guest`.
pub(crate) fn write(archive: &Path, guest: &Path) -> Result<()> {
    let layer = layer(guest)?;
    let folder = archive.parent().context("the archive has no folder")?;
    workspace::make_dir(folder)?;
    let plain = folder.join("layer.tar");
    fs::write(&plain, &layer).with_context(|| format!("write {}", plain.display()))?;
    let digest = sha256(&plain)?;
    fs::remove_file(&plain).context("remove the layer")?;
    let config = serde_json::to_vec(&json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["/usr/bin/varmor-guest", "wait"],
            "WorkingDir": "/",
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{digest}")] },
        "history": [{ "created_by": "cargo xtask demo" }],
    }))
    .context("write the image's config")?;
    let manifest =
        serde_json::to_vec(&json!([{ "Config": "config.json", "RepoTags": [TAG], "Layers": ["layer.tar"] }]))
            .context("write the image's manifest")?;
    let mut builder =
        Builder::new(File::create(archive).with_context(|| format!("create {}", archive.display()))?);
    for (name, content) in [
        ("layer.tar", &layer),
        ("config.json", &config),
        ("manifest.json", &manifest),
    ] {
        append(&mut builder, name, 0o644, content)?;
    }
    builder
        .finish()
        .with_context(|| format!("write {}", archive.display()))
}

fn layer(guest: &Path) -> Result<Vec<u8>> {
    let tree = rootfs::tree()?;
    let mut builder = Builder::new(Vec::new());
    for folder in FOLDERS {
        special(&mut builder, folder, EntryType::Directory, 0o755, None)?;
    }
    special(&mut builder, "tmp", EntryType::Directory, 0o1777, None)?;
    for (name, to) in LINKS {
        special(&mut builder, name, EntryType::Symlink, 0o777, Some(to))?;
    }
    for (name, mode, content) in FILES {
        append(&mut builder, name, *mode, content.as_bytes())?;
    }
    for name in PROGRAMS {
        append(&mut builder, name, 0o755, &read(&tree.join(name))?)?;
    }
    append(&mut builder, LOADER, 0o755, &read(&tree.join(LOADER))?)?;
    for name in LIBRARIES {
        let path = format!("usr/lib/x86_64-linux-gnu/{name}");
        append(&mut builder, &path, 0o644, &read(&tree.join(&path))?)?;
    }
    append(&mut builder, "usr/bin/busybox", 0o755, &read(&tools::busybox()?)?)?;
    for applet in APPLETS {
        special(
            &mut builder,
            &format!("usr/bin/{applet}"),
            EntryType::Symlink,
            0o777,
            Some("busybox"),
        )?;
    }
    append(&mut builder, "usr/bin/varmor-guest", 0o755, &read(guest)?)?;
    builder.into_inner().context("write the image's layer")
}

fn append<W: std::io::Write>(builder: &mut Builder<W>, name: &str, mode: u32, content: &[u8]) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(mode);
    header.set_size(content.len() as u64);
    builder
        .append_data(&mut header, name, Cursor::new(content))
        .with_context(|| format!("add {name} to the image"))
}

fn special<W: std::io::Write>(
    builder: &mut Builder<W>,
    name: &str,
    kind: EntryType,
    mode: u32,
    to: Option<&str>,
) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(0);
    let added = match to {
        Some(to) => builder.append_link(&mut header, name, to),
        None => builder.append_data(&mut header, name, std::io::empty()),
    };
    added.with_context(|| format!("add {name} to the image"))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}

fn sha256(file: &Path) -> Result<String> {
    let text = process::output("sha256sum", [file])?;
    text.split_whitespace()
        .next()
        .map(str::to_owned)
        .context("sha256sum printed nothing")
}

//! Container images as OCI archives, written without a container engine; the same input gives the same bytes.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::{process, workspace};

const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// What an image says about itself.
pub(crate) struct About<'a> {
    /// The name by which a container runtime knows it after the import, with its tag.
    pub(crate) name: &'a str,
    pub(crate) title: &'a str,
    pub(crate) version: &'a str,
    pub(crate) entrypoint: &'a [&'a str],
    /// `uid:gid`.
    pub(crate) user: &'a str,
}

/// The files of an image, in the order in which they were added.
pub(crate) struct Layer(Builder<Vec<u8>>);

impl Layer {
    pub(crate) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    pub(crate) fn folder(&mut self, path: &str, mode: u32) -> Result<()> {
        self.entry(path, EntryType::Directory, mode, &[])
    }

    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entry(path, EntryType::Regular, mode, content)
    }

    pub(crate) fn link(&mut self, path: &str, to: &str) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        self.0
            .append_link(&mut header, path, to)
            .with_context(|| format!("add {path} to the image"))
    }

    /// A folder of this machine with everything in it.
    pub(crate) fn tree(&mut self, source: &Path, path: &str) -> Result<()> {
        self.folder(path, 0o755)?;
        let mut entries: Vec<_> = fs::read_dir(source)
            .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
            .with_context(|| format!("read folder {}", source.display()))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let inside = format!("{path}/{}", entry.file_name().to_string_lossy());
            let kind = entry
                .file_type()
                .with_context(|| format!("look at {}", entry.path().display()))?;
            if kind.is_dir() {
                self.tree(&entry.path(), &inside)?;
            } else if kind.is_symlink() {
                let to = fs::read_link(entry.path()).with_context(|| format!("read the link {inside}"))?;
                self.link(&inside, &to.to_string_lossy())?;
            } else {
                self.file(&inside, 0o644, &read(&entry.path())?)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &str, kind: EntryType, mode: u32, content: &[u8]) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        self.0
            .append_data(&mut header, path, content)
            .with_context(|| format!("add {path} to the image"))
    }
}

/// Writes the archive; a reader never sees half of it.
pub(crate) fn write(archive: &Path, about: &About<'_>, layer: Layer) -> Result<()> {
    let scratch = workspace::Scratch::new(&format!("oci-{}", about.title))?;
    let plain = scratch.path().join("layer.tar");
    let bytes = layer.0.into_inner().context("write the image's layer")?;
    fs::write(&plain, bytes).with_context(|| format!("write {}", plain.display()))?;
    let packed = scratch.path().join("layer.tar.gz");
    compress(&plain, &packed)?;
    let content = sha256(&plain)?;
    let mut blobs = Blobs {
        folder: scratch.path(),
        builder: Builder::new(Vec::new()),
    };
    append(&mut blobs.builder, "oci-layout", LAYOUT.as_bytes())?;
    let layer = blobs.add("application/vnd.oci.image.layer.v1.tar+gzip", &read(&packed)?)?;
    let config = blobs.json(
        "application/vnd.oci.image.config.v1+json",
        &json!({
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "User": about.user,
                "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": about.entrypoint,
                "WorkingDir": "/",
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{content}")] },
            "history": [{ "created_by": "cargo xtask image" }],
        }),
    )?;
    let manifest_kind = "application/vnd.oci.image.manifest.v1+json";
    let mut manifest = blobs.json(
        manifest_kind,
        &json!({
            "schemaVersion": 2,
            "mediaType": manifest_kind,
            "config": config,
            "layers": [layer],
            "annotations": {
                "org.opencontainers.image.title": about.title,
                "org.opencontainers.image.version": about.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        }),
    )?;
    manifest["annotations"] = json!({
        "io.containerd.image.name": about.name,
        "org.opencontainers.image.ref.name": about.version,
    });
    let index = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest] });
    append(&mut blobs.builder, "index.json", &bytes_of(&index)?)?;
    let bytes = blobs.builder.into_inner().context("write the image")?;
    workspace::write_file(archive, bytes)
}

/// The contents of an archive, each under its own digest.
struct Blobs<'a> {
    folder: &'a Path,
    builder: Builder<Vec<u8>>,
}

impl Blobs<'_> {
    /// Adds one and returns how others refer to it.
    fn add(&mut self, kind: &str, content: &[u8]) -> Result<Value> {
        let file = self.folder.join("blob");
        fs::write(&file, content).with_context(|| format!("write {}", file.display()))?;
        let digest = sha256(&file)?;
        append(&mut self.builder, &format!("blobs/sha256/{digest}"), content)?;
        Ok(json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": content.len() }))
    }

    fn json(&mut self, kind: &str, content: &Value) -> Result<Value> {
        self.add(kind, &bytes_of(content)?)
    }
}

fn bytes_of(value: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec(value).context("print JSON")
}

fn append(builder: &mut Builder<Vec<u8>>, name: &str, content: &[u8]) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    builder
        .append_data(&mut header, name, content)
        .with_context(|| format!("add {name} to the archive"))
}

/// `-n` keeps name and time of the file out of the result.
fn compress(plain: &Path, packed: &Path) -> Result<()> {
    let status = Command::new("gzip")
        .args(["-n", "-9", "-c"])
        .arg(plain)
        .stdin(Stdio::null())
        .stdout(File::create(packed).with_context(|| format!("create {}", packed.display()))?)
        .status()
        .context("run gzip")?;
    if !status.success() {
        bail!("gzip failed ({status})");
    }
    Ok(())
}

pub(crate) fn sha256(file: &Path) -> Result<String> {
    let text = process::output("sha256sum", [file])?;
    text.split_whitespace()
        .next()
        .map(str::to_owned)
        .context("sha256sum printed nothing")
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}

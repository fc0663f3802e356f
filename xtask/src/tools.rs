//! The programs that the lab runs, how to tell that each works, and where it comes from.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};

use crate::{bpf, process::Run, progress, workspace};

/// A program, or a group of files, that one Debian package brings.
#[derive(Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// What it is needed for.
    pub(crate) purpose: &'static str,
    probe: Probe,
    source: Source,
}

#[derive(Clone, Copy)]
enum Probe {
    /// The command runs and exits with 0.
    Runs(&'static [&'static str]),
    /// Anything that one command cannot tell.
    Check(fn() -> bool),
}

#[derive(Clone, Copy)]
enum Source {
    Apt(&'static str),
    BpfLinker,
}

pub(crate) const APT: &str = "apt-get install --yes --no-install-recommends";

const QEMU: Tool = apt(
    "qemu-system-x86_64",
    "guests",
    Probe::Runs(&["qemu-system-x86_64", "--version"]),
    "qemu-system-x86",
);
const BUSYBOX: Tool = apt(
    "busybox (static)",
    "guests",
    Probe::Check(busybox_is_static),
    "busybox-static",
);
const XZ: Tool = apt(
    "xz",
    "kernel modules",
    Probe::Runs(&["xz", "--version"]),
    "xz-utils",
);
const ZSTD: Tool = apt(
    "zstd",
    "kernel modules",
    Probe::Runs(&["zstd", "--version"]),
    "zstd",
);
const DEPMOD: Tool = apt(
    "depmod",
    "kernel modules",
    Probe::Runs(&["depmod", "--version"]),
    "kmod",
);
const SETPRIV: Tool = apt(
    "setpriv",
    "ending guests with the lab",
    Probe::Runs(&["setpriv", "--pdeathsig", "KILL", "true"]),
    "util-linux",
);
const MMDEBSTRAP: Tool = apt(
    "mmdebstrap",
    "container guests",
    Probe::Runs(&["mmdebstrap", "--version"]),
    "mmdebstrap",
);
const MKE2FS: Tool = apt(
    "mke2fs",
    "container guests",
    Probe::Runs(&["mke2fs", "-V"]),
    "e2fsprogs",
);
const APPARMOR_PARSER: Tool = apt(
    "apparmor_parser",
    "benchmarks against AppArmor",
    Probe::Runs(&["apparmor_parser", "--version"]),
    "apparmor",
);
const OPENSSL: Tool = apt(
    "openssl",
    "keys of a cluster",
    Probe::Runs(&["openssl", "version"]),
    "openssl",
);
const GZIP: Tool = apt("gzip", "images", Probe::Runs(&["gzip", "--version"]), "gzip");
const PS: Tool = apt("ps", "ending a cluster", Probe::Runs(&["ps"]), "procps");
const CC: Tool = apt(
    "cc",
    "linking",
    Probe::Runs(&["cc", "--version"]),
    "build-essential",
);
const PROTOC: Tool = apt(
    "protoc",
    "the agent's containerd client",
    Probe::Runs(&["protoc", "--version"]),
    "protobuf-compiler",
);
const LIBSECCOMP: Tool = apt(
    "libseccomp (static)",
    "the agent's seccomp filters",
    Probe::Check(libseccomp_is_there),
    "libseccomp-dev",
);
const RUSTC_WEB: Tool = apt(
    "rustc with LLVM 22",
    "the eBPF object",
    Probe::Check(bpf::rustc_is_there),
    "rustc-web",
);
const CARGO_WEB: Tool = apt(
    "cargo for it",
    "the eBPF object",
    Probe::Check(bpf::cargo_is_there),
    "cargo-web",
);
const RUST_SRC: Tool = apt(
    "rust-src",
    "the eBPF object",
    Probe::Check(bpf::source_is_there),
    "rust-web-src",
);
const LLVM: Tool = apt(
    "LLVM",
    "bpf-linker",
    Probe::Check(bpf::llvm_is_there),
    bpf::LLVM_PACKAGE,
);
const BPF_LINKER: Tool = Tool {
    name: "bpf-linker",
    purpose: "the eBPF object",
    probe: Probe::Check(bpf::linker_works),
    source: Source::BpfLinker,
};

/// What a guest needs.
pub(crate) const GUEST: &[Tool] = &[QEMU, BUSYBOX, XZ, ZSTD, DEPMOD, SETPRIV];
/// What a guest with containers needs besides.
pub(crate) const CONTAINER_GUEST: &[Tool] = &[MMDEBSTRAP, MKE2FS];
/// What a cluster needs besides.
pub(crate) const CLUSTER: &[Tool] = &[OPENSSL, PS];
/// What the images of the product need besides.
pub(crate) const IMAGES: &[Tool] = &[GZIP];
/// What benchmarks need besides.
pub(crate) const APPARMOR: &[Tool] = &[APPARMOR_PARSER];
/// What the programs of the host need.
pub(crate) const PROGRAMS: &[Tool] = &[CC, PROTOC, LIBSECCOMP];
/// What the eBPF object needs besides a usable nightly. LLVM comes before the linker that is built against it.
pub(crate) const OBJECT_NIGHTLY: &[Tool] = &[CC, LLVM, BPF_LINKER];
/// What it needs without one.
pub(crate) const OBJECT_DEBIAN: &[Tool] = &[CC, RUSTC_WEB, CARGO_WEB, RUST_SRC, LLVM, BPF_LINKER];

const fn apt(name: &'static str, purpose: &'static str, probe: Probe, package: &'static str) -> Tool {
    Tool {
        name,
        purpose,
        probe,
        source: Source::Apt(package),
    }
}

impl Tool {
    pub(crate) fn works(&self) -> bool {
        match self.probe {
            Probe::Runs(words) => runs(words[0], &words[1..]),
            Probe::Check(check) => check(),
        }
    }

    /// Prints whether it is there; the same is returned.
    pub(crate) fn show(&self) -> bool {
        let works = self.works();
        let state = if works {
            "works".to_owned()
        } else {
            format!("MISSING, to install: {}", self.remedy())
        };
        println!("{:<22} {:<30} {state}", self.name, self.purpose);
        works
    }

    /// The command that brings it.
    pub(crate) fn remedy(&self) -> String {
        match self.source {
            Source::Apt(package) => format!("{APT} {package}"),
            Source::BpfLinker => bpf::linker_command(),
        }
    }
}

/// Tells whether a command runs and exits with 0.
pub(crate) fn runs(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> bool {
    let status = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Makes sure that every tool works, installing what is missing.
pub(crate) fn need(tools: &[Tool]) -> Result<()> {
    let missing: Vec<&Tool> = tools.iter().filter(|tool| !tool.works()).collect();
    for tool in &missing {
        eprintln!(
            "missing: {} (for {}); will run: {}",
            tool.name,
            tool.purpose,
            tool.remedy()
        );
    }
    install(&missing)
}

fn install(missing: &[&Tool]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing
        .iter()
        .filter_map(|tool| match tool.source {
            Source::Apt(package) => Some(package),
            Source::BpfLinker => None,
        })
        .collect();
    packages.sort_unstable();
    packages.dedup();
    if !packages.is_empty() {
        if crate::process::output("id", ["-u"])?.trim() != "0" {
            bail!(
                "installing packages needs root; run as root: {APT} {}",
                packages.join(" ")
            );
        }
        if !lists_are_fresh() {
            progress::timed("apt-get update", || {
                Run::new("apt-update", "apt-get").arg("update").run()
            })?;
        }
        progress::timed(&format!("{APT} {}", packages.join(" ")), || {
            let words = APT.split(' ').skip(1).chain(packages.iter().copied());
            Run::new("apt-install", "apt-get")
                .args(words)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .run()
        })?;
    }
    if missing
        .iter()
        .any(|tool| matches!(tool.source, Source::BpfLinker))
    {
        progress::timed(&bpf::linker_command(), bpf::install_linker)?;
    }
    for tool in missing {
        if !tool.works() {
            bail!("{} still does not work after: {}", tool.name, tool.remedy());
        }
    }
    Ok(())
}

fn lists_are_fresh() -> bool {
    let Ok(entries) = fs::read_dir("/var/lib/apt/lists") else {
        return false;
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    entries.flatten().any(|entry| {
        let is_list = entry.file_name().to_string_lossy().contains("_Packages");
        // apt gives a list the archive's own time; the inode's change time is that of the download.
        let changed = entry.metadata().map_or(0, |about| about.ctime().unsigned_abs());
        is_list && now.saturating_sub(changed) < 24 * 3600
    })
}

/// The static busybox of this machine.
pub(crate) fn busybox() -> Result<PathBuf> {
    let places = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from);
    places
        .into_iter()
        .find(|path| path.is_file())
        .context("no busybox: run `cargo xtask setup`")
}

/// Where `.cargo/config.toml` tells the linker to look.
fn libseccomp_is_there() -> bool {
    Path::new("/usr/lib/x86_64-linux-gnu/libseccomp.a").is_file()
        && Path::new("/usr/include/seccomp.h").is_file()
}

fn busybox_is_static() -> bool {
    // `ldd` fails on a static program: "not a dynamic executable".
    busybox().is_ok_and(|path| runs(&path, &["true"]) && !runs("ldd", &[&path.to_string_lossy()]))
}

/// A folder for a tool that cargo installs, keyed by its version.
pub(crate) fn cargo_root(name: &str, version: &str) -> PathBuf {
    workspace::cache().join(format!("{name}-{version}"))
}

/// The value of PATH with one more folder in front.
pub(crate) fn path_with(folder: &Path) -> std::ffi::OsString {
    let old = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&old)))
        .unwrap_or(old)
}

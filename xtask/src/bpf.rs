//! The eBPF object: which toolchain makes it, and making it in its two flavours.

use std::{
    fs,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context, Result, bail};

use crate::{
    process::{self, Run},
    tools::{self, Tool},
    workspace,
};

const LINKER_VERSION: &str = "0.13.0";
/// The LLVM that bpf-linker is built against; it cannot read bitcode of a newer one.
const LLVM_MAJOR: u32 = 22;
pub(crate) const LLVM_PACKAGE: &str = "llvm-22-dev";
const LLVM_FOLDER: &str = "/usr/lib/llvm-22";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const TARGET: &str = "bpfel-unknown-none";

/// One source, two objects: kernels from 5.12 on have task storage and atomic exchanges, 5.10 has neither, and a map type or an
/// instruction that the kernel does not know makes the whole object unloadable.
const FLAVOURS: [(&str, &[&str]); 2] = [("ts", &["--features", "ts"]), ("ptr", &[])];

/// A compiler that can make the object: it needs `core` as source, which is not shipped compiled for BPF.
pub(crate) enum Toolchain {
    /// A nightly of rustup that has rust-src.
    Nightly(String),
    /// Debian's packages.
    Debian,
}

impl Toolchain {
    pub(crate) fn choose() -> Self {
        nightly().map_or(Self::Debian, Self::Nightly)
    }

    /// What has to be there for the chosen compiler.
    pub(crate) fn tools() -> &'static [Tool] {
        match Self::choose() {
            Self::Nightly(_) => tools::OBJECT_NIGHTLY,
            Self::Debian => tools::OBJECT_DEBIAN,
        }
    }

    pub(crate) fn describe() -> String {
        match Self::choose() {
            Self::Nightly(name) => format!("rustup's {name} with rust-src"),
            Self::Debian => format!(
                "Debian's {DEBIAN_RUSTC} (no rustup nightly has rust-src and LLVM {LLVM_MAJOR} or older)"
            ),
        }
    }

    /// A cargo command of this toolchain in the crate's folder.
    fn cargo(&self, log: &str) -> Run {
        let run = match self {
            Self::Nightly(name) => Run::new(log, "rustup")
                .without_cargo_env()
                .args(["run", name, "cargo"]),
            Self::Debian => Run::new(log, DEBIAN_CARGO)
                .without_cargo_env()
                .env("RUSTC", DEBIAN_RUSTC)
                .env("RUSTC_BOOTSTRAP", "1"),
        };
        run.env("PATH", tools::path_with(&linker_root().join("bin")))
            .dir(&workspace::root().join("varmor-ebpf"))
    }
}

/// Where the objects are: what `VARMOR_BPF_DIR` says to the build of the agent.
pub(crate) fn objects() -> PathBuf {
    workspace::target().join("bpf")
}

/// Builds one flavour; cargo skips what has not changed.
fn build_flavour(toolchain: &Toolchain, name: &str, features: &[&str]) -> Result<()> {
    let target = workspace::target().join(format!("ebpf-{name}"));
    toolchain
        .cargo(&format!("build-ebpf-{name}"))
        .args(["build", "--release", "-Z", "build-std=core", "--target", TARGET])
        .args(features)
        .env("CARGO_TARGET_DIR", &target)
        .run()?;
    let folder = target.join(TARGET).join("release");
    let built =
        fs::read(folder.join("varmor")).with_context(|| format!("read varmor in {}", folder.display()))?;
    if !built.starts_with(b"\x7fELF") {
        bail!("{} is not an ELF object", folder.display());
    }
    let object = objects().join(format!("varmor-{name}.o"));
    // An unchanged object keeps its time: cargo would build the agent again.
    if fs::read(&object).ok().as_ref() != Some(&built) {
        workspace::write_file(&object, &built)?;
    }
    Ok(())
}

/// Builds both flavours, side by side: most of it is the linker, which uses one processor.
pub(crate) fn build() -> Result<()> {
    tools::need(Toolchain::tools())?;
    let toolchain = &Toolchain::choose();
    thread::scope(|scope| {
        let building = FLAVOURS.map(|(name, features)| {
            scope.spawn(move || {
                build_flavour(toolchain, name, features)
                    .with_context(|| format!("eBPF object, flavour {name}"))
            })
        });
        building
            .into_iter()
            .try_for_each(|flavour| flavour.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Runs clippy on the crate; `None` if the toolchain has no clippy.
pub(crate) fn clippy() -> Result<Option<bool>> {
    tools::need(Toolchain::tools())?;
    let toolchain = Toolchain::choose();
    let driver = match &toolchain {
        Toolchain::Nightly(name) => tools::runs("rustup", &["run", name, "cargo", "clippy", "--version"]),
        Toolchain::Debian => Path::new("/usr/bin/cargo-clippy").exists(),
    };
    if !driver {
        return Ok(None);
    }
    let mut good = true;
    for (name, features) in FLAVOURS {
        let arguments = ["clippy", "--release", "-Z", "build-std=core", "--target", TARGET];
        let target = workspace::target().join(format!("ebpf-{name}-clippy"));
        let run = toolchain
            .cargo(&format!("clippy-ebpf-{name}"))
            .args(arguments)
            .args(features);
        good &= run
            .args(["--", "-D", "warnings"])
            .env("CARGO_TARGET_DIR", target)
            .status()?;
    }
    Ok(Some(good))
}

/// The newest rustup nightly that can be used.
fn nightly() -> Option<String> {
    let list = process::output("rustup", ["toolchain", "list"]).ok()?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    let mut usable: Vec<&str> = names
        .filter(|name| name.starts_with("nightly") && is_usable(name))
        .collect();
    // `nightly-DATE-...` sorts before `nightly-x86_64-...`, the one that a user keeps up to date.
    usable.sort_unstable();
    usable.last().map(|name| (*name).to_owned())
}

fn is_usable(name: &str) -> bool {
    let ask = |what: &[&str]| {
        let arguments = ["run", name, "rustc"].into_iter().chain(what.iter().copied());
        process::output("rustup", arguments).unwrap_or_default()
    };
    let source = Path::new(ask(&["--print", "sysroot"]).trim()).join("lib/rustlib/src/rust/library/core");
    source.is_dir() && llvm_major(&ask(&["-vV"])).is_some_and(|major| major <= LLVM_MAJOR)
}

fn llvm_major(version: &str) -> Option<u32> {
    let line = version
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))?;
    line.split('.').next()?.trim().parse().ok()
}

pub(crate) fn rustc_is_there() -> bool {
    process::output(DEBIAN_RUSTC, ["-vV"]).is_ok_and(|text| llvm_major(&text) == Some(LLVM_MAJOR))
}

pub(crate) fn cargo_is_there() -> bool {
    // Debian 12's own cargo is too old for this edition.
    let version = process::output(DEBIAN_CARGO, ["--version"]).unwrap_or_default();
    let minor = version
        .split(['.', ' '])
        .nth(2)
        .and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 95)
}

pub(crate) fn source_is_there() -> bool {
    process::output(DEBIAN_RUSTC, ["--print", "sysroot"]).is_ok_and(|sysroot| {
        Path::new(sysroot.trim())
            .join("lib/rustlib/src/rust/library/core/src/lib.rs")
            .exists()
    })
}

pub(crate) fn llvm_is_there() -> bool {
    // A linker that is already built needs only the library, which `linker_works` proves.
    linker_works() || tools::runs(Path::new(LLVM_FOLDER).join("bin/llvm-config"), &["--version"])
}

pub(crate) fn linker_works() -> bool {
    tools::runs(linker_root().join("bin/bpf-linker"), &["--version"])
}

fn linker_root() -> PathBuf {
    tools::cargo_root("bpf-linker", LINKER_VERSION)
}

fn linker_arguments() -> Vec<String> {
    let feature = format!("llvm-{LLVM_MAJOR}");
    let root = linker_root().to_string_lossy().into_owned();
    let words = [
        "install",
        "bpf-linker",
        "--version",
        LINKER_VERSION,
        "--locked",
        "--no-default-features",
        "--features",
    ];
    words
        .into_iter()
        .map(str::to_owned)
        .chain([feature, "--root".to_owned(), root])
        .collect()
}

/// The command that installs the linker, for people.
pub(crate) fn linker_command() -> String {
    format!(
        "LLVM_PREFIX={LLVM_FOLDER} LLVM_SYS_221_PREFIX={LLVM_FOLDER} cargo {}",
        linker_arguments().join(" ")
    )
}

pub(crate) fn install_linker() -> Result<()> {
    Run::new("install-bpf-linker", "cargo")
        .without_cargo_env()
        .args(linker_arguments())
        .env("LLVM_PREFIX", LLVM_FOLDER)
        .env("LLVM_SYS_221_PREFIX", LLVM_FOLDER)
        .dir(Path::new("/"))
        .run()
}

#[cfg(test)]
mod tests {
    use super::llvm_major;

    #[test]
    fn llvm_version_is_read_from_rustc() {
        assert_eq!(
            llvm_major("rustc 1.96.0\nhost: x\nLLVM version: 22.1.0\n"),
            Some(22)
        );
        assert_eq!(llvm_major("rustc 1.96.0\n"), None);
    }
}

//! The Go compiler: the machine's own if it is new enough, otherwise a private one of Debian.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    apt::Suite,
    process::{self, Run},
    progress, tools, workspace,
};

/// What the programs of the cluster ask for in their `go.mod`.
const OLDEST: (u32, u32) = (1, 24);
/// Where it comes from on a machine without one. Debian 12 has 1.19, which can fetch nothing newer by itself.
const SUITE: &str = "trixie";
const PACKAGES: [&str; 2] = ["golang-1.24-go", "golang-1.24-src"];
/// Where Debian puts it, below the folder that the packages are unpacked to.
const ROOT: &str = "usr/lib/go-1.24";
/// Where people put the archive that the makers of Go publish.
const USUAL: &str = "/usr/local/go/bin";

/// A Go compiler.
pub(super) struct Go {
    program: PathBuf,
    /// Its folder, if it must be told.
    root: Option<PathBuf>,
}

impl Go {
    /// Finds one, or fetches one.
    pub(super) fn find() -> Result<Self> {
        for program in [PathBuf::from("go"), Path::new(USUAL).join("go")] {
            if version(&program).is_some_and(|found| found >= OLDEST) {
                return Ok(Self { program, root: None });
            }
        }
        let folder = workspace::cache().join("go-1.24");
        let root = folder.join(ROOT);
        let program = root.join("bin/go");
        if !program.is_file() {
            progress::timed(&format!("fetch Go from Debian {SUITE} (once)"), || fetch(&folder))?;
        }
        if !tools::runs(&program, &["version"]) {
            bail!(
                "{} does not run here; install Go {}.{} or newer and put it on PATH",
                program.display(),
                OLDEST.0,
                OLDEST.1
            );
        }
        Ok(Self {
            program,
            root: Some(root),
        })
    }

    /// A command of it that leaves its output in a log. Other work on this machine goes first.
    pub(super) fn run(&self, log: &str) -> Run {
        let run = Run::new(log, "nice").args(["-n", "10"]).arg(&self.program);
        let run = run
            .env("CGO_ENABLED", "0")
            .env("GOTOOLCHAIN", "local")
            // A module here is not a module of the user's workspace, whatever that says.
            .env("GOWORK", "off")
            .env("GOFLAGS", "-buildvcs=false");
        match &self.root {
            Some(root) => run.env("GOROOT", root),
            None => run,
        }
    }

    /// Standard output of a command of it in this folder.
    pub(super) fn output(&self, folder: &Path, args: &[&str]) -> Result<String> {
        let mut command: Vec<OsString> = vec![
            "--chdir".into(),
            folder.into(),
            "GOTOOLCHAIN=local".into(),
            "GOWORK=off".into(),
        ];
        if let Some(root) = &self.root {
            let mut setting = OsString::from("GOROOT=");
            setting.push(root);
            command.push(setting);
        }
        command.push(self.program.clone().into());
        command.extend(args.iter().map(OsString::from));
        process::output("env", command)
    }
}

/// Major and minor number of a Go compiler; none if it does not run.
fn version(program: &Path) -> Option<(u32, u32)> {
    let text = process::output(&program.to_string_lossy(), ["env", "GOVERSION"]).ok()?;
    parse_version(&text)
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("go")?.split(['.', '-', ' ', 'r']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn fetch(folder: &Path) -> Result<()> {
    let fresh = folder.with_extension(format!("fresh{}", std::process::id()));
    workspace::make_dir(&fresh)?;
    let packages = PACKAGES
        .iter()
        .map(|name| (*name).to_owned())
        .collect::<BTreeSet<_>>();
    Suite::open(SUITE)?.unpack(&packages, &fresh)?;
    match fs::rename(&fresh, folder) {
        Ok(()) => Ok(()),
        // Another run was quicker.
        Err(_) if folder.join(ROOT).is_dir() => {
            fs::remove_dir_all(&fresh).context("remove the second copy of Go")
        }
        Err(error) => Err(error).with_context(|| format!("rename to {}", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn versions_are_read_as_go_prints_them() {
        for (text, expected) in [
            ("go1.24.4\n", Some((1, 24))),
            ("go1.26rc1", Some((1, 26))),
            ("go1.19", Some((1, 19))),
            ("devel", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text), expected, "{text}");
        }
    }
}

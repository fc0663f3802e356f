//! `apparmor_parser`, which compiles profiles; it loads nothing.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::enforcer::EnforcerError;

/// Looked for in this order; the search path of the environment is not asked.
const PLACES: [&str; 4] = [
    "/usr/sbin/apparmor_parser",
    "/sbin/apparmor_parser",
    "/usr/bin/apparmor_parser",
    "/usr/local/sbin/apparmor_parser",
];

#[derive(Debug)]
pub(super) struct Parser {
    program: PathBuf,
    version: String,
    /// The folder that tells what the kernel can do.
    features: PathBuf,
}

impl Parser {
    pub(super) fn find(features: PathBuf) -> Result<Self, EnforcerError> {
        Self::find_in(&PLACES, features)
    }

    fn find_in(places: &[&str], features: PathBuf) -> Result<Self, EnforcerError> {
        let missing = |reason: String| EnforcerError::Missing {
            enforcer: "AppArmor",
            reason,
        };
        let Some(program) = places.iter().map(Path::new).find(|path| path.is_file()) else {
            return Err(missing(
                "there is no apparmor_parser: install the package apparmor".to_owned(),
            ));
        };
        let output = Command::new(program)
            .arg("--version")
            .env_clear()
            .output()
            .map_err(|error| missing(format!("{} cannot be run: {error}", program.display())))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Self {
            program: program.to_owned(),
            version: version(&text).unwrap_or("unknown").to_owned(),
            features,
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// From version 4 on it knows user namespaces, `io_uring` and message queues.
    pub(super) fn is_modern(&self) -> bool {
        let major = self.version.split('.').next().and_then(|word| word.parse().ok());
        major.is_some_and(|major: u32| major >= 4)
    }

    /// The form that the kernel loads.
    pub(super) fn compile(&self, name: &str, text: &str) -> Result<Vec<u8>, EnforcerError> {
        let failed = |reason: String| EnforcerError::Refused {
            profile: name.to_owned(),
            reason,
        };
        let output = self
            .run(text)
            .map_err(|error| failed(format!("{} cannot be run: {error}", self.program.display())))?;
        if output.status.success() && !output.stdout.is_empty() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("Cache read/write disabled"))
            .collect();
        Err(failed(format!("apparmor_parser refuses it: {}", said.join("; "))))
    }

    fn run(&self, text: &str) -> std::io::Result<Output> {
        let mut child = Command::new(&self.program)
            // Nothing is loaded, no cache is read or written, the result goes to standard output.
            .args([
                "--skip-kernel-load",
                "--skip-read-cache",
                "--skip-cache",
                "--stdout",
            ])
            // The text is in the language of this very kernel, and the host's settings have no say.
            .args(["--config-file", "/dev/null", "--kernel-features"])
            .arg(&self.features)
            .arg("--policy-features")
            .arg(&self.features)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take();
        // The parser reads everything before it writes; should it end early, its own words say why.
        let written = input.as_mut().map(|input| input.write_all(text.as_bytes()));
        drop(input);
        let output = child.wait_with_output()?;
        match written {
            Some(Err(error)) if output.status.success() => Err(error),
            _ => Ok(output),
        }
    }
}

/// `AppArmor parser version 3.0.8`.
fn version(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("version ")?;
    rest.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_tells_what_the_parser_knows() {
        assert_eq!(
            version("AppArmor parser version 3.0.8\nCopyright (C) 1999"),
            Some("3.0.8")
        );
        let parser = |version: &str| Parser {
            program: PathBuf::new(),
            version: version.to_owned(),
            features: PathBuf::new(),
        };
        assert!(parser("4.1.0").is_modern() && parser("10.0").is_modern());
        assert!(!parser("3.0.8").is_modern() && !parser("unknown").is_modern());
    }

    #[test]
    fn a_machine_without_the_parser_says_what_to_install() {
        let error = Parser::find_in(&["/nonexistent/apparmor_parser"], PathBuf::new())
            .unwrap_err()
            .to_string();
        assert!(error.contains("install the package apparmor"), "{error}");
    }
}

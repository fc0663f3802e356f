//! `--engine pts`: the Phoronix Test Suite, where a user has installed it, starts and times the programs: with profiles of our own, in
//! a home of its own, without a network and without questions.

mod home;
mod read;
mod session;

use std::{
    env,
    path::{Path, PathBuf},
};

use super::programs::suite::Suite;
use crate::tools;

pub(super) use session::Session;

const NAME: &str = "phoronix-test-suite";
pub(in crate::bench) const NEEDS: &str = "needs phoronix-test-suite on PATH (or $PTS_BIN), PHP's command line with its XML extension, and root; it downloads \
                                          nothing. Not proven yet: no machine of this project has had the suite";

/// The first launcher that runs, or what is missing; it is detected and never fetched.
pub(in crate::bench) fn find() -> Result<PathBuf, String> {
    first(&candidates())
}

fn candidates() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let chosen = env::var_os("PTS_BIN").map(PathBuf::from);
    let found = env::split_paths(&path).map(|folder| folder.join(NAME));
    let shared = Path::new("/usr/share").join(NAME).join(NAME);
    chosen.into_iter().chain(found).chain([shared]).collect()
}

fn first(candidates: &[PathBuf]) -> Result<PathBuf, String> {
    let Some(program) = candidates.iter().find(|file| file.is_file()) else {
        return Err(
            "not detected: neither $PTS_BIN nor PATH nor /usr/share has it, and Debian has no package"
                .to_owned(),
        );
    };
    let php = env::var("PHP_BIN").unwrap_or_else(|_| "php".to_owned());
    let classes = "exit(class_exists('DOMDocument') && function_exists('simplexml_load_file') ? 0 : 1);";
    if !tools::runs(&php, &["-r", classes]) {
        return Err(format!(
            "{} is there, but {php} does not run, or has no XML extension (Debian: php-cli, php-xml)",
            program.display()
        ));
    }
    Ok(program.clone())
}

/// What the suite calls the profile of one of ours.
pub(super) fn profile(suite: &Suite) -> String {
    format!("local/{}", home::name(suite))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::first;

    #[test]
    fn absent_suite_is_told_with_a_reason() {
        let reason = first(&[PathBuf::from("/nonexistent/phoronix-test-suite")]).unwrap_err();
        assert!(reason.starts_with("not detected"), "{reason}");
    }
}

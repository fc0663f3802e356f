//! The measured programs as Debian packages them, for guests: unpacked once, with the libraries that they need.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::{apt, progress, vm::Share, workspace};

const DEBIAN: &str = "bookworm";
/// What programs need besides libraries.
const NEEDED: &[&str] = &["fontconfig-config", "fonts-dejavu-core", "gimp-data", "zlib1g"];
/// What goes into a guest, where a package has it.
const PARTS: &[&str] = &[
    "etc",
    "lib",
    "lib64",
    "usr/bin",
    "usr/lib",
    "usr/sbin",
    "usr/share",
];
/// Large, and not used.
const LEFT_OUT: &[&str] = &[
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/share/bug",
    "usr/share/doc",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
];

/// The files of a guest with these packages, and which versions they have.
pub(super) fn shares(packages: &[&str]) -> Result<(Vec<Share>, Vec<String>)> {
    let suite = apt::Suite::open(DEBIAN)?;
    let versions = packages
        .iter()
        .map(|package| Ok(format!("{package} {}", suite.version(package)?)))
        .collect::<Result<Vec<_>>>()?;
    let name = versions.join("_").replace([' ', '/', ':'], "-");
    let parent = workspace::cache().join("programs");
    let tree = parent.join(name);
    if !tree.exists() {
        progress::timed(&format!("unpack {} (once)", packages.join(", ")), || {
            unpack(&suite, packages, &parent, &tree)
        })?;
    }
    let shares = PARTS
        .iter()
        .map(|part| Share::new(tree.join(part), format!("/{part}")))
        .filter(|share| share.source.exists())
        .collect();
    Ok((shares, versions))
}

fn unpack(suite: &apt::Suite, packages: &[&str], parent: &std::path::Path, tree: &PathBuf) -> Result<()> {
    let mut all = std::collections::BTreeSet::new();
    for package in packages {
        all.extend(suite.closure(package, wanted)?);
    }
    let fresh = parent.join(format!("fresh-{}", std::process::id()));
    workspace::make_dir(&fresh)?;
    suite.unpack(&all, &fresh)?;
    for part in LEFT_OUT.iter().map(|part| fresh.join(part)) {
        if part.exists() {
            fs::remove_dir_all(&part).with_context(|| format!("leave out {}", part.display()))?;
        }
    }
    fs::rename(&fresh, tree).with_context(|| format!("rename to {}", tree.display()))
}

/// Names in angle brackets are of no package: several provide them.
fn wanted(name: &str) -> bool {
    name.starts_with("lib") || NEEDED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::wanted;

    #[test]
    fn libraries_are_wanted_and_names_that_no_package_has_are_not() {
        assert!(wanted("libc6") && wanted("zlib1g"));
        assert!(!wanted("<libgl1-x>") && !wanted("debconf") && !wanted("perl"));
    }
}

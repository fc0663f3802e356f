//! `codegen`: files of the repository that a program writes: the custom resource definitions.

use std::{collections::BTreeMap, fs, path::Path, process::ExitCode};

use anyhow::{Context, Result};

use crate::{build, progress, tools, workspace};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing; the exit code is 1 if a file is not what would be written
    #[arg(long)]
    check: bool,
}

const FOLDER: &str = "charts/varmor/crds";

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    let differing = differences()?;
    for (name, fresh) in &differing {
        let path = workspace::root().join(FOLDER).join(name);
        match (args.check, fresh) {
            (true, Some(_)) => println!("{FOLDER}/{name} is not up to date; run `cargo xtask codegen`"),
            (true, None) => println!("{FOLDER}/{name} is not generated any more; run `cargo xtask codegen`"),
            (false, Some(content)) => {
                workspace::write_file(&path, content)?;
                println!("wrote {FOLDER}/{name}");
            }
            (false, None) => {
                fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
                println!("removed {FOLDER}/{name}");
            }
        }
    }
    if differing.is_empty() {
        println!("{FOLDER} is up to date");
    }
    let failed = args.check && !differing.is_empty();
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The files that differ from what would be written; without content: files that would not be written at all.
pub(crate) fn differences() -> Result<Vec<(String, Option<Vec<u8>>)>> {
    tools::need(tools::PROGRAMS)?;
    let scratch = workspace::Scratch::new("codegen")?;
    progress::timed("generate the custom resource definitions", || {
        let run =
            build::cargo("codegen").args(["run", "--package", "varmor-controller", "--", "crds", "--output"]);
        run.arg(scratch.path()).run()
    })?;
    let fresh = read_folder(scratch.path())?;
    let present = read_folder(&workspace::root().join(FOLDER)).unwrap_or_default();
    let stale = present
        .keys()
        .filter(|name| !fresh.contains_key(*name))
        .map(|name| (name.clone(), None));
    let changed = fresh
        .iter()
        .filter(|(name, content)| present.get(*name) != Some(content));
    Ok(stale
        .chain(changed.map(|(name, content)| (name.clone(), Some(content.clone()))))
        .collect())
}

fn read_folder(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read folder {}", folder.display()))? {
        let entry = entry.context("read a folder entry")?;
        let content = fs::read(entry.path()).with_context(|| format!("read {}", entry.path().display()))?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), content);
    }
    Ok(files)
}

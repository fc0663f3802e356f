//! `battery`: every case of the threat catalogue on every kernel, with a report per kernel.

#[path = "bin/guest/battery/report.rs"]
mod report;

use std::{collections::BTreeMap, fs, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use report::{Control, IDS, Row, Verdict};

use crate::{
    build::{self, Built, Profile},
    image,
    kernel::Series,
    progress, tools,
    vm::{Guest, Share, rootfs},
    workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these kernels [default: all]
    #[arg(long)]
    kernel: Vec<Series>,
    /// Only these cases
    #[arg(long)]
    only: Vec<String>,
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    let kernels = if args.kernel.is_empty() {
        Series::ALL.to_vec()
    } else {
        args.kernel.clone()
    };
    let mut good = true;
    for series in kernels {
        let rows = run(series, &args.only)?;
        print(series, &rows);
        good &= rows.iter().all(Row::is_good);
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs both halves in guests of this kernel and writes `target/battery/<kernel>.json`.
pub(crate) fn run(series: Series, only: &[String]) -> Result<Vec<Row>> {
    tools::need(tools::GUEST)?;
    tools::need(tools::CONTAINER_GUEST)?;
    let built = build::build(Profile::Release)?;
    let folder = workspace::target().join("battery");
    workspace::make_dir(&folder)?;
    let mut rows = half("places", &places(series, &built, &folder, only)?);
    rows.extend(half("containers", &containers(series, &built, &folder, only)?));
    let rows = complete(rows, only);
    let text = serde_json::to_string_pretty(&rows).context("print the report")?;
    workspace::write_file(&folder.join(format!("{series}.json")), text + "\n")?;
    Ok(rows)
}

/// The rows that a guest prints. A guest that dies has no rows for what it did not reach.
fn half(name: &str, guest: &Guest) -> Vec<Row> {
    let mut output = Vec::new();
    let ran = progress::timed(&format!("guest {}: {name}", guest.kernel), || {
        guest.run(&mut |bytes| output.extend_from_slice(bytes))
    });
    if let Err(error) = ran {
        println!("{error:#}");
    }
    let text = String::from_utf8_lossy(&output);
    let log = workspace::log_file(&format!("battery-{}-{name}", guest.kernel));
    if let Err(error) = fs::write(&log, &*text) {
        println!("{}: {error}", log.display());
    }
    rows(&text)
}

fn rows(text: &str) -> Vec<Row> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The guest without containers: a dynamic program is all that it lacks.
fn places(series: Series, built: &Built, folder: &Path, only: &[String]) -> Result<Guest> {
    let tree = rootfs::tree()?;
    let dynamic = folder.join("dynamic");
    workspace::make_dir(&dynamic)?;
    let libraries = "usr/lib/x86_64-linux-gnu";
    for name in ["libc.so.6", "libtinfo.so.6", "ld-linux-x86-64.so.2"] {
        copy(&tree.join(libraries).join(name), &dynamic.join(name))?;
    }
    copy(&tree.join("usr/bin/dash"), &dynamic.join("dash"))?;
    let words = ["/varmor-guest", "battery"];
    let mut guest = Guest::new(series, words.into_iter().chain(chosen(only)));
    guest.memory = 2048;
    guest.timeout = Duration::from_mins(40);
    guest.shares = vec![
        Share::new(built.program("varmor-guest"), "/varmor-guest"),
        Share::new(built.program("varmor"), "/varmor"),
        Share::new(dynamic, "/dynamic"),
    ];
    Ok(guest)
}

/// How the guest is told which cases.
fn chosen(only: &[String]) -> impl Iterator<Item = &str> {
    only.iter().flat_map(|id| ["--only", id])
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn containers(series: Series, built: &Built, folder: &Path, only: &[String]) -> Result<Guest> {
    let archive = folder.join("image.tar");
    image::write(&archive, &built.program("varmor-guest"))?;
    let words = [
        "/usr/local/bin/varmor-guest",
        "battery",
        "--image",
        "/battery/image.tar",
    ];
    let mut guest = Guest::new(series, words.into_iter().chain(chosen(only)));
    guest.rootfs = true;
    guest.memory = 3072;
    guest.timeout = Duration::from_mins(40);
    guest.shares = ["varmor-guest", "varmor-agent", "varmor"]
        .map(|name| Share::new(built.program(name), format!("/usr/local/bin/{name}")))
        .to_vec();
    guest.shares.push(Share::new(archive, "/battery/image.tar"));
    Ok(guest)
}

/// One row per case, in the catalogue's order. A case of which no guest said anything is open.
fn complete(rows: Vec<Row>, only: &[String]) -> Vec<Row> {
    let mut found: BTreeMap<String, Row> = BTreeMap::new();
    for row in rows {
        let merged = match found.remove(&row.id) {
            Some(first) => both(first, &row),
            None => row,
        };
        found.insert(merged.id.clone(), merged);
    }
    let wanted = IDS
        .iter()
        .filter(|id| only.is_empty() || only.iter().any(|one| one == *id));
    wanted
        .map(|id| {
            found
                .remove(*id)
                .unwrap_or_else(|| Row::new(id, "", Verdict::Open, "the guest did not come to it"))
        })
        .collect()
}

/// Two halves of a case: the worse verdict, both reasons.
fn both(first: Row, second: &Row) -> Row {
    Row {
        verdict: first.verdict.max(second.verdict),
        control: first.control.max(second.control),
        reason: format!("{}; {}", first.reason, second.reason),
        ..first
    }
}

fn print(series: Series, rows: &[Row]) {
    println!("\nkernel {series}");
    for row in rows {
        let verdict = format!("{:?}", row.verdict).to_lowercase();
        let mark = if row.is_good() { "" } else { "   <==" };
        let control = if row.control == Control::Ok {
            ""
        } else {
            "control broken"
        };
        println!("{:<5} {verdict:<8} {control:<15}{}{mark}", row.id, row.what);
        if !row.is_good() || row.verdict == Verdict::Skipped {
            println!("      {}", row.reason);
        }
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let broken = rows.iter().filter(|row| row.control == Control::Broken).count();
    println!(
        "{series}: {} closed, {} open, {} skipped, {broken} with a broken control",
        count(Verdict::Closed),
        count(Verdict::Open),
        count(Verdict::Skipped)
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn row(id: &str, verdict: Verdict, reason: &str) -> Row {
        Row::new(id, "an attack", verdict, reason)
    }

    #[test]
    fn the_catalogue_names_each_case_once() {
        let ids: BTreeSet<&&str> = IDS.iter().collect();
        assert_eq!(ids.len(), IDS.len());
        assert_eq!(IDS.len(), 68);
    }

    #[test]
    fn rows_are_lines_of_json_between_other_lines() {
        let line = r#"{"id":"I-5","what":"an attack","verdict":"closed","reason":"here","control":"ok"}"#;
        let read = rows(&format!("noise\n{line}\n{{\"id\":\"I-5\"}}\n"));
        assert_eq!(read, [row("I-5", Verdict::Closed, "here")]);
        assert_eq!(serde_json::to_string(&read[0]).unwrap(), line);
    }

    #[test]
    fn a_report_has_every_case_once_and_the_worse_of_two_halves() {
        let mut second = row("I-5", Verdict::Closed, "there");
        second.control = Control::Broken;
        let rows = complete(vec![row("I-5", Verdict::Open, "here"), second], &[]);
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, IDS);
        let merged = rows.iter().find(|row| row.id == "I-5").unwrap();
        assert_eq!((merged.verdict, merged.control), (Verdict::Open, Control::Broken));
        assert_eq!(merged.reason, "here; there");
        let silent = rows.iter().find(|row| row.id == "S5").unwrap();
        assert_eq!(silent.verdict, Verdict::Open);
    }
}

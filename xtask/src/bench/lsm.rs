//! `bench lsm`: a user's own kernels and sets of security modules under a user's own workload, as lsm-perf compares them: its options
//! and its file, in guests that count instructions instead of a machine with KVM.

use std::{fmt::Write, path::PathBuf, process::ExitCode, str::FromStr, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use super::{
    hooks::Programs,
    preset::cells::SEED,
    record::Folder,
    stats::{Backend, detectable, estimate, judge, log_ratio, median, percent},
};
use crate::{
    kernel::Series,
    progress, tools,
    vm::{Guest, Share},
    workspace,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Kernels: images (bzImage) that have a serial console and an initramfs built in, or kernels of the matrix by their series
    #[arg(short, long, required = true, num_args = 1.., value_name = "FILE|SERIES")]
    kernels: Vec<Image>,
    /// A static program without arguments that prints one integer, its time [default: a million writes to an eventfd, in microseconds]
    #[arg(short, long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// Sets of security modules that each kernel is booted with, as for `lsm=` [default: the kernel's own]
    #[arg(long, num_args = 1.., value_name = "NAMES")]
    lsm: Vec<String>,
    /// Runs of the workload in each round
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Boots of each kernel
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Runs after each boot that are not counted
    #[arg(long, default_value_t = 5)]
    warmups: u32,
    /// Where the file goes [default: lsm-perf.csv in the run's folder]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Take `varmor` and `varmor-guest` from this folder instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

/// A kernel as the user names it.
#[derive(Clone)]
enum Image {
    Series(Series),
    File(PathBuf),
}

impl FromStr for Image {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(series) = Series::from_str(text, false) {
            return Ok(Self::Series(series));
        }
        let file = PathBuf::from(text);
        if file.is_file() {
            Ok(Self::File(file))
        } else {
            Err("neither a file nor a kernel of the matrix (5.10, 6.1, 6.12, 7.2)".to_owned())
        }
    }
}

/// One row of the comparison.
struct Condition {
    path: String,
    kernel: Image,
    lsm: String,
    /// By round.
    values: Vec<Vec<f64>>,
}

const NAME: &str = "lsm";
const WORKLOAD: &str = "/workload";
const TIMEOUT: Duration = Duration::from_hours(2);

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    tools::need(tools::GUEST)?;
    if let Some(workload) = &args.workload {
        ensure!(workload.is_file(), "there is no workload {}", workload.display());
    }
    let programs = super::hooks::programs(args.programs.as_deref())?;
    let folder = Folder::new(NAME)?;
    let mut conditions = conditions(&args.kernels, &args.lsm);
    // The first one once more with another salt: what boots differ by.
    let mut again = Vec::new();
    for round in 0..args.rounds {
        eprintln!("Starting round {round}");
        for condition in &mut conditions {
            let values = boot(args, &programs, condition, round)?;
            eprintln!("\tEvaluated {}: median={:.0}", condition.path, middle(&values));
            condition.values.push(values);
        }
        again.push(boot(args, &programs, &conditions[0], args.rounds + round)?);
    }
    let file = args
        .out
        .clone()
        .unwrap_or_else(|| folder.path().join("lsm-perf.csv"));
    workspace::write_file(&file, csv(&conditions, args.runs))?;
    let (markdown, table) = tables(&conditions, &again);
    folder.table(NAME, &markdown, &table)?;
    print!("{markdown}");
    println!("{}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Every kernel with every set of modules.
fn conditions(kernels: &[Image], sets: &[String]) -> Vec<Condition> {
    let mut all = Vec::new();
    for kernel in kernels {
        let name = match kernel {
            Image::Series(series) => series.name().to_owned(),
            Image::File(file) => file.display().to_string(),
        };
        let condition = |path: String, lsm: &str| Condition {
            path,
            kernel: kernel.clone(),
            lsm: lsm.to_owned(),
            values: Vec::new(),
        };
        if sets.is_empty() {
            all.push(condition(name, ""));
        } else {
            // A comma would be another column of the file.
            let with = |set: &String| condition(format!("{name}/{}", set.replace(',', "+")), set);
            all.extend(sets.iter().map(with));
        }
    }
    all
}

fn boot(args: &Args, programs: &Programs, condition: &Condition, salt: u32) -> Result<Vec<f64>> {
    let numbers = [args.warmups, args.runs, salt].map(|number| number.to_string());
    let [warmups, runs, salt] = numbers.each_ref().map(String::as_str);
    let mut words = vec![
        "/varmor-guest",
        "bench",
        "runs",
        "--warmups",
        warmups,
        "--runs",
        runs,
        "--salt",
        salt,
    ];
    if args.workload.is_some() {
        words.extend(["--workload", WORKLOAD]);
    }
    let series = match &condition.kernel {
        Image::Series(series) => *series,
        Image::File(_) => Series::V6_1,
    };
    let mut guest = Guest::new(series, words);
    if let Image::File(file) = &condition.kernel {
        guest.image = Some(file.clone());
    }
    guest.icount = true;
    guest.timeout = TIMEOUT;
    guest.lsm.clone_from(&condition.lsm);
    guest.shares = vec![Share::new(&programs.guest, "/varmor-guest")];
    guest
        .shares
        .extend(args.workload.as_ref().map(|file| Share::new(file, WORKLOAD)));
    let mut said = Vec::new();
    let outcome = progress::timed(&condition.path, || {
        guest.run(&mut |bytes| said.extend_from_slice(bytes))
    })?;
    let said = String::from_utf8_lossy(&said);
    ensure!(outcome.code == 0, "{}: {said}", condition.path);
    read(&said, args.runs).with_context(|| format!("understand what {} said", condition.path))
}

/// The numbers of one boot.
fn read(said: &str, runs: u32) -> Result<Vec<f64>> {
    let number = |line: &str| {
        let number = line.trim().parse::<u32>().ok().filter(|number| *number > 0);
        number
            .map(f64::from)
            .with_context(|| format!("`{line}` is no time of a run"))
    };
    let values: Vec<f64> = said.lines().map(number).collect::<Result<_>>()?;
    if values.len() != runs as usize {
        bail!("{} runs of {runs} have told their time", values.len());
    }
    Ok(values)
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// The file that lsm-perf writes, of rows in its order: kernel path, round, the values of the runs.
pub(super) fn file<'a>(runs: u32, rows: impl Iterator<Item = (String, u32, &'a [f64])>) -> String {
    let mut text = "kernel path,round".to_owned();
    for run in 0..runs {
        let _ = write!(text, ",run {run}");
    }
    text.push('\n');
    for (path, round, values) in rows {
        let _ = write!(text, "{path},{round}");
        for value in values {
            let _ = write!(text, ",{value:.0}");
        }
        text.push('\n');
    }
    text
}

fn csv(conditions: &[Condition], runs: u32) -> String {
    let rounds = conditions.first().map_or(0, |condition| condition.values.len());
    let of_round = |(round, number): (usize, u32)| {
        conditions
            .iter()
            .map(move |condition| (condition.path.clone(), number, condition.values[round].as_slice()))
    };
    file(runs, (0..rounds).zip(0..).flat_map(of_round))
}

/// A row for each kernel, against the fastest.
fn tables(conditions: &[Condition], again: &[Vec<f64>]) -> (String, String) {
    let value = |condition: &Condition| {
        let rounds: Vec<f64> = condition.values.iter().map(|values| middle(values)).collect();
        middle(&rounds)
    };
    let ratios = |base: &[Vec<f64>], other: &[Vec<f64>]| -> Vec<f64> {
        let pairs = base.iter().zip(other);
        pairs.filter_map(|(base, other)| log_ratio(base, other)).collect()
    };
    let fastest = conditions
        .iter()
        .enumerate()
        .min_by(|left, right| value(left.1).total_cmp(&value(right.1)))
        .map_or(0, |(index, _)| index);
    let same = ratios(&conditions[0].values, again);
    let least = detectable(&same).max(median(&same).unwrap_or(f64::INFINITY).abs());
    let mut markdown = format!(
        "# Kernels under a workload\n\nMedian of what the workload says, in guests whose clock counts instructions (1 µs = 1,000 of \
         them), backend `{}`; overheads are against the fastest, {}. Detectable: {:.3} % ({} booted again).\n\n\
         | kernel path | value | overhead % | interval | verdict |\n|---|---:|---:|---|---|\n",
        Backend::TcgIcount.name(),
        conditions[fastest].path,
        percent(least),
        conditions[0].path,
    );
    let mut csv = "kernel path,value,overhead_pct,low_pct,high_pct,verdict\n".to_owned();
    for (index, condition) in conditions.iter().enumerate() {
        let (path, value) = (&condition.path, value(condition));
        let found = estimate(&ratios(&conditions[fastest].values, &condition.values), SEED);
        let Some(found) = found.filter(|_| index != fastest) else {
            let _ = writeln!(markdown, "| {path} | {value:.0} | | | |");
            let _ = writeln!(csv, "{path},{value:.0},,,,");
            continue;
        };
        let verdict = judge(&found, least, Backend::TcgIcount.margin());
        let [overhead, low, high] = [found.overhead, found.low, found.high].map(percent);
        let _ = writeln!(
            markdown,
            "| {path} | {value:.0} | {overhead:+.2} | {low:+.2} to {high:+.2} | {verdict} |"
        );
        let _ = writeln!(
            csv,
            "{path},{value:.0},{overhead:.3},{low:.3},{high:.3},{verdict}"
        );
    }
    (markdown, csv)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(path: &str, values: &[f64]) -> Condition {
        Condition {
            path: path.to_owned(),
            kernel: Image::Series(Series::V6_1),
            lsm: String::new(),
            values: vec![values.to_vec(); 3],
        }
    }

    #[test]
    fn file_is_that_of_the_original() {
        let conditions = [condition("a", &[10.0, 11.0]), condition("b", &[20.0, 21.0])];
        let text = csv(&conditions, 2);
        assert!(
            text.starts_with("kernel path,round,run 0,run 1\na,0,10,11\nb,0,20,21\na,1,"),
            "{text}"
        );
    }

    #[test]
    fn slower_kernel_is_told_against_the_fastest() {
        let conditions = [condition("slow", &[1100.0]), condition("fast", &[1000.0])];
        let (markdown, table) = tables(&conditions, &conditions[0].values);
        assert!(
            table.contains("slow,1100,10.000,10.000,10.000,slower\n"),
            "{table}"
        );
        assert!(table.contains("fast,1000,,,,\n"), "{table}");
        assert!(markdown.contains("against the fastest, fast."), "{markdown}");
    }

    #[test]
    fn every_kernel_has_every_set_and_none_has_a_comma() {
        let kernels = [Image::Series(Series::V6_1), Image::Series(Series::V7_2)];
        let sets = ["capability".to_owned(), "capability,bpf".to_owned()];
        let paths: Vec<String> = conditions(&kernels, &sets)
            .into_iter()
            .map(|one| one.path)
            .collect();
        assert_eq!(
            paths,
            [
                "6.1/capability",
                "6.1/capability+bpf",
                "7.2/capability",
                "7.2/capability+bpf"
            ]
        );
        assert_eq!(conditions(&kernels, &[])[1].path, "7.2");
    }

    #[test]
    fn runs_that_are_missing_are_an_error() {
        assert_eq!(read("1\n2\n", 2).unwrap(), [1.0, 2.0]);
        assert!(read("1\n", 2).is_err());
        assert!(read("1\nx\n", 2).is_err());
        assert!("no/such/kernel".parse::<Image>().is_err());
    }
}

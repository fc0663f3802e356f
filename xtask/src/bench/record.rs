//! What a run of a preset leaves: a folder with samples, a summary, and where they come from.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    kept::Kept,
    stats::{Backend, Estimate, Verdict, percent},
};
use crate::{process, workspace};

pub(super) const SUMMARY: &str = "summary.json";
const RUN: &str = "run.json";

/// The numbers of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) preset: String,
    pub(super) scale: String,
    pub(super) backend: Backend,
    /// Of every value.
    pub(super) unit: String,
    /// Kernel and `uname -r`.
    pub(super) kernels: BTreeMap<String, String>,
    pub(super) cells: Vec<Cell>,
}

/// A workload under a system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) suite: String,
    pub(super) workload: String,
    /// What the table calls it.
    pub(super) row: String,
    pub(super) system: String,
    pub(super) column: String,
    pub(super) kernel: String,
    /// The median of the blocks.
    pub(super) value: Option<f64>,
    /// Against the first system of the table; it has none itself.
    pub(super) estimate: Option<Estimate>,
    pub(super) detectable: Option<f64>,
    pub(super) verdict: Option<Verdict>,
    /// Why there is no value.
    pub(super) reason: Option<String>,
}

impl Cell {
    /// The value without decimals, or why there is none.
    pub(super) fn said(&self) -> String {
        let missing = self.reason.as_ref().map(|reason| format!("n/a ({reason})"));
        let value = self.value.map(|value| format!("{value:.0}"));
        value.or(missing).unwrap_or_default()
    }

    /// The last columns of a row of Markdown: the overhead, its interval, what could have been found (in percent), the verdict.
    pub(super) fn judgement(&self) -> String {
        match (&self.estimate, self.verdict, &self.reason) {
            (Some(found), Some(verdict), _) => format!(
                "{:+.3} | {:+.3} to {:+.3} | {:.3} | {verdict} |",
                percent(found.overhead),
                percent(found.low),
                percent(found.high),
                percent(self.detectable.unwrap_or(f64::NAN)),
            ),
            (_, _, Some(reason)) => format!("n/a | | | {reason} |"),
            _ => "| | | |".to_owned(),
        }
    }
}

/// One measured value.
pub(super) struct Sample {
    pub(super) suite: &'static str,
    pub(super) workload: String,
    pub(super) system: String,
    pub(super) kernel: String,
    pub(super) lsm: String,
    pub(super) block: usize,
    pub(super) rep: usize,
    pub(super) value: f64,
}

/// What makes two runs the same: their boots can stand in one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) preset: String,
    pub(super) scale: String,
    pub(super) backend: Backend,
    /// Empty = those of the preset.
    pub(super) kernel: String,
    pub(super) boots: u32,
    pub(super) suites: Vec<String>,
    /// What starts and times the programs; runs of before there was a choice have none.
    #[serde(default = "native")]
    pub(super) engine: String,
    /// Digests of the programs that are measured and that measure.
    pub(super) programs: Vec<String>,
}

fn native() -> String {
    "native".to_owned()
}

impl Run {
    /// The first thing in which another run is not this one.
    fn difference(&self, other: &Self) -> Option<String> {
        let differs = |name: &str, begun: &str, now: &str| {
            (begun != now).then(|| format!("{name} is {begun} there and {now} now"))
        };
        differs("the preset", &self.preset, &other.preset)
            .or_else(|| differs("the scale", &self.scale, &other.scale))
            .or_else(|| differs("the backend", self.backend.name(), other.backend.name()))
            .or_else(|| differs("the engine", &self.engine, &other.engine))
            .or_else(|| differs("the kernel", &self.kernel, &other.kernel))
            .or_else(|| {
                differs(
                    "the number of boots",
                    &self.boots.to_string(),
                    &other.boots.to_string(),
                )
            })
            .or_else(|| differs("the suites", &self.suites.join(","), &other.suites.join(",")))
            .or_else(|| {
                (self.programs != other.programs).then(|| "the programs are not those of that run".to_owned())
            })
    }
}

impl Summary {
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let file = folder.join(SUMMARY);
        let text = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("understand {}", file.display()))
    }
}

/// The folder of one run.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(preset: &str) -> Result<Self> {
        let path = workspace::target()
            .join("bench")
            .join(format!("{}-{preset}", utc(SystemTime::now())));
        workspace::make_dir(&path.join("tables"))?;
        Ok(Self(path))
    }

    /// That of a run which can be continued: a new one, or that of `resumed` if it is of the same run.
    pub(super) fn of(run: &Run, resumed: Option<&Path>) -> Result<Self> {
        let Some(path) = resumed else {
            let folder = Self::new(&run.preset)?;
            workspace::write_file(&folder.0.join(RUN), serde_json::to_string_pretty(run)? + "\n")?;
            return Ok(folder);
        };
        let file = path.join(RUN);
        let text = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        let begun: Run =
            serde_json::from_slice(&text).with_context(|| format!("understand {}", file.display()))?;
        if let Some(difference) = begun.difference(run) {
            bail!(
                "{}: {difference}; begin a new run, or ask for the same",
                file.display()
            );
        }
        workspace::make_dir(&path.join("tables"))?;
        Ok(Self(path.to_owned()))
    }

    /// What is kept of one boot.
    pub(super) fn boot(&self, name: &str) -> Kept {
        Kept::new(&self.0, name)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// A file of the preset's own.
    pub(super) fn file(&self, name: &str, text: &str) -> Result<()> {
        workspace::write_file(&self.0.join(name), text)
    }

    /// A table as Markdown and CSV.
    pub(super) fn table(&self, name: &str, markdown: &str, csv: &str) -> Result<()> {
        let tables = self.0.join("tables");
        workspace::write_file(&tables.join(format!("{name}.md")), markdown)?;
        workspace::write_file(&tables.join(format!("{name}.csv")), csv)
    }

    pub(super) fn summary(&self, summary: &Summary) -> Result<()> {
        let text = serde_json::to_string_pretty(summary)? + "\n";
        workspace::write_file(&self.0.join(SUMMARY), text)
    }

    pub(super) fn samples(&self, summary: &Summary, samples: &[Sample]) -> Result<()> {
        let mut text =
            "preset,suite,workload,unit,direction,system,backend,kernel,lsm,block,rep,value\n".to_owned();
        for sample in samples {
            let _ = writeln!(
                text,
                "{},{},{},{},lower,{},{},{},{},{},{},{}",
                field(&summary.preset),
                field(sample.suite),
                field(&sample.workload),
                field(&summary.unit),
                field(&sample.system),
                summary.backend.name(),
                field(&sample.kernel),
                field(&sample.lsm),
                sample.block,
                sample.rep,
                sample.value
            );
        }
        workspace::write_file(&self.0.join("samples.csv"), text)
    }

    /// Where the numbers come from. What cannot be found out is left out.
    pub(super) fn meta(&self, summary: &Summary, about: &serde_json::Value) -> Result<()> {
        let says = |program: &str, arguments: &[&str]| {
            let text = process::output(program, arguments).unwrap_or_default();
            text.lines().next().unwrap_or_default().to_owned()
        };
        let root = workspace::root();
        let root = root.to_string_lossy();
        let value = json!({
            "preset": summary.preset,
            "scale": summary.scale,
            "backend": summary.backend,
            "unit": summary.unit,
            "kernels": summary.kernels,
            "revision": says("git", &["-C", &*root, "rev-parse", "HEAD"]),
            "changed": !says("git", &["-C", &*root, "status", "--porcelain"]).is_empty(),
            "host": says("uname", &["-srm"]),
            "qemu": says("qemu-system-x86_64", &["--version"]),
            "apparmor_parser": says("apparmor_parser", &["--version"]),
            "guest": about,
        });
        let text = serde_json::to_string_pretty(&value)? + "\n";
        workspace::write_file(&self.0.join("meta.json"), text)
    }
}

/// A field of a CSV file.
pub(super) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// As `20240131T235959Z`.
fn utc(time: SystemTime) -> String {
    let mut text = humantime::format_rfc3339_seconds(time).to_string();
    text.retain(|letter| letter != '-' && letter != ':');
    text
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        collections::BTreeMap,
        time::{Duration, UNIX_EPOCH},
    };

    use super::{Backend, Cell, Estimate, Run, Summary, Verdict, field, utc};

    /// A run of one workload under a policy of 8 rules, and without one.
    pub(in crate::bench) fn summary(overhead: f64) -> Summary {
        let cell = |system: &str, column: &str, value: f64| Cell {
            suite: "unixbench".to_owned(),
            workload: "ubench-execl".to_owned(),
            row: "Execl Throughput".to_owned(),
            system: system.to_owned(),
            column: column.to_owned(),
            kernel: "6.1".to_owned(),
            value: Some(value),
            estimate: None,
            detectable: None,
            verdict: None,
            reason: None,
        };
        let nothing = cell("nothing", "Not installed", 500_000.0);
        let estimate = Estimate {
            blocks: 3,
            overhead,
            low: overhead - 0.001,
            high: overhead + 0.001,
            chance: 0.0,
        };
        let protected = Cell {
            estimate: Some(estimate),
            detectable: Some(0.001),
            verdict: Some(Verdict::Slower),
            ..cell("protected-8", "8 rules", 500_000.0 * overhead.exp())
        };
        Summary {
            preset: "seed-unixbench".to_owned(),
            scale: "smoke".to_owned(),
            backend: Backend::TcgIcount,
            unit: "guest instructions".to_owned(),
            kernels: BTreeMap::from([("6.1".to_owned(), "6.1.0-x".to_owned())]),
            cells: vec![nothing, protected],
        }
    }

    #[test]
    fn summary_is_read_as_it_was_written() {
        let text = serde_json::to_string(&summary(0.02)).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary(0.02));
        assert!(
            text.contains("\"tcg-icount\"") && text.contains("\"slower\""),
            "{text}"
        );
    }

    #[test]
    fn a_run_is_not_continued_as_another_one() {
        let run = Run {
            preset: "seed-pts".to_owned(),
            scale: "std".to_owned(),
            backend: Backend::TcgIcount,
            kernel: String::new(),
            boots: 5,
            suites: Vec::new(),
            engine: super::native(),
            programs: vec!["a".to_owned()],
        };
        assert_eq!(run.difference(&run), None);
        let fewer = Run {
            boots: 3,
            ..run.clone()
        };
        assert_eq!(
            run.difference(&fewer).as_deref(),
            Some("the number of boots is 5 there and 3 now")
        );
        let other = Run {
            engine: "pts".to_owned(),
            ..run.clone()
        };
        assert_eq!(
            run.difference(&other).as_deref(),
            Some("the engine is native there and pts now")
        );
        let newer = Run {
            programs: vec!["b".to_owned()],
            ..run.clone()
        };
        assert!(run.difference(&newer).is_some());
    }

    #[test]
    fn folder_is_named_after_its_time() {
        let time = UNIX_EPOCH + Duration::from_secs(951_827_696);
        assert_eq!(utc(time), "20000229T123456Z");
    }

    #[test]
    fn field_with_a_comma_is_quoted() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}

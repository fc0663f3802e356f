//! What the boots of a run have said, kept as it comes: a run that was broken off goes on with the boot that is missing.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{protocol::Line, report::Report};
use crate::{kernel::Series, workspace};

/// The file of one boot: the lines of its guest, and behind them what says that it came to its end.
pub(super) struct Kept {
    path: PathBuf,
}

/// The file of a boot that is going on.
pub(super) struct Boot {
    path: PathBuf,
    file: File,
}

/// The last line of a boot that came to its end.
#[derive(Serialize, Deserialize)]
struct End {
    /// `uname -r` of the guest.
    release: String,
}

impl Kept {
    pub(super) fn new(folder: &Path, boot: &str) -> Self {
        Self {
            path: folder.join("boots").join(format!("{boot}.jsonl")),
        }
    }

    /// The boot, if it came to its end in an earlier run.
    pub(super) fn report(&self, kernel: impl Into<Option<Series>>) -> Result<Option<Report>> {
        if !self.path.is_file() {
            return Ok(None);
        }
        let text = fs::read_to_string(&self.path).with_context(|| format!("read {}", self.path.display()))?;
        let Some(end) = text
            .lines()
            .last()
            .and_then(|line| serde_json::from_str::<End>(line).ok())
        else {
            return Ok(None);
        };
        let mut report = Report::new(kernel);
        for line in text.lines() {
            if let Ok(line) = serde_json::from_str::<Line>(line) {
                report.take(line);
            }
        }
        report.release = end.release;
        Ok(Some(report))
    }

    /// What the boot is called.
    pub(super) fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    /// Begins the boot anew.
    pub(super) fn begin(&self) -> Result<Boot> {
        if let Some(folder) = self.path.parent() {
            workspace::make_dir(folder)?;
        }
        let file = File::create(&self.path).with_context(|| format!("create {}", self.path.display()))?;
        Ok(Boot {
            path: self.path.clone(),
            file,
        })
    }
}

impl Boot {
    pub(super) fn add(&mut self, line: &Line) -> Result<()> {
        self.write(line)
    }

    pub(super) fn end(&mut self, release: &str) -> Result<()> {
        let release = release.to_owned();
        self.write(&End { release })
    }

    fn write(&mut self, line: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        self.file
            .write_all(text.as_bytes())
            .with_context(|| format!("write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::systems::NOTHING;

    fn line() -> Line {
        Line::Sample {
            system: NOTHING.to_owned(),
            operation: "fork".to_owned(),
            rounds: 1,
            batches: vec![100, 100, 100],
        }
    }

    #[test]
    fn only_a_boot_that_came_to_its_end_is_taken_over() {
        let scratch = workspace::Scratch::new("kept").unwrap();
        let kept = || Kept::new(scratch.path(), "6.1-0");
        assert!(kept().report(Series::V6_1).unwrap().is_none());
        let mut first = kept().begin().unwrap();
        first.add(&line()).unwrap();
        assert!(kept().report(Series::V6_1).unwrap().is_none());
        first.end("6.1.0-x").unwrap();
        let report = kept().report(Series::V6_1).unwrap().unwrap();
        assert_eq!(report.release, "6.1.0-x");
        assert_eq!(report.values(NOTHING, "fork"), [100.0; 3]);
        let _again = kept().begin().unwrap();
        assert!(kept().report(Series::V6_1).unwrap().is_none());
    }
}

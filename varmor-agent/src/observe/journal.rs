//! A recording on disk: `{profile}/started`, `events.jsonl`, `calls`, and at the end `model.yaml`.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use varmor_common::model::Recording;

use crate::files;

const STARTED: &str = "started";
const EVENTS: &str = "events.jsonl";
const CALLS: &str = "calls";
pub(super) const MODEL: &str = "model.yaml";

/// The files of one profile.
pub(super) struct Journal {
    folder: PathBuf,
    /// When its time began to run; `None` = not yet.
    started: Option<SystemTime>,
    events: File,
}

/// What there is of a profile.
pub(super) enum Start {
    /// Its model was made.
    Completed {
        started: Option<SystemTime>,
    },
    Recording {
        journal: Journal,
        recording: Recording,
    },
}

impl Journal {
    /// Begins, or goes on with what is there.
    pub(super) fn open(folder: &Path, profile: &str) -> anyhow::Result<Start> {
        // Profiles are named by users, and `.` and `/` are allowed in none of their parts.
        anyhow::ensure!(
            !profile.contains('/') && !profile.starts_with('.'),
            "`{profile}` is no name of a folder"
        );
        let folder = folder.join(profile);
        fs::create_dir_all(&folder).with_context(|| format!("create the folder {}", folder.display()))?;
        let started = started(&folder);
        if folder.join(MODEL).exists() {
            return Ok(Start::Completed { started });
        }
        let mut recording = Recording::default();
        let path = folder.join(EVENTS);
        if let Ok(file) = File::open(&path) {
            for line in BufReader::new(file).lines() {
                // The end of the last line may be missing after a crash; every other line is ours.
                let Ok(line) = line else { break };
                if recording.add(&line).is_err() {
                    recording.losses.unreadable += 1;
                }
            }
        }
        if let Ok(text) = fs::read_to_string(folder.join(CALLS)) {
            recording.syscalls.extend(text.lines().map(str::to_owned));
        }
        let events = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .with_context(|| format!("open {}", path.display()))?;
        let journal = Self {
            folder,
            started,
            events,
        };
        Ok(Start::Recording { journal, recording })
    }

    pub(super) fn started(&self) -> Option<SystemTime> {
        self.started
    }

    /// The time runs from now on.
    pub(super) fn start(&mut self, now: SystemTime) -> anyhow::Result<()> {
        let path = self.folder.join(STARTED);
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        files::replace(&path, format!("{}\n", since.as_secs()).as_bytes())
            .with_context(|| format!("write {}", path.display()))?;
        self.started = Some(now);
        Ok(())
    }

    pub(super) fn line(&mut self, line: &str) -> anyhow::Result<()> {
        self.events
            .write_all(format!("{line}\n").as_bytes())
            .context("write an event of the recording")
    }

    pub(super) fn calls(&self, calls: &BTreeSet<String>) -> anyhow::Result<()> {
        let mut text: Vec<&str> = calls.iter().map(String::as_str).collect();
        text.push("");
        files::replace(&self.folder.join(CALLS), text.join("\n").as_bytes()).context("write the system calls")
    }

    /// Writes the model; the recording is not needed any more.
    pub(super) fn complete(&self, model: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(MODEL);
        files::replace(&path, model.as_bytes()).with_context(|| format!("write {}", path.display()))?;
        for name in [EVENTS, CALLS] {
            // The model is what counts from now on.
            let _ = fs::remove_file(self.folder.join(name));
        }
        Ok(path)
    }

    /// Drops a recording that will not be ended.
    pub(super) fn remove(&self) {
        // What stays is read again should the policy come back.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn started(folder: &Path) -> Option<SystemTime> {
    let text = fs::read_to_string(folder.join(STARTED)).ok()?;
    let seconds = text.trim().parse().ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

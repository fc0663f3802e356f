//! fio with the jobs of `fio-async.job`: reads and writes, in order and at random, in blocks of 4 and 32 KiB, four
//! threads each, all at once.

use std::{fmt::Write, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Load, output, words};

const KINDS: [&str; 6] = ["read", "randread", "write", "randwrite", "rw", "randrw"];
const BLOCKS: [&str; 2] = ["4k", "32k"];
/// Of each job, and of each that works at random.
const JOBS: u32 = 4;
const RANDOM: &str = "256k";
/// About as many operations as the jobs do on one MiB in order and one of their random sizes.
const PER_MIB: u32 = 4_000;

pub(super) struct Fio {
    arguments: Vec<String>,
}

/// About so many operations, on files in the guest's memory.
pub(super) fn start(amount: u32, folder: &str) -> Result<Fio> {
    let file = format!("{folder}/fio-async.job");
    fs::write(&file, jobs(folder, amount.div_ceil(PER_MIB))).with_context(|| format!("write {file}"))?;
    Ok(Fio {
        arguments: words(&format!("--output-format=json {file}")),
    })
}

/// The job file of the comparison, with smaller files.
fn jobs(folder: &str, mebibytes: u32) -> String {
    let mut text = format!(
        "[global]\ndirect=0\nioengine=sync\nthread\ndirectory={folder}\ninvalidate=1\ngroup_reporting=1\n\
         filename_format=SequentialIOLoads.$jobnum\nrandseed=1\n"
    );
    for kind in KINDS {
        for block in BLOCKS {
            let size = if kind.starts_with("rand") {
                RANDOM.to_owned()
            } else {
                format!("{mebibytes}m")
            };
            let _ = write!(
                text,
                "[{kind}-{block}]\nnew_group\nnumjobs={JOBS}\nrw={kind}\nbs={block}\nsize={size}\n"
            );
        }
    }
    text
}

impl Load for Fio {
    fn run(&mut self) -> Result<String> {
        output("/usr/bin/fio", &self.arguments)
    }

    fn done(&mut self, said: &str) -> Result<u64> {
        let report: Value =
            serde_json::from_str(said).with_context(|| format!("read what fio says: {said}"))?;
        let (done, failed) = operations(&report);
        ensure!(failed == 0 && done > 0, "{failed} jobs of fio failed: {said}");
        Ok(done)
    }
}

/// Reads and writes of all jobs, and how many jobs failed.
fn operations(report: &Value) -> (u64, usize) {
    let jobs = report["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let done = jobs
        .iter()
        .map(|job| number(&job["read"]["total_ios"]) + number(&job["write"]["total_ios"]))
        .sum();
    let failed = jobs.iter().filter(|job| number(&job["error"]) != 0).count();
    (done, failed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{jobs, operations};

    #[test]
    fn there_are_the_twelve_jobs_of_the_comparison() {
        let text = jobs("/tmp", 2);
        assert_eq!(text.matches("new_group").count(), 12);
        assert!(text.contains("[randrw-32k]\nnew_group\nnumjobs=4\nrw=randrw\nbs=32k\nsize=256k\n"));
        assert!(text.contains("[write-4k]\nnew_group\nnumjobs=4\nrw=write\nbs=4k\nsize=2m\n"));
    }

    #[test]
    fn operations_are_added_up_and_failures_counted() {
        let job = |error: u32| json!({"error": error, "read": {"total_ios": 3}, "write": {"total_ios": 4}});
        assert_eq!(operations(&json!({"jobs": [job(0), job(0)]})), (14, 0));
        assert_eq!(operations(&json!({"jobs": [job(5)]})), (7, 1));
    }
}

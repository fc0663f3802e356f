//! `bench cluster`: the systems of the comparison as pods of the lab's cluster, as the comparison had them: a policy for each, applied
//! before its pod is created, measured by `kubectl exec`, and removed at the end. Unlike there, all pods are there at once and take turns.

use std::{fmt::Write, process::ExitCode};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::{
    comparison,
    intake::Intake,
    operations,
    preset::{
        cells::{self, SEED, Workload},
        pts::conditions,
    },
    protocol::Line,
    record::{Folder, Summary, field},
    report::Report,
    stats::{Backend, mirrored, percent},
    systems::{NOTHING, NOTHING_AGAIN},
};
use crate::cluster::{self, Pod, Session};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Every system in a random order and then in the reverse order, so often; with fewer than 12 a difference can be chance
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=100))]
    blocks: u32,
    #[command(flatten)]
    options: cluster::Options,
}

const SUITE: &str = "cluster";
/// Operations and repetitions between two looks at the clock: some ten milliseconds of an emulated processor.
const OPERATIONS: [(&str, u32); 10] = [
    ("eventfd", 4000),
    ("open-9", 400),
    ("stat", 400),
    ("create-unlink", 100),
    ("rename", 100),
    ("mkdir-rmdir", 100),
    ("socket", 200),
    ("connect-v4", 400),
    ("fork", 20),
    ("exec", 10),
];

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    let folder = Folder::new(SUITE)?;
    let (measured, broken) =
        cluster::within(args.options, |session, _| measure(session, args.blocks, &folder))?;
    if broken {
        bail!("a part of the cluster ended; what it said is above");
    }
    let Measured { reports, proofs } = measured?;
    let kernel = args.options.kernel_name();
    let backend = Backend::ClusterWall;
    let workloads = workloads();
    let release = reports.first().map(|report| report.release.clone());
    let mut cells = cells::cells(SUITE, &reports, &workloads, &conditions(), backend);
    for cell in &mut cells {
        kernel.clone_into(&mut cell.kernel);
    }
    let summary = Summary {
        preset: SUITE.to_owned(),
        scale: format!("{} blocks", args.blocks),
        backend,
        unit: backend.unit().to_owned(),
        kernels: [(kernel.to_owned(), release.unwrap_or_default())].into(),
        cells,
    };
    folder.summary(&summary)?;
    folder.samples(
        &summary,
        &cells::samples(SUITE, &reports, &workloads, &conditions()),
    )?;
    folder.meta(
        &summary,
        &json!({"blocks": args.blocks, "schedule_seed": SEED, "proofs": proofs}),
    )?;
    let (markdown, csv) = tables(&summary);
    folder.table(SUITE, &markdown, &csv)?;
    print!("{markdown}");
    println!("{}", folder.path().display());
    let mut problems: Vec<&String> = reports.iter().flat_map(Report::problems).collect();
    problems.dedup();
    for problem in &problems {
        println!("FAILED: {problem}");
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

struct Measured {
    /// One for each block.
    reports: Vec<Report>,
    /// Per pod: what it says of the profile and the filter that hold it.
    proofs: Vec<String>,
}

fn measure(session: &Session, blocks: u32, folder: &Folder) -> Result<Measured> {
    let pods = pods()?;
    cluster::start_pods(session, &pods)?;
    let proofs = pods
        .iter()
        .map(|pod| Ok(format!("{}: {}", pod.name, cluster::proof(session, &pod.name)?)))
        .collect::<Result<Vec<_>>>()?;
    for proof in &proofs {
        eprintln!("[{proof}]");
    }
    let names = names();
    let mut reports = Vec::new();
    for (block, order) in mirrored(names.len(), usize::try_from(blocks)?, SEED)
        .iter()
        .enumerate()
    {
        eprintln!("[{SUITE}: block {} of {blocks}]", block + 1);
        let (forth, back) = order.split_at(names.len());
        let half = |order: &[usize], half: &str| -> Result<Report> {
            let kept = folder.boot(&format!("{block}-{half}"));
            let mut intake = Intake::new(None, Some(kept.begin()?));
            intake.report.release = cluster::release(session)?;
            for name in order.iter().map(|number| &names[*number]) {
                intake.hear(say(name, &exec(session, name)?)?.as_bytes());
            }
            intake.end(true)
        };
        let forth = half(forth, "forth")?;
        reports.push(Report::mirrored(&forth, &half(back, "back")?));
    }
    cluster::end_pods(session)?;
    Ok(Measured { reports, proofs })
}

/// Each pod has the name of its system, as Kubernetes takes it.
fn pods() -> Result<Vec<Pod>> {
    names()
        .iter()
        .map(|system| {
            let name = pod_name(system);
            let is_free = [NOTHING, NOTHING_AGAIN].contains(&system.as_str());
            let policy = (!is_free)
                .then(|| comparison::policy_of(system, &name, cluster::NAMESPACE, &name))
                .map(|policy| policy.with_context(|| format!("{system} has no policy")))
                .transpose()?;
            Ok(Pod {
                is_confined: system.ends_with("AppArmor"),
                name,
                policy,
            })
        })
        .collect()
}

/// The rows of the comparison, and the first one once more in another pod.
fn names() -> Vec<String> {
    let rows = conditions().into_iter().map(|condition| condition.system.name);
    rows.chain([NOTHING_AGAIN.to_owned()]).collect()
}

fn pod_name(system: &str) -> String {
    system.to_lowercase()
}

fn exec(session: &Session, system: &str) -> Result<String> {
    let work: Vec<String> = OPERATIONS
        .iter()
        .map(|(name, rounds)| format!("{name}:{rounds}"))
        .collect();
    let mut words = vec!["bench", "pod"];
    words.extend(work.iter().map(String::as_str));
    cluster::measure(session, &pod_name(system), &words)
}

/// The lines of a pod, which does not know what it is called here.
fn say(system: &str, text: &str) -> Result<String> {
    let mut lines = String::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let line: Line = serde_json::from_str(line).with_context(|| format!("{system} said `{line}`"))?;
        let line = match line {
            Line::Sample {
                operation,
                rounds,
                batches,
                ..
            } => Line::Sample {
                system: system.to_owned(),
                operation,
                rounds,
                batches,
            },
            Line::Problem { operation, text, .. } => Line::Problem {
                system: system.to_owned(),
                operation,
                text,
            },
            other => other,
        };
        lines += &(serde_json::to_string(&line)? + "\n");
    }
    Ok(lines)
}

fn workloads() -> Vec<Workload> {
    let workload = |(name, _): &(&'static str, u32)| Workload {
        operation: name,
        title: operations::find(name).map_or(name, |operation| operation.does),
        units: 1,
    };
    OPERATIONS.iter().map(workload).collect()
}

/// A row for each operation and system.
fn tables(summary: &Summary) -> (String, String) {
    let kernels: Vec<&str> = summary.kernels.values().map(String::as_str).collect();
    let mut markdown = format!(
        "# Operations in pods, kernel {}, {}\n\nBackend `{}`, {}. {}\n\n\
         | operation | Test Scenario | ns | overhead % | interval | detectable % | verdict |\n|---|---|---:|---:|---|---:|---|\n",
        kernels.join(", "),
        summary.scale,
        summary.backend.name(),
        summary.unit,
        summary.backend.meaning()
    );
    let mut csv = "operation,system,ns,overhead_pct,low_pct,high_pct,detectable_pct,verdict\n".to_owned();
    let signed = |overhead: f64| format!("{:+.2}", percent(overhead));
    for cell in &summary.cells {
        let value = cell.said();
        let [overhead, low, high] = cell.estimate.as_ref().map_or_else(Default::default, |found| {
            [found.overhead, found.low, found.high].map(signed)
        });
        let interval = if low.is_empty() {
            String::new()
        } else {
            format!("{low} to {high}")
        };
        let least = cell.detectable.map(signed).unwrap_or_default();
        let verdict = cell
            .verdict
            .map(|verdict| verdict.to_string())
            .unwrap_or_default();
        let _ = writeln!(
            markdown,
            "| {} | {} | {value} | {overhead} | {interval} | {least} | {verdict} |",
            cell.row, cell.column
        );
        let _ = writeln!(
            csv,
            "{},{},{},{overhead},{low},{high},{least},{verdict}",
            cell.workload,
            field(&cell.column),
            field(&value)
        );
    }
    (markdown, csv)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{OPERATIONS, names, operations, pods, say};

    #[test]
    fn operations_exist() {
        assert!(
            OPERATIONS
                .iter()
                .all(|(name, rounds)| operations::find(name).is_some() && *rounds > 0)
        );
    }

    #[test]
    fn every_row_is_a_pod_and_each_policy_is_about_its_own() {
        let pods = pods().unwrap();
        assert_eq!(pods.len(), 9);
        assert_eq!(pods.iter().map(|pod| &pod.name).collect::<BTreeSet<_>>().len(), 9);
        assert_eq!(pods.iter().filter(|pod| pod.policy.is_none()).count(), 2);
        assert_eq!(pods.iter().filter(|pod| pod.is_confined).count(), 3);
        for pod in &pods {
            if let Some(policy) = &pod.policy {
                let target = format!("target: {{kind: Pod, name: {}}}", pod.name);
                assert!(policy.contains(&target), "{policy}");
            }
        }
        assert_eq!(names()[0], "nothing");
    }

    #[test]
    fn lines_get_the_name_of_their_system() {
        let text = r#"{"sample":{"operation":"fork","rounds":20,"batches":[1,2]}}"#;
        let said = say("nothing", &format!("{text}\n\n")).unwrap();
        assert!(
            said.contains("\"system\":\"nothing\"") && said.ends_with("}\n"),
            "{said}"
        );
        assert!(say("nothing", "panicked").is_err());
    }
}

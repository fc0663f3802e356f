//! `preset seed-resources`: what the controller needs for one policy that protects the pods of many nodes, and the agent of
//! one of these nodes, beside the quotas of the seed.
//!
//! The controller runs on this machine, at a real API server and with simulated nodes; agents run in a guest with
//! containerd, whose clock counts instructions: their seconds are those of a processor that runs 10⁹ of them. The two are never
//! compared.

use std::{fmt::Write, process::ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Scale, Settings};
use crate::{
    bench::{
        record::{Cell, Folder, Summary, field},
        stats::Backend,
    },
    build::{self, Profile},
    cluster, demo,
    kernel::Series,
    progress,
    vm::Guest,
    workspace,
};

const SUITE: &str = "resources";
const UNIT: &str = "see the column; a second of an agent is 10⁹ guest instructions";
const PODS_PER_NODE: u32 = 32;

/// A row of the seed's table, with its quotas: limit and request.
struct Row {
    name: &'static str,
    processor: &'static str,
    memory: &'static str,
}

const MANAGER: Row = Row {
    name: "Manager",
    processor: "200m/100m",
    memory: "300Mi/200Mi",
};
const WITHOUT_BPF: Row = Row {
    name: "Agent (BPF off)",
    processor: "200m/100m",
    memory: "100Mi/40Mi",
};
const WITH_BPF: Row = Row {
    name: "Agent (BPF on)",
    processor: "200m/100m",
    memory: "200Mi/100Mi",
};

/// What is measured of each row: its name in the table, in the summary, and where the figures have it.
struct Column {
    title: &'static str,
    workload: &'static str,
    manager: Result<&'static str, &'static str>,
    agent: Result<&'static str, &'static str>,
    /// From the unit of the figures to that of the column.
    factors: [f64; 2],
}

const KIB_TO_MIB: f64 = 1.0 / 1024.0;
/// Of a processor that runs an instruction in a nanosecond.
const INSTRUCTIONS_TO_SECONDS: f64 = 1e-9;
/// The same in a second, as thousandths.
const INSTRUCTIONS_TO_MILLIS: f64 = 1e-6;
const COLUMNS: [Column; 4] = [
    Column {
        title: "CPU for the work, s",
        workload: "cpu-work",
        manager: Ok("/apply/controllerCpuSeconds"),
        agent: Ok("/workInstructions"),
        factors: [1.0, INSTRUCTIONS_TO_SECONDS],
    },
    Column {
        title: "CPU at rest, m",
        workload: "cpu-rest",
        manager: Err("its nodes never rest"),
        agent: Ok("/idleInstructionsPerSecond"),
        factors: [1.0, INSTRUCTIONS_TO_MILLIS],
    },
    Column {
        title: "RSS after the work, MiB",
        workload: "rss",
        manager: Ok("/apply/controllerMiB"),
        agent: Ok("/rssKiB"),
        factors: [1.0, KIB_TO_MIB],
    },
    Column {
        title: "RSS at its peak, MiB",
        workload: "rss-peak",
        manager: Ok("/controller/peakMiB"),
        agent: Err("asked once"),
        factors: [1.0, KIB_TO_MIB],
    },
];

/// Nodes of one policy.
const fn nodes(scale: Scale) -> u32 {
    match scale {
        Scale::Smoke => 4,
        Scale::Std => 400,
    }
}

pub(super) fn run(settings: &Settings) -> Result<ExitCode> {
    let kernel = settings.kernel.unwrap_or(Series::V6_12);
    let folder = Folder::new("seed-resources")?;
    let size = cluster::Size {
        nodes: nodes(settings.scale),
        policies: 1,
        pods: nodes(settings.scale) * PODS_PER_NODE,
    };
    let label = format!("{} nodes with {} pods", size.nodes, size.pods);
    let manager = progress::timed(&label, || cluster::figures(size))?;
    let (without, _) = agent(kernel, "AppArmor")?;
    let (with, release) = agent(kernel, "BPF")?;
    let figures = json!({"manager": manager, "agentWithoutBpf": without, "agentWithBpf": with});
    let text = serde_json::to_string_pretty(&figures)? + "\n";
    workspace::write_file(&folder.path().join("figures.json"), text)?;
    let rows = [(&MANAGER, &manager), (&WITHOUT_BPF, &without), (&WITH_BPF, &with)];
    let summary = Summary {
        preset: "seed-resources".to_owned(),
        scale: settings.scale.name().to_owned(),
        backend: Backend::NativeWall,
        unit: UNIT.to_owned(),
        kernels: [(kernel.name().to_owned(), release)].into(),
        cells: rows
            .iter()
            .flat_map(|(row, figures)| cells(row, figures, kernel))
            .collect(),
    };
    folder.summary(&summary)?;
    folder.meta(
        &summary,
        &json!({"nodes": size.nodes, "pods": size.pods, "pods_of_an_agent": PODS_PER_NODE}),
    )?;
    let (markdown, csv) = tables(&summary, size.nodes, size.pods);
    folder.table(SUITE, &markdown, &csv)?;
    print!("{markdown}");
    println!("{}", folder.path().display());
    Ok(ExitCode::SUCCESS)
}

/// What an agent takes under one policy of this enforcer, and the guest's `uname -r`.
fn agent(kernel: Series, enforcer: &str) -> Result<(Value, String)> {
    let guest = demo::resources_guest(&build::build(Profile::Release)?, kernel, enforcer, PODS_PER_NODE)?;
    progress::timed(&format!("an agent with {enforcer}"), || asked(&guest))
}

fn asked(guest: &Guest) -> Result<(Value, String)> {
    let mut output = Vec::new();
    let outcome = guest.run(&mut |bytes| output.extend_from_slice(bytes))?;
    let text = String::from_utf8_lossy(&output);
    ensure!(
        outcome.code == 0,
        "the guest ended with {}; it printed:\n{text}",
        outcome.code
    );
    let told = text.lines().find_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        line.get("resources").cloned()
    });
    Ok((
        told.context("the guest did not say what the agent needs")?,
        outcome.release,
    ))
}

fn cells(row: &Row, figures: &Value, kernel: Series) -> Vec<Cell> {
    let is_manager = row.name == MANAGER.name;
    let one = |column: &Column| {
        let (place, factor) = if is_manager {
            (column.manager, column.factors[0])
        } else {
            (column.agent, column.factors[1])
        };
        let value = place.and_then(|place| {
            let number = figures.pointer(place).and_then(Value::as_f64);
            number.map(|number| number * factor).ok_or("not in the figures")
        });
        Cell {
            suite: SUITE.to_owned(),
            workload: column.workload.to_owned(),
            row: row.name.to_owned(),
            system: row.name.to_owned(),
            column: column.title.to_owned(),
            kernel: kernel.name().to_owned(),
            value: value.ok(),
            estimate: None,
            detectable: None,
            verdict: None,
            reason: value.err().map(str::to_owned),
        }
    };
    COLUMNS.iter().map(one).collect()
}

/// A row per component, with the seed's quotas at its end.
fn tables(summary: &Summary, nodes: u32, pods: u32) -> (String, String) {
    let mut markdown = format!(
        "# What one policy for {pods} pods on {nodes} nodes takes\n\nThe controller on this machine, an agent with {PODS_PER_NODE} \
         containers in a guest with kernel {}, where a second is 10⁹ instructions.\n\n| |",
        summary
            .kernels
            .values()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    );
    let mut csv = "component".to_owned();
    for column in &COLUMNS {
        let _ = write!(markdown, " {} |", column.title);
        let _ = write!(csv, ",{}", field(column.title));
    }
    markdown +=
        " seed: CPU limit/request | seed: memory limit/request |\n|---|---:|---:|---:|---:|---|---|\n";
    csv += ",seed_cpu,seed_memory\n";
    for row in [&MANAGER, &WITHOUT_BPF, &WITH_BPF] {
        let _ = write!(markdown, "| {} |", row.name);
        let _ = write!(csv, "{}", field(row.name));
        for cell in summary.cells.iter().filter(|cell| cell.row == row.name) {
            let text = match (cell.value, &cell.reason) {
                (Some(value), _) => format!("{value:.2}"),
                (None, reason) => format!("n/a ({})", reason.as_deref().unwrap_or_default()),
            };
            let _ = write!(markdown, " {text} |");
            let _ = write!(csv, ",{}", field(&text));
        }
        let _ = writeln!(markdown, " {} | {} |", row.processor, row.memory);
        let _ = writeln!(csv, ",{},{}", row.processor, row.memory);
    }
    (markdown, csv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_the_rows_of_the_seed_and_says_what_is_missing() {
        let manager = json!({
            "apply": {"controllerCpuSeconds": 1.5, "controllerMiB": 20.0},
            "controller": {"peakMiB": 24.25},
        });
        let agent = json!({"workInstructions": 3_000_000_000_u64, "idleInstructionsPerSecond": 1_000_000, "rssKiB": 10_240});
        let summary = Summary {
            preset: "seed-resources".to_owned(),
            scale: "smoke".to_owned(),
            backend: Backend::NativeWall,
            unit: UNIT.to_owned(),
            kernels: [("6.12".to_owned(), "6.12.0-x".to_owned())].into(),
            cells: [
                (&MANAGER, &manager),
                (&WITHOUT_BPF, &json!({})),
                (&WITH_BPF, &agent),
            ]
            .iter()
            .flat_map(|(row, figures)| cells(row, figures, Series::V6_12))
            .collect(),
        };
        let (markdown, csv) = tables(&summary, 4, 128);
        for line in [
            "| Manager | 1.50 | n/a (its nodes never rest) | 20.00 | 24.25 | 200m/100m | 300Mi/200Mi |",
            "| Agent (BPF on) | 3.00 | 1.00 | 10.00 | n/a (asked once) | 200m/100m | 200Mi/100Mi |",
        ] {
            assert!(markdown.contains(line), "{markdown}");
        }
        assert!(csv.contains("Agent (BPF off),n/a (not in the figures)"), "{csv}");
    }
}

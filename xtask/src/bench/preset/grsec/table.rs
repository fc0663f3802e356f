//! The comparison's four tables in one, every row of it, with its own numbers beside ours.

use std::fmt::Write;

use super::suites;
use crate::bench::{
    preset::{
        Scale,
        programs::suite::{Suite, rate, time},
    },
    record::{Cell, Summary, field},
    stats::{Backend, percent},
};

/// What ab transfers for a request: the page and the head of the answer.
const KIB_OF_REQUEST: f64 = 4.3;

/// A row of the comparison.
struct Row {
    test: &'static str,
    title: &'static str,
    /// Ours, or why there is none.
    ours: Result<Ours, &'static str>,
    /// Debian 9, PaX/Grsecurity, and what it says of the difference.
    theirs: [&'static str; 3],
}

/// From the instructions of a unit of work to the number of a row.
struct Ours {
    operation: &'static str,
    number: fn(f64, f64) -> f64,
    unit: &'static str,
}

const NO_DISK: &str = "the files are in the guest's memory: there is no disk and no scheduler of it";
const NO_BUILD: &str = "a kernel's build takes a day in a guest that counts instructions; seed-unixbench has process creation, exec and files";
const PER_SECOND: &str = "for 10⁹ instructions";

const fn measured(operation: &'static str, number: fn(f64, f64) -> f64, unit: &'static str) -> Ours {
    Ours {
        operation,
        number,
        unit,
    }
}

const fn each(per_unit: f64, _: f64) -> f64 {
    rate(per_unit)
}

const fn transferred(per_unit: f64, _: f64) -> f64 {
    KIB_OF_REQUEST * rate(per_unit)
}

const fn itself(per_unit: f64, _: f64) -> f64 {
    per_unit
}

const ROWS: [Row; 15] = [
    row(
        "stress-ng",
        "CPU",
        Ok(measured("stress-cpu", each, PER_SECOND)),
        ["", "", "~3%"],
    ),
    row(
        "stress-ng",
        "I/O",
        Ok(measured("stress-io", each, PER_SECOND)),
        ["", "", "~28"],
    ),
    row(
        "stress-ng",
        "VM",
        Err("nor has the comparison a number"),
        ["", "", "N/A"],
    ),
    row(
        "ab",
        "Time taken",
        Ok(measured("ab-100", time, "10⁹ instructions")),
        ["", "", "~4%"],
    ),
    row(
        "ab",
        "Req/s",
        Ok(measured("ab-100", each, PER_SECOND)),
        ["", "", "~4%"],
    ),
    row(
        "ab",
        "Transfer rate",
        Ok(measured("ab-100", transferred, "KiB for 10⁹ instructions")),
        ["", "", "~4%"],
    ),
    row(
        "fio",
        "I/Os performed",
        Err(NO_DISK),
        ["137074/26514", "135043/24854", ""],
    ),
    row(
        "fio",
        "Merges in IO sched",
        Err(NO_DISK),
        ["1492/45812", "153/34948", ""],
    ),
    row(
        "fio",
        "Number of tickets",
        Err(NO_DISK),
        ["659904/5671904", "701448/8006316", ""],
    ),
    row(
        "fio",
        "Time consumption in queue",
        Err(NO_DISK),
        ["6332904", "8713144", ""],
    ),
    row("fio", "Disk utilization", Err(NO_DISK), ["99.01%", "98.34%", ""]),
    row(
        "fio",
        "Per read or write (ours)",
        Ok(measured("fio", itself, "instructions")),
        ["", "", ""],
    ),
    row(
        "Kernel compilation",
        "real",
        Err(NO_BUILD),
        ["25m17.713s", "27m37.922s", ""],
    ),
    row(
        "Kernel compilation",
        "usr",
        Err(NO_BUILD),
        ["170m16.332s", "177m11.980s", ""],
    ),
    row(
        "Kernel compilation",
        "sys",
        Err(NO_BUILD),
        ["7m45.016s", "13m5.148s", ""],
    ),
];

const fn row(
    test: &'static str,
    title: &'static str,
    ours: Result<Ours, &'static str>,
    theirs: [&'static str; 3],
) -> Row {
    Row {
        test,
        title,
        ours,
        theirs,
    }
}

const TEMPLATES: [&str; 2] = ["Critical", "Generic"];

pub(super) fn table(summary: &Summary, scale: Scale) -> (String, String) {
    let kernels: Vec<&str> = summary.kernels.values().map(String::as_str).collect();
    let mut markdown = format!(
        "# Against a hardened kernel, kernel {}, scale {}\n\nBackend `{}`. {} *Critical* is EnhanceProtect, *Generic* RuntimeDefault, both by BPF. Impact: so much more than \
         under Debian; with 95 % interval and verdict from 3 {} on. The comparison measured another thing (a patched \
         kernel) on other hardware in real time: no ratio is made of its numbers and ours.\n\n\
         | test | row | Template | Debian | hardened | unit | impact % | interval | verdict | seed: Debian 9 | seed: PaX/Grsecurity | seed: impact |\n\
         |---|---|---|---:|---:|---|---:|---|---|---:|---:|---:|\n",
        kernels.join(", "),
        summary.scale,
        summary.backend.name(),
        summary.backend.meaning(),
        summary.backend.blocks()
    );
    let mut csv = "test,row,template,debian,hardened,unit,impact_pct,low_pct,high_pct,verdict,seed_debian,seed_hardened,seed_impact\n"
        .to_owned();
    for row in &ROWS {
        for template in TEMPLATES {
            let cells = cells(summary, scale, row, template);
            let theirs = if template == TEMPLATES[0] {
                row.theirs
            } else {
                [""; 3]
            };
            let Values {
                debian,
                hardened,
                unit,
                impact: [impact, low, high],
                verdict,
            } = cells;
            let interval = if low.is_empty() {
                String::new()
            } else {
                format!("{low} to {high}")
            };
            let [debian_9, patched, said] = theirs;
            let _ = writeln!(
                markdown,
                "| {} | {} | {template} | {debian} | {hardened} | {unit} | {impact} | {interval} | {verdict} | {debian_9} | {patched} | {said} |",
                row.test, row.title
            );
            let line = [
                row.test, row.title, template, &debian, &hardened, &unit, &impact, &low, &high, &verdict,
                debian_9, patched, said,
            ];
            csv += &(line.map(field).join(",") + "\n");
        }
    }
    markdown += "\n## What is run\n";
    for Suite {
        title,
        command,
        differences,
        ..
    } in suites::ALL
    {
        let _ = write!(
            markdown,
            "\n- {title}: {command}. Not as in the comparison: {differences}."
        );
    }
    markdown.push('\n');
    (markdown, csv)
}

/// A unit of instructions, or the same of time.
fn unit(of_instructions: &str, backend: Backend) -> String {
    match backend {
        Backend::TcgIcount => of_instructions.to_owned(),
        Backend::NativeWall | Backend::ClusterWall => of_instructions
            .replace("for 10⁹ instructions", "a second")
            .replace("10⁹ instructions", "seconds")
            .replace("instructions", "ns"),
    }
}

/// The text of a line.
#[derive(Default)]
struct Values {
    debian: String,
    hardened: String,
    unit: String,
    /// With its interval.
    impact: [String; 3],
    verdict: String,
}

fn cells(summary: &Summary, scale: Scale, row: &Row, template: &str) -> Values {
    let missing = |reason: &str| Values {
        hardened: format!("n/a ({reason})"),
        ..Values::default()
    };
    let ours = match &row.ours {
        Ok(ours) => ours,
        Err(reason) => return missing(reason),
    };
    let columns = suites::ALL.iter().flat_map(|suite| suite.columns);
    let units = columns
        .clone()
        .find(|column| column.operation == ours.operation)
        .map_or(1, |column| column.amount(scale));
    let number = |cell: &Cell| cell.value.map(|value| (ours.number)(value, f64::from(units)));
    let find = |column: &str| {
        let mut cells = summary.cells.iter();
        cells.find(|cell| cell.workload == ours.operation && cell.column == column)
    };
    let (Some(debian), Some(hardened)) = (find("Debian"), find(template)) else {
        return missing("not measured");
    };
    let (Some(before), Some(after)) = (number(debian), number(hardened)) else {
        let reasons = [debian, hardened].map(|cell| cell.reason.as_deref());
        return missing(reasons.into_iter().flatten().next().unwrap_or("not measured"));
    };
    let signed = |overhead: f64| format!("{:+.3}", percent(overhead));
    let impact = hardened.estimate.as_ref().map_or_else(Default::default, |found| {
        [found.overhead, found.low, found.high].map(signed)
    });
    Values {
        debian: format!("{before:.2}"),
        hardened: format!("{after:.2}"),
        unit: unit(ours.unit, summary.backend),
        impact,
        verdict: hardened
            .verdict
            .map(|verdict| verdict.to_string())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ROWS, Scale, suites, table};
    use crate::bench::{
        preset::{
            cells::tests::{cell, one_boot},
            grsec::programs,
        },
        record::Summary,
        stats::Backend,
    };

    fn summary() -> Summary {
        let mut cells = Vec::new();
        for suite in suites::ALL {
            for column in suite.columns {
                let names = [suite.name, column.operation, column.title];
                cells.extend(
                    programs()
                        .conditions
                        .into_iter()
                        .map(|condition| cell(names, condition, 0.02_f64.ln_1p())),
                );
            }
        }
        one_boot("seed-grsec", Backend::TcgIcount.unit(), cells)
    }

    #[test]
    fn every_row_has_a_number_or_a_reason_for_each_template() {
        let (markdown, csv) = table(&summary(), Scale::Smoke);
        assert_eq!(csv.lines().count(), 1 + 2 * ROWS.len());
        assert!(
            csv.contains(
                "ab,Time taken,Critical,1.00,1.00,10⁹ instructions,+2.000,+2.000,+2.000,slower,,,~4%\n"
            ),
            "{csv}"
        );
        assert!(csv.contains("fio,Disk utilization,Generic,,n/a ("), "{csv}");
        assert!(
            markdown.contains("| stress-ng | VM | Critical |  | n/a (nor has the comparison a number) |"),
            "{markdown}"
        );
        assert!(!csv.contains("not measured"), "{csv}");
    }

    #[test]
    fn what_was_not_measured_says_so() {
        let mut summary = summary();
        summary.cells.retain(|cell| cell.workload != "fio");
        let (_, csv) = table(&summary, Scale::Smoke);
        assert!(
            csv.contains("Per read or write (ours),Critical,,n/a (not measured)"),
            "{csv}"
        );
    }
}

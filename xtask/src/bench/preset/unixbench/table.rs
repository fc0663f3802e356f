//! The table of the seed, with every row of it, and what may be said about each number.

use std::fmt::Write;

use super::{INDEX, INDEX_WITHOUT_CPU, NOTHING, tests};
use crate::bench::record::{Cell, Summary, field};

/// Tests of which under these systems at most so much of the score may be lost, in percent.
const GOALS: [(&str, &str); 4] = [
    ("ubench-execl", "protected-8"),
    ("ubench-execl", "protected-1000"),
    ("ubench-spawn", "protected-8"),
    ("ubench-spawn", "protected-1000"),
];
const MOST_LOST: f64 = 0.5;

pub(super) struct Table<'a> {
    summary: &'a Summary,
    columns: Vec<(&'a str, &'a str)>,
}

/// Names of rows in their order: the figure's tests, its index, and what we add.
fn rows() -> Vec<(&'static str, &'static str)> {
    let tests = |cpu: bool| {
        tests::ALL
            .iter()
            .filter(move |test| test.cpu == cpu)
            .map(|test| (test.operation, test.title))
    };
    let mut rows: Vec<(&str, &str)> = tests(false).collect();
    rows.push((INDEX, "System Benchmarks Index"));
    rows.push((INDEX_WITHOUT_CPU, "Index without Dhrystone and Whetstone"));
    rows.extend(tests(true));
    rows
}

/// The part of the score that is left, in percent.
fn left(cell: &Cell) -> Option<f64> {
    Some(100.0 * (-cell.estimate?.overhead).exp())
}

impl<'a> Table<'a> {
    pub(super) fn new(summary: &'a Summary) -> Self {
        let mut columns: Vec<(&str, &str)> = Vec::new();
        for cell in &summary.cells {
            if !columns.iter().any(|(system, _)| *system == cell.system) {
                columns.push((&cell.system, &cell.column));
            }
        }
        Self { summary, columns }
    }

    fn cell(&self, workload: &str, system: &str) -> Option<&Cell> {
        let mut cells = self.summary.cells.iter();
        cells.find(|cell| cell.workload == workload && cell.system == system)
    }

    /// A cell of the first table: a score, a part of it, or why there is none.
    fn text(&self, workload: &str, system: &str) -> String {
        let Some(cell) = self.cell(workload, system) else {
            return "n/a (not measured)".to_owned();
        };
        if let Some(reason) = &cell.reason {
            return format!("n/a ({reason})");
        }
        if system == NOTHING {
            return "100".to_owned();
        }
        left(cell).map_or_else(|| "n/a (no ratio)".to_owned(), |left| format!("{left:.2}"))
    }

    pub(super) fn csv(&self) -> String {
        let mut text = "test".to_owned();
        for (_, column) in &self.columns {
            text.extend([",", &field(column)]);
        }
        text.push('\n');
        for (workload, row) in rows() {
            text.push_str(&field(row));
            for (system, _) in &self.columns {
                text.extend([",", &field(&self.text(workload, system))]);
            }
            text.push('\n');
        }
        text
    }

    pub(super) fn markdown(&self) -> String {
        let kernels: Vec<&str> = self.summary.kernels.values().map(String::as_str).collect();
        let blocks = self.summary.cells.iter().filter_map(|cell| cell.estimate);
        let blocks = blocks.map(|estimate| estimate.blocks).max().unwrap_or_default();
        let mut text = format!(
            "# UnixBench's tests, kernel {}, scale {}\n\nScore in percent of *Not installed* (higher is better): units of \
             work per guest instruction, backend `{}`, boots: {blocks}. Every enforcer has so many rules of each kind \
             (capability, file, process, socket, address, mount; AppArmor knows no addresses), none of which matches. \
             *Installed/No rules* is the mode AlwaysAllow. Instructions are not time: no cache, no mispredicted branch. The tests are \
             equivalents, written from a description; only their ratios mean something.\n\n",
            kernels.join(", "),
            self.summary.scale,
            self.summary.backend.name()
        );
        self.percentages(&mut text);
        self.goals(&mut text);
        self.overheads(&mut text);
        equivalents(&mut text);
        figure(&mut text);
        text
    }

    fn percentages(&self, text: &mut String) {
        text.push_str("| test |");
        for (_, column) in &self.columns {
            text.extend([" ", column, " |"]);
        }
        text.push_str("\n|---|");
        text.push_str(&"---:|".repeat(self.columns.len()));
        text.push('\n');
        for (workload, row) in rows() {
            text.extend(["| ", row, " |"]);
            for (system, _) in &self.columns {
                text.extend([" ", &self.text(workload, system), " |"]);
            }
            text.push('\n');
        }
    }

    fn goals(&self, text: &mut String) {
        let _ = write!(
            text,
            "\n## Goals\n\nAt most {MOST_LOST} % of the score is lost.\n\n"
        );
        for (workload, system) in GOALS {
            let cell = self.cell(workload, system);
            let title = cell.map_or(workload, |cell| &cell.row);
            let column = cell.map_or(system, |cell| &cell.column);
            let outcome = cell.and_then(left).map(|left| 100.0 - left);
            let outcome = outcome.map_or_else(
                || "n/a (not measured)".to_owned(),
                |lost| {
                    let verdict = if lost <= MOST_LOST {
                        "met".to_owned()
                    } else {
                        format!("missed by {:.2} points", lost - MOST_LOST)
                    };
                    format!("{lost:.2} % lost: {verdict}")
                },
            );
            let _ = writeln!(text, "- {title}, {column}: {outcome}");
        }
    }

    /// Overheads with their intervals.
    fn overheads(&self, text: &mut String) {
        text.push_str(
            "\n## Overheads\n\nInstructions per unit of work more than without an enforcer: median of the boots, 95 % interval, smallest overhead \
             that this run can see (from *Not installed* against itself), verdict (none with fewer than 3 boots).\n\n\
             | test | system | instructions | overhead % | interval | detectable % | verdict |\n|---|---|---:|---:|---|---:|---|\n",
        );
        for (workload, row) in rows() {
            for (system, column) in &self.columns {
                let Some(cell) = self.cell(workload, system) else {
                    continue;
                };
                let value = cell.value.map(|value| format!("{value:.0}")).unwrap_or_default();
                let _ = writeln!(text, "| {row} | {column} | {value} | {}", cell.judgement());
            }
        }
    }
}

fn equivalents(text: &mut String) {
    text.push_str("\n## The tests\n\n| test | a unit of work | not as in the original |\n|---|---|---|\n");
    for test in tests::ALL {
        let _ = writeln!(text, "| {} | {} | {} |", test.title, test.unit, test.remark);
    }
    text.push_str(
        "\nOf all of them: a fixed amount of work instead of a fixed time; the measuring process is real-time; batches that a \
         clock tick or a freed page disturbs do not count (median). What a unit costs in time, this backend cannot say.\n",
    );
}

/// The seed's own numbers, beside ours and never in one ratio with them.
fn figure(text: &mut String) {
    text.push_str(
        "\n## The seed's figure\n\nPercent of *Not installed*, read from the pixels of `bpf_enforcer_benchmark.png` (vArmor v0.5.0, \
         kernel 5.10, real time, other hardware; ±0.1): only the sizes of the losses can be compared.\n\n\
         | test | Installed/No rules | 1 rule | 2 rules | 4 rules | 8 rules |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for (row, values) in tests::FIGURE {
        let values: Vec<String> = values.iter().map(|value| format!(" {value:.1} |")).collect();
        let _ = writeln!(text, "| {row} |{}", values.concat());
    }
}

#[cfg(test)]
mod tests_of_the_table {
    use super::{super::conditions, Table, rows, tests};
    use crate::bench::{
        preset::cells::tests::{cell, one_boot},
        record::Summary,
    };

    /// Measurements of one test.
    fn summary(workload: &str, overhead: f64) -> Summary {
        let names = ["unixbench", workload, "Execl Throughput"];
        let cells = conditions()
            .into_iter()
            .map(|condition| cell(names, condition, overhead));
        one_boot("seed-unixbench", super::super::UNIT, cells.collect())
    }

    #[test]
    fn every_row_of_the_seed_appears_or_says_why_not() {
        let summary = summary("ubench-execl", 0.01);
        let table = Table::new(&summary);
        let (markdown, csv) = (table.markdown(), table.csv());
        for (row, _) in tests::FIGURE {
            let line = csv.lines().find(|line| line.starts_with(row));
            let fields = line.unwrap_or_else(|| panic!("no row {row}")).split(',').count();
            assert_eq!(fields, conditions().len() + 1, "{row}");
            assert!(markdown.contains(&format!("| {row} |")), "{row}");
        }
        assert_eq!(csv.lines().count(), 1 + rows().len());
        assert!(csv.contains("Pipe Throughput,n/a (not measured)"), "{csv}");
    }

    #[test]
    fn rows_are_in_the_order_of_the_figure() {
        let names: Vec<&str> = rows().iter().map(|(_, row)| *row).collect();
        let figure: Vec<&str> = tests::FIGURE.iter().map(|(row, _)| *row).collect();
        assert_eq!(names[..figure.len()], figure);
    }

    #[test]
    fn columns_begin_with_those_of_the_seed() {
        let summary = summary("ubench-execl", 0.01);
        let csv = Table::new(&summary).csv();
        let header = csv.lines().next().unwrap();
        assert!(
            header.starts_with("test,Not installed,Installed/No rules,1 rule,2 rules,4 rules,8 rules,"),
            "{header}"
        );
    }

    #[test]
    fn goal_says_by_how_much_it_is_missed() {
        let met = summary("ubench-execl", 0.004);
        let text = Table::new(&met).markdown();
        assert!(
            text.contains("Execl Throughput, 8 rules: 0.40 % lost: met"),
            "{text}"
        );
        let missed = summary("ubench-execl", 0.016);
        let text = Table::new(&missed).markdown();
        assert!(text.contains("1.59 % lost: missed by 1.09 points"), "{text}");
        assert!(text.contains("ubench-spawn, protected-8: n/a"), "{text}");
    }
}

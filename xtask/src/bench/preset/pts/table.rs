//! A suite's table: the rows, columns and labels of the comparison, and what may be said about each number.

use std::fmt::Write;

use super::{anchors, conditions};
use crate::bench::{
    preset::{
        Engine, Scale, phoronix,
        programs::suite::{Column, Sense, Suite, rate, time},
    },
    record::{Cell, Summary, field},
};

pub(super) struct Table<'a> {
    summary: &'a Summary,
    suite: &'a Suite,
    scale: Scale,
    engine: Engine,
}

impl<'a> Table<'a> {
    pub(super) fn new(summary: &'a Summary, suite: &'a Suite, scale: Scale, engine: Engine) -> Self {
        Self {
            summary,
            suite,
            scale,
            engine,
        }
    }

    fn cell(&self, operation: &str, row: &str) -> Option<&Cell> {
        let mut cells = self.summary.cells.iter();
        cells.find(|cell| cell.workload == operation && cell.column == row)
    }

    /// A number as the comparison has it, or why there is none.
    fn text(&self, column: &Column, row: &str) -> String {
        let Some(cell) = self.cell(column.operation, row) else {
            return "n/a (not measured)".to_owned();
        };
        match (cell.value, &cell.reason) {
            (Some(value), _) => {
                let number = match self.suite.sense {
                    Sense::Rate(_) => rate(value),
                    Sense::Time => time(value, column.amount(self.scale).into()),
                };
                format!("{number:.2}")
            }
            (None, reason) => format!("n/a ({})", reason.as_deref().unwrap_or("not measured")),
        }
    }

    pub(super) fn csv(&self) -> String {
        let mut text = "Test Scenario".to_owned();
        for column in self.suite.columns {
            text.extend([",", &field(column.title)]);
        }
        text.push('\n');
        for row in conditions() {
            text.push_str(&field(&row.label));
            for column in self.suite.columns {
                text.extend([",", &field(&self.text(column, &row.label))]);
            }
            text.push('\n');
        }
        text
    }

    pub(super) fn markdown(&self) -> String {
        let Suite { title, sense, .. } = self.suite;
        let backend = self.summary.backend;
        let kernels: Vec<&str> = self.summary.kernels.values().map(String::as_str).collect();
        let estimates = self.cells().filter_map(|cell| cell.estimate);
        let boots = estimates
            .map(|estimate| estimate.blocks)
            .max()
            .unwrap_or_default();
        let meaning = match sense {
            Sense::Rate(what) => format!("{what} {} - Higher is better", backend.rate()),
            Sense::Time => format!("{} - Lower is better", backend.second()),
        };
        let mut text = format!(
            "# {title}, kernel {}, scale {}\n\n{meaning}. Backend `{}`, {}: {boots}. {} Policies are the comparison's, each by `varmor run`; server and client are both under it.\n\n",
            kernels.join(", "),
            self.summary.scale,
            backend.name(),
            backend.blocks(),
            backend.meaning()
        );
        self.numbers(&mut text);
        self.overheads(&mut text);
        let (command, differences) = self.what_is_run();
        let _ = write!(
            text,
            "\n## What is run\n\n{command}.\n\nNot as in the profile behind the comparison: {differences}.\n"
        );
        self.anchors(&mut text);
        text
    }

    fn what_is_run(&self) -> (String, &str) {
        match (self.engine, &self.suite.profile) {
            (Engine::Pts, Some(profile)) => {
                let name = phoronix::profile(self.suite);
                let command = format!(
                    "Profile `{name}` of our own, by the Phoronix Test Suite, once for each system in each order"
                );
                (command, profile.differences)
            }
            _ => (self.suite.command.to_owned(), self.suite.differences),
        }
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        let cells = self.summary.cells.iter();
        cells.filter(|cell| cell.suite == self.suite.name)
    }

    fn head(&self, text: &mut String) {
        text.push_str("| Test Scenario |");
        for column in self.suite.columns {
            text.extend([" ", column.title, " |"]);
        }
        text.push_str("\n|---|");
        text.push_str(&"---:|".repeat(self.suite.columns.len()));
        text.push('\n');
    }

    fn numbers(&self, text: &mut String) {
        self.head(text);
        for row in conditions() {
            text.extend(["| ", &row.label, " |"]);
            for column in self.suite.columns {
                text.extend([" ", &self.text(column, &row.label), " |"]);
            }
            text.push('\n');
        }
    }

    fn overheads(&self, text: &mut String) {
        text.push_str(
            "\n## Overheads\n\nMore than under *NoProtect*, per unit of work: median of the boots or blocks, 95 % interval, smallest overhead \
             that this run can see (from *NoProtect* against itself), verdict (none with fewer than 3 of them).\n\n\
             | column | system | instructions or ns | overhead % | interval | detectable % | verdict |\n|---|---|---:|---:|---|---:|---|\n",
        );
        for column in self.suite.columns {
            for row in conditions() {
                let Some(cell) = self.cell(column.operation, &row.label) else {
                    continue;
                };
                let value = cell.value.map(|value| format!("{value:.1}")).unwrap_or_default();
                let judgement = cell.judgement();
                let _ = writeln!(text, "| {} | {} | {value} | {judgement}", column.title, row.label);
            }
        }
    }

    /// The comparison's own numbers, beside ours and never in one ratio with them.
    fn anchors(&self, text: &mut String) {
        text.push_str(
            "\n## The comparison's own numbers\n\nOther hardware and real time: only the sizes of the differences between rows can be compared. \
             Each of its BPF cells (in GIMP those of AlwaysAllow) is the AppArmor cell above it times a constant, which independent runs cannot give.\n\n",
        );
        self.head(text);
        for row in &anchors::ROWS {
            text.extend(["| ", row.system, " |"]);
            for value in row.values(self.suite.name) {
                let _ = write!(text, " {value} |");
            }
            text.push('\n');
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Engine, Scale, Table, conditions};
    use crate::bench::{
        preset::cells::tests::{cell, one_boot},
        preset::{programs::suite::Suite, pts::suites},
        record::Summary,
        stats::Backend,
    };

    /// Every cell of a suite: half a million instructions for a unit, and so much more under every system.
    pub(in crate::bench::preset::pts) fn summary(suite: &Suite, overhead: f64) -> Summary {
        let mut cells = Vec::new();
        for column in suite.columns {
            let names = [suite.name, column.operation, column.title];
            cells.extend(
                conditions()
                    .into_iter()
                    .map(|condition| cell(names, condition, overhead)),
            );
        }
        one_boot("seed-pts", Backend::TcgIcount.unit(), cells)
    }

    #[test]
    fn rates_are_units_for_a_billion_instructions() {
        let summary = summary(&suites::REDIS, 0.01);
        let csv = Table::new(&summary, &suites::REDIS, Scale::Smoke, Engine::Native).csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(
            lines[0],
            "Test Scenario,GET Connection 50,SETConnection 50,GETConnection 500,SET Connection 500,LPOPConnection 500"
        );
        assert_eq!(lines[1], "NoProtect,2000.00,2000.00,2000.00,2000.00,2000.00");
        assert_eq!(lines.len(), 9);
    }

    #[test]
    fn row_without_a_number_stays_and_says_why() {
        let mut summary = summary(&suites::SYSBENCH, 0.01);
        for cell in &mut summary.cells {
            if cell.column == "Seccomp" {
                cell.value = None;
                cell.reason = Some("no filter".to_owned());
            }
        }
        summary.cells.retain(|cell| cell.column != "Enhance BPF");
        let table = Table::new(&summary, &suites::SYSBENCH, Scale::Smoke, Engine::Native);
        let (markdown, csv) = (table.markdown(), table.csv());
        assert!(csv.contains("Seccomp,n/a (no filter),n/a (no filter)\n"), "{csv}");
        assert!(
            csv.contains("Enhance BPF,n/a (not measured),n/a (not measured)\n"),
            "{csv}"
        );
        assert!(
            markdown.contains("| Seccomp | n/a (no filter) | n/a (no filter) |"),
            "{markdown}"
        );
    }

    #[test]
    fn verdicts_and_the_numbers_of_the_comparison_are_beside_the_table() {
        let summary = summary(&suites::SYSBENCH, 0.02_f64.ln_1p());
        let text = Table::new(&summary, &suites::SYSBENCH, Scale::Smoke, Engine::Native).markdown();
        assert!(
            text.contains(
                "| SysbenchCPU | Enhance BPF | 500000.0 | +2.000 | +2.000 to +2.000 | 0.000 | slower |"
            ),
            "{text}"
        );
        assert!(
            text.contains("| AlwaysAllow BPF | 4026.519 | 2818.679 |"),
            "{text}"
        );
    }

    #[test]
    fn engine_tells_what_it_runs() {
        let summary = summary(&suites::REDIS, 0.01);
        let text = |engine| Table::new(&summary, &suites::REDIS, Scale::Smoke, engine).markdown();
        let by_the_suite = text(Engine::Pts);
        assert!(
            by_the_suite.contains("Profile `local/varmor-redis`"),
            "{by_the_suite}"
        );
        assert!(
            by_the_suite.contains("redis-benchmark, which sends more"),
            "{by_the_suite}"
        );
        assert!(!text(Engine::Native).contains("local/varmor-redis"));
    }
}

//! `bench report`: a run as one HTML file that needs nothing else.

mod svg;

use std::{fmt::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;
use svg::escape;

use super::{
    record::{Cell, Summary},
    stats::percent,
};
use crate::workspace;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Folders of runs; each gets a `report.html`
    #[arg(required = true)]
    runs: Vec<PathBuf>,
}

const STYLE: &str = "body{font:14px sans-serif;margin:2em auto;max-width:1000px;color:#222}table{border-collapse:collapse;\
                     font-size:12px}td,th{border:1px solid #ccc;padding:2px 6px;text-align:right}td:first-child,\
                     th:first-child{text-align:left}svg{display:block;margin:1em 0}p{max-width:70em}";

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    for run in &args.runs {
        let file = run.join("report.html");
        workspace::write_file(&file, page(&Summary::read(run)?))?;
        println!("{}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// In their order, each once.
fn names<'a>(cells: &[&'a Cell], name: impl Fn(&'a Cell) -> &'a str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for cell in cells {
        let name = name(cell);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn page(summary: &Summary) -> String {
    let kernels: Vec<&str> = summary.kernels.values().map(String::as_str).collect();
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>{preset}</title><style>{STYLE}</style></head><body>\n\
         <h1>{preset}, scale {scale}</h1>\n<p>Kernels {kernels}. Values are {unit}, backend <code>{backend}</code>. An overhead is the \
         median over the blocks, with its 95 % interval; positive means that it costs more than without an enforcer.</p>\n",
        preset = escape(&summary.preset),
        scale = escape(&summary.scale),
        kernels = escape(&kernels.join(", ")),
        unit = escape(&summary.unit),
        backend = summary.backend.name()
    );
    let all: Vec<&Cell> = summary.cells.iter().collect();
    for kernel in names(&all, |cell| &cell.kernel) {
        let cells: Vec<&Cell> = all.iter().filter(|cell| cell.kernel == kernel).copied().collect();
        let rows = names(&cells, |cell| &cell.row);
        let measured = cells.iter().filter(|cell| cell.estimate.is_some());
        let columns = names(&measured.copied().collect::<Vec<_>>(), |cell| &cell.column);
        let _ = writeln!(text, "<h2>Kernel {}</h2>", escape(kernel));
        table(&mut text, &cells);
        let _ = writeln!(
            text,
            "<h3>Overhead by row and system (%)</h3>\n{}",
            svg::bars(&rows, &columns, &cells)
        );
        if let Some(chart) = svg::rules(&rows, &cells) {
            let _ = writeln!(text, "<h3>Overhead against rules (%)</h3>\n{chart}");
        }
        let _ = writeln!(
            text,
            "<h3>Overheads with their intervals (%)</h3>\n<p>Green: the margin of ±{} % that does not matter. Grey: what this run could not \
             tell from nothing. Orange: slower.</p>\n{}",
            100.0 * summary.backend.margin(),
            svg::forest(&cells, summary.backend.margin())
        );
    }
    text.push_str("</body></html>\n");
    text
}

fn table(text: &mut String, cells: &[&Cell]) {
    text.push_str("<table><tr><th>row</th><th>system</th><th>value</th><th>overhead %</th><th>interval</th><th>detectable %</th><th>verdict</th></tr>\n");
    for cell in cells {
        let value = cell.said();
        let overhead = cell
            .estimate
            .map(|found| format!("{:+.3}", percent(found.overhead)));
        let interval = cell
            .estimate
            .map(|found| format!("{:+.3} to {:+.3}", percent(found.low), percent(found.high)));
        let least = cell.detectable.map(|least| format!("{:.3}", percent(least)));
        let verdict = cell.verdict.map(|verdict| verdict.to_string());
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&cell.row),
            escape(&cell.column),
            escape(&value),
            overhead.unwrap_or_default(),
            interval.unwrap_or_default(),
            least.unwrap_or_default(),
            verdict.unwrap_or_default()
        );
    }
    text.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::bench::record::tests::summary;

    /// Every element ends where it must.
    fn is_balanced(text: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        for part in text.split('<').skip(1) {
            let tag = part.split('>').next().unwrap_or_default();
            let name = tag.split_whitespace().next().unwrap_or_default();
            if let Some(name) = name.strip_prefix('/') {
                if open.pop() != Some(name) {
                    return false;
                }
            } else if !tag.ends_with('/') && !tag.starts_with('!') {
                open.push(name);
            }
        }
        open.is_empty()
    }

    #[test]
    fn page_is_well_formed_and_needs_nothing_else() {
        let mut run = summary(0.02);
        run.cells[0].row = "a <b> & c".to_owned();
        let page = page(&run);
        assert!(is_balanced(&page), "{page}");
        for reference in ["<script", "<img", "<link", "url(", "href"] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(page.contains("a &lt;b&gt; &amp; c") && page.contains("tcg-icount"));
    }

    #[test]
    fn row_that_was_not_measured_says_why() {
        let mut run = summary(0.02);
        run.cells[1].value = None;
        run.cells[1].estimate = None;
        run.cells[1].reason = Some("custom kernel".to_owned());
        assert!(page(&run).contains("n/a (custom kernel)"));
    }
}

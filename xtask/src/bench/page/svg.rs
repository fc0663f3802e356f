//! Charts as SVG, drawn by hand: a forest plot, grouped bars, and lines over the number of rules.

use std::fmt::Write;

use crate::bench::{record::Cell, stats::percent};

/// Colours of columns that are told apart also by people who do not see all colours (Okabe and Ito).
const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#000000",
];
/// Room for the names of rows.
const NAMES: f64 = 330.0;
const PLOT: f64 = 560.0;
const LINE: f64 = 18.0;

/// A drawing that grows.
struct Svg {
    height: f64,
    body: String,
}

impl Svg {
    fn new() -> Self {
        Self {
            height: 0.0,
            body: String::new(),
        }
    }

    fn reach(&mut self, y: f64) {
        self.height = self.height.max(y);
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        self.reach(y + 6.0);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
            escape(text)
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        self.reach(from.1.max(to.1));
        let _ = writeln!(
            self.body,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        self.reach(y + height);
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"/>"#
        );
    }

    fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        let _ = writeln!(
            self.body,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{colour}"/>"#
        );
    }

    fn finish(self, title: &str) -> String {
        let (width, height) = (NAMES + PLOT + 40.0, self.height + 12.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\" role=\"img\"><title>{}</title>\n{}</svg>\n",
            escape(title),
            self.body
        )
    }
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// From values to places, with the values that the axis names.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((0.0_f64, 0.1_f64), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let room = (high - low) * 0.05;
        Self {
            low: low - room,
            high: high + room,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value - self.low) / (self.high - self.low);
        part.clamp(0.0, 1.0)
    }

    /// Round numbers, a handful of them.
    fn marks(&self) -> Vec<f64> {
        let wanted = (self.high - self.low) / 6.0;
        let power = 10_f64.powf(wanted.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| *step >= wanted).unwrap_or(power);
        let mut marks = Vec::new();
        let mut mark = (self.low / step).ceil() * step;
        while mark <= self.high {
            marks.push(round(mark));
            mark += step;
        }
        marks
    }
}

/// One line per cell: its overhead, its interval, and in grey what could not be told from nothing.
pub(super) fn forest(cells: &[&Cell], margin: f64) -> String {
    let found: Vec<_> = cells
        .iter()
        .filter_map(|cell| Some((cell, cell.estimate?)))
        .collect();
    let ends = found
        .iter()
        .flat_map(|(_, found)| [percent(found.low), percent(found.high)]);
    let axis = Axis::around(ends.chain([-100.0 * margin, 100.0 * margin]));
    let x = |value: f64| NAMES + PLOT * axis.place(value);
    let bottom = 24.0 + LINE * f64::from(u32::try_from(found.len()).unwrap_or(u32::MAX));
    let mut svg = Svg::new();
    let (left, right) = (x(-100.0 * margin), x(100.0 * margin));
    svg.rectangle((left, 20.0), (right - left, bottom - 20.0), "#eef3ee");
    for mark in axis.marks() {
        svg.line((x(mark), 20.0), (x(mark), bottom), "#dddddd");
        svg.text(
            x(mark),
            14.0,
            "middle",
            &format!("{}{} %", if mark > 0.0 { "+" } else { "" }, round(mark)),
        );
    }
    svg.line((x(0.0), 20.0), (x(0.0), bottom), "#555555");
    let mut y = 24.0 + LINE / 2.0;
    for (cell, estimate) in found {
        svg.text(
            NAMES - 8.0,
            y + 4.0,
            "end",
            &format!("{} · {}", cell.row, cell.column),
        );
        if let Some(least) = cell.detectable {
            let (left, right) = (x(-percent(least)), x(percent(least)));
            svg.rectangle((left, y - 5.0), (right - left, 10.0), "#d8d8d8");
        }
        let colour = match cell.verdict.map(crate::bench::stats::Verdict::word) {
            Some("slower") => "#d55e00",
            Some("faster") => "#009e73",
            _ => "#0072b2",
        };
        svg.line(
            (x(percent(estimate.low)), y),
            (x(percent(estimate.high)), y),
            colour,
        );
        svg.dot((x(percent(estimate.overhead)), y), colour);
        y += LINE;
    }
    svg.finish("overhead of each cell with its interval")
}

/// A mark without the noise of its last digits.
fn round(mark: f64) -> f64 {
    (mark * 1000.0).round() / 1000.0 + 0.0
}

/// A group per row and a bar per column: the overhead.
pub(super) fn bars(rows: &[&str], columns: &[&str], cells: &[&Cell]) -> String {
    let overhead = |row: &str, column: &str| {
        let cell = cells
            .iter()
            .find(|cell| cell.row == row && cell.column == column)?;
        Some(percent(cell.estimate?.overhead))
    };
    let all = rows
        .iter()
        .flat_map(|row| columns.iter().filter_map(|column| overhead(row, column)));
    let axis = Axis::around(all);
    let x = |value: f64| NAMES + PLOT * axis.place(value);
    let mut svg = Svg::new();
    let mut y = 20.0;
    for (number, column) in columns.iter().enumerate() {
        svg.rectangle((NAMES, y - 9.0), (10.0, 10.0), COLOURS[number % COLOURS.len()]);
        svg.text(NAMES + 16.0, y, "start", column);
        y += 14.0;
    }
    y += 16.0;
    let top = y;
    for row in rows {
        svg.text(NAMES - 8.0, y + 10.0, "end", row);
        for (number, column) in columns.iter().enumerate() {
            if let Some(overhead) = overhead(row, column) {
                let (from, to) = (x(overhead.min(0.0)), x(overhead.max(0.0)));
                svg.rectangle(
                    (from, y),
                    ((to - from).max(0.8), 6.0),
                    COLOURS[number % COLOURS.len()],
                );
            }
            y += 7.0;
        }
        y += 8.0;
    }
    for mark in axis.marks() {
        svg.line((x(mark), top), (x(mark), y), "#dddddd");
        svg.text(x(mark), top - 6.0, "middle", &format!("{} %", round(mark)));
    }
    svg.finish("overhead of each row under each system")
}

/// A line per row: the overhead over the number of rules, each step of which is as wide as the others.
pub(super) fn rules(rows: &[&str], cells: &[&Cell]) -> Option<String> {
    let number = |cell: &Cell| cell.system.strip_prefix("protected-")?.parse::<u32>().ok();
    let mut steps: Vec<u32> = cells.iter().filter_map(|cell| number(cell)).collect();
    steps.sort_unstable();
    steps.dedup();
    if steps.len() < 2 {
        return None;
    }
    let points: Vec<_> = cells
        .iter()
        .filter_map(|cell| Some((cell.row.as_str(), number(cell)?, percent(cell.estimate?.overhead))))
        .collect();
    let axis = Axis::around(points.iter().map(|point| point.2));
    let bottom = 300.0;
    let y = |value: f64| bottom - 270.0 * axis.place(value);
    let width = PLOT / f64::from(u32::try_from(steps.len()).unwrap_or(1));
    let x = |rules: u32| {
        let place = steps.iter().position(|step| *step == rules).unwrap_or_default();
        NAMES + width * (f64::from(u32::try_from(place).unwrap_or_default()) + 0.5)
    };
    let mut svg = Svg::new();
    for mark in axis.marks() {
        svg.line((NAMES, y(mark)), (NAMES + PLOT, y(mark)), "#dddddd");
        svg.text(NAMES - 6.0, y(mark) + 4.0, "end", &format!("{} %", round(mark)));
    }
    for step in &steps {
        svg.text(x(*step), bottom + 16.0, "middle", &format!("{step} rules"));
    }
    for (index, row) in rows.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let line: Vec<(f64, f64)> = steps
            .iter()
            .filter_map(|step| {
                let point = points.iter().find(|point| point.0 == *row && point.1 == *step)?;
                Some((x(*step), y(point.2)))
            })
            .collect();
        for pair in line.windows(2) {
            svg.line(pair[0], pair[1], colour);
        }
        for point in &line {
            svg.dot(*point, colour);
        }
        let key = 20.0 + 14.0 * f64::from(u32::try_from(index).unwrap_or_default());
        svg.rectangle((4.0, key - 9.0), (10.0, 10.0), colour);
        svg.text(20.0, key, "start", row);
    }
    Some(svg.finish("overhead against the number of rules"))
}

#[cfg(test)]
mod tests {
    use super::{Axis, bars, escape, forest, rules};
    use crate::bench::record::{Cell, tests::summary};

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }

    #[test]
    fn axis_names_a_handful_of_round_numbers() {
        let axis = Axis::around([-0.3, 2.7].into_iter());
        let marks: Vec<String> = axis.marks().iter().map(|mark| format!("{mark:.1}")).collect();
        assert_eq!(marks, ["0.0", "1.0", "2.0"]);
        assert!(axis.place(-9.0).abs() < 1e-9);
    }

    #[test]
    fn charts_have_a_mark_per_cell() {
        let (few, mut many) = (summary(0.01), summary(0.02));
        let mut cells: Vec<&Cell> = few.cells.iter().collect();
        assert_eq!(forest(&cells, 0.002).matches("<circle").count(), 1);
        // Two keys for two columns, and the bar of the one that has an overhead.
        let chart = bars(&["Execl Throughput"], &["8 rules", "Not installed"], &cells);
        assert_eq!(chart.matches("<rect").count(), 3);
        assert_eq!(rules(&["Execl Throughput"], &cells), None);
        for cell in &mut many.cells {
            cell.system = cell.system.replace("-8", "-50");
        }
        cells.extend(&many.cells);
        let chart = rules(&["Execl Throughput"], &cells).unwrap();
        assert_eq!(chart.matches("<circle").count(), 2);
    }
}

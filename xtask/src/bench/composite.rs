//! `bench composite`, and the file that it reads: results as the Phoronix Test Suite keeps them (`composite.xml`).
//!
//! Runs of seed-pts leave one beside their tables, so that whoever has the suite can look at them with its own
//! commands. Elements and their order are those of its `result-file.xsd`; facts, no code, come from there.

use std::{fmt::Write, fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail, ensure};
use roxmltree::{Document, Node};

#[derive(clap::Args)]
pub(super) struct Args {
    /// A `composite.xml`, of a run of seed-pts or of the Phoronix Test Suite
    file: PathBuf,
}

/// A result file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Composite {
    pub(super) title: String,
    /// What has measured.
    pub(super) client: String,
    pub(super) description: String,
    pub(super) systems: Vec<System>,
    pub(super) tests: Vec<Test>,
}

/// A row of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct System {
    pub(super) name: String,
    pub(super) hardware: String,
    pub(super) software: String,
    pub(super) notes: String,
    /// As `2024-01-31 23:59:59`.
    pub(super) time: String,
}

/// A test with fixed options.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Test {
    /// As `pts/redis-1.4.0`; empty for what is no profile of the suite.
    pub(super) profile: String,
    pub(super) title: String,
    pub(super) version: String,
    pub(super) arguments: String,
    /// The options, for people.
    pub(super) description: String,
    /// The unit of the values.
    pub(super) scale: String,
    pub(super) better: Better,
    pub(super) entries: Vec<Entry>,
}

/// Which values are good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Higher,
    Lower,
}

/// A test on a system.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) system: String,
    /// The mean of the runs; `None` if there is no number.
    pub(super) value: Option<f64>,
    pub(super) runs: Vec<f64>,
}

pub(super) fn command(args: &Args) -> Result<ExitCode> {
    let name = args.file.display();
    let text = fs::read_to_string(&args.file).with_context(|| format!("read {name}"))?;
    let composite = Composite::read(&text).with_context(|| format!("understand {name}"))?;
    print!("{}", composite.markdown());
    Ok(ExitCode::SUCCESS)
}

impl Better {
    const fn name(self) -> &'static str {
        match self {
            Self::Higher => "HIB",
            Self::Lower => "LIB",
        }
    }
}

impl Entry {
    pub(super) fn of(system: &str, runs: Vec<f64>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "nobody runs a test 2^52 times")]
        let count = runs.len() as f64;
        Self {
            system: system.to_owned(),
            value: (!runs.is_empty()).then(|| runs.iter().sum::<f64>() / count),
            runs,
        }
    }

    fn read(node: Node<'_, '_>) -> Result<Self> {
        let system = text_of(node, "Identifier");
        let number = |text: &str| -> Result<f64> {
            text.trim()
                .parse()
                .with_context(|| format!("Entry `{system}`: `{text}` is no number"))
        };
        // A test that failed has an entry without a value.
        let value = Some(text_of(node, "Value")).filter(|text| !text.trim().is_empty());
        let runs = text_of(node, "RawString");
        Ok(Self {
            value: value.as_deref().map(number).transpose()?,
            runs: runs
                .split(':')
                .filter(|run| !run.trim().is_empty())
                .map(number)
                .collect::<Result<_>>()?,
            system,
        })
    }
}

impl Composite {
    pub(super) fn write(&self) -> String {
        let mut xml = Xml::default();
        xml.element("PhoronixTestSuite", |xml| {
            xml.element("Generated", |xml| {
                xml.text("Title", &self.title);
                xml.text(
                    "LastModified",
                    self.systems.first().map_or("", |system| &system.time),
                );
                xml.text("TestClient", &self.client);
                xml.text("Description", &self.description);
            });
            for system in &self.systems {
                xml.element("System", |xml| {
                    xml.text("Identifier", &system.name);
                    xml.text("Hardware", &system.hardware);
                    xml.text("Software", &system.software);
                    xml.text("User", "root");
                    xml.text("TimeStamp", &system.time);
                    xml.text("TestClientVersion", &self.client);
                    xml.text("Notes", &system.notes);
                });
            }
            for test in &self.tests {
                xml.element("Result", |xml| test.write(xml));
            }
        });
        format!("<?xml version=\"1.0\"?>\n{}", xml.0)
    }

    pub(super) fn read(text: &str) -> Result<Self> {
        let document = Document::parse(text).context("no XML")?;
        let root = document.root_element();
        let name = root.tag_name().name();
        ensure!(
            name == "PhoronixTestSuite",
            "the root is `{name}`, not `PhoronixTestSuite`; a result file is called composite.xml"
        );
        let generated = child(root, "Generated")?;
        let systems = children(root, "System").map(|node| System {
            name: text_of(node, "Identifier"),
            hardware: text_of(node, "Hardware"),
            software: text_of(node, "Software"),
            notes: text_of(node, "Notes"),
            time: text_of(node, "TimeStamp"),
        });
        Ok(Self {
            title: text_of(generated, "Title"),
            client: text_of(generated, "TestClient"),
            description: text_of(generated, "Description"),
            systems: systems.collect(),
            tests: children(root, "Result").map(Test::read).collect::<Result<_>>()?,
        })
    }

    /// A table for each test: its value on every system, and how much worse that is than on the first one.
    fn markdown(&self) -> String {
        let mut text = format!(
            "# {}\n\n{}\n\nMeasured by {}.\n",
            self.title, self.description, self.client
        );
        for test in &self.tests {
            let better = match test.better {
                Better::Higher => "higher",
                Better::Lower => "lower",
            };
            let _ = write!(
                text,
                "\n## {}: {}\n\n{} - {better} is better\n\n| | value | runs | loss against {} |\n|---|---:|---:|---:|\n",
                test.title,
                test.description,
                test.scale,
                test.entries.first().map_or("nothing", |entry| &entry.system)
            );
            for entry in &test.entries {
                let value = entry.value.map_or_else(
                    || "n/a (no number in the file)".to_owned(),
                    |value| format!("{value:.2}"),
                );
                let loss = test
                    .loss(entry)
                    .map_or_else(String::new, |loss| format!("{:.2} %", loss * 100.0));
                let _ = writeln!(
                    text,
                    "| {} | {value} | {} | {loss} |",
                    entry.system,
                    entry.runs.len()
                );
            }
        }
        text
    }
}

impl Test {
    /// As a share of the first system's value.
    fn loss(&self, entry: &Entry) -> Option<f64> {
        let first = self.entries.first()?.value?;
        let ratio = entry.value? / first;
        Some(match self.better {
            Better::Higher => 1.0 - ratio,
            Better::Lower => ratio - 1.0,
        })
    }

    fn write(&self, xml: &mut Xml) {
        xml.text("Identifier", &self.profile);
        xml.text("Title", &self.title);
        xml.text("AppVersion", &self.version);
        xml.text("Arguments", &self.arguments);
        xml.text("Description", &self.description);
        xml.text("Scale", &self.scale);
        xml.text("Proportion", self.better.name());
        xml.text("DisplayFormat", "BAR_GRAPH");
        xml.element("Data", |xml| {
            for entry in &self.entries {
                xml.element("Entry", |xml| {
                    let runs: Vec<String> = entry.runs.iter().map(ToString::to_string).collect();
                    xml.text("Identifier", &entry.system);
                    xml.text(
                        "Value",
                        &entry.value.map(|value| value.to_string()).unwrap_or_default(),
                    );
                    xml.text("RawString", &runs.join(":"));
                });
            }
        });
    }

    fn read(node: Node<'_, '_>) -> Result<Self> {
        let title = text_of(node, "Title");
        let better = match text_of(node, "Proportion").as_str() {
            "HIB" | "" => Better::Higher,
            "LIB" => Better::Lower,
            other => bail!("Result `{title}`: the Proportion is `{other}`, neither HIB nor LIB"),
        };
        let entries = children(child(node, "Data")?, "Entry").map(Entry::read);
        let entries = entries
            .collect::<Result<_>>()
            .with_context(|| format!("Result `{title}`"))?;
        Ok(Self {
            profile: text_of(node, "Identifier"),
            version: text_of(node, "AppVersion"),
            arguments: text_of(node, "Arguments"),
            description: text_of(node, "Description"),
            scale: text_of(node, "Scale"),
            title,
            better,
            entries,
        })
    }
}

fn children<'a, 'input: 'a>(node: Node<'a, 'input>, name: &'a str) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

fn child<'a, 'input: 'a>(node: Node<'a, 'input>, name: &'a str) -> Result<Node<'a, 'input>> {
    let parent = node.tag_name().name().to_owned();
    children(node, name)
        .next()
        .with_context(|| format!("`{parent}` has no `{name}`"))
}

/// Empty if there is none: newer versions of the suite leave out what has nothing to say.
fn text_of(node: Node<'_, '_>, name: &str) -> String {
    children(node, name)
        .next()
        .and_then(|child| child.text())
        .unwrap_or_default()
        .to_owned()
}

/// A document with an element per line.
#[derive(Default)]
struct Xml(String, usize);

impl Xml {
    fn indent(&mut self) {
        self.0.extend(std::iter::repeat_n("  ", self.1));
    }

    fn element(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.indent();
        let _ = writeln!(self.0, "<{name}>");
        self.1 += 1;
        content(self);
        self.1 -= 1;
        self.indent();
        let _ = writeln!(self.0, "</{name}>");
    }

    fn text(&mut self, name: &str, text: &str) {
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        self.indent();
        let _ = writeln!(self.0, "<{name}>{text}</{name}>");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{Better, Composite, Entry, System, Test};

    fn system(name: &str) -> System {
        System {
            name: name.to_owned(),
            hardware: "Processor: 1 x <emulated> & counted".to_owned(),
            software: "OS: Debian".to_owned(),
            notes: String::new(),
            time: "2026-01-31 23:59:59".to_owned(),
        }
    }

    fn composite() -> Composite {
        Composite {
            title: "seed-pts".to_owned(),
            client: "varmor bench".to_owned(),
            description: "Programs".to_owned(),
            systems: vec![system("NoProtect"), system("Enhance BPF")],
            tests: vec![Test {
                profile: String::new(),
                title: "Redis".to_owned(),
                version: "7.0.15".to_owned(),
                arguments: "-c 50".to_owned(),
                description: "GET".to_owned(),
                scale: "Requests Per Second".to_owned(),
                better: Better::Higher,
                entries: vec![
                    Entry::of("NoProtect", vec![200.0, 400.0]),
                    Entry::of("Enhance BPF", vec![297.0]),
                    Entry::of("Seccomp", Vec::new()),
                ],
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let composite = composite();
        assert_eq!(Composite::read(&composite.write()).unwrap(), composite);
    }

    /// The sequences of `result-file.xsd`, which are ordered; only those marked there may be missing.
    #[test]
    fn elements_stand_in_the_order_of_the_schema() {
        let text = composite().write();
        let document = roxmltree::Document::parse(&text).unwrap();
        let names = |path: &[&str]| -> Vec<String> {
            let mut node = document.root_element();
            for name in path {
                node = node.children().find(|child| child.has_tag_name(*name)).unwrap();
            }
            node.children()
                .filter(roxmltree::Node::is_element)
                .map(|child| child.tag_name().name().to_owned())
                .collect()
        };
        assert_eq!(names(&[]), ["Generated", "System", "System", "Result"]);
        assert_eq!(
            names(&["Generated"]),
            ["Title", "LastModified", "TestClient", "Description"]
        );
        assert_eq!(
            names(&["System"]),
            [
                "Identifier",
                "Hardware",
                "Software",
                "User",
                "TimeStamp",
                "TestClientVersion",
                "Notes"
            ]
        );
        assert_eq!(
            names(&["Result"]),
            [
                "Identifier",
                "Title",
                "AppVersion",
                "Arguments",
                "Description",
                "Scale",
                "Proportion",
                "DisplayFormat",
                "Data"
            ]
        );
        assert_eq!(
            names(&["Result", "Data", "Entry"]),
            ["Identifier", "Value", "RawString"]
        );
    }

    #[test]
    fn loss_is_against_the_first_system_and_in_the_direction_of_the_test() {
        let table = composite().markdown();
        assert!(table.contains("| Enhance BPF | 297.00 | 1 | 1.00 % |"), "{table}");
        assert!(
            table.contains("| Seccomp | n/a (no number in the file) | 0 |  |"),
            "{table}"
        );
        let mut lower = composite();
        lower.tests[0].better = Better::Lower;
        let table = lower.markdown();
        assert!(table.contains("| 297.00 | 1 | -1.00 % |"), "{table}");
    }

    #[test]
    fn what_is_no_result_file_is_refused_with_its_place() {
        let fails = |text: &str| format!("{:#}", Composite::read(text).unwrap_err());
        assert!(fails("{}").contains("no XML"));
        assert!(fails("<html/>").contains("composite.xml"));
        assert!(fails("<PhoronixTestSuite/>").contains("has no `Generated`"));
        let text = composite().write();
        assert!(
            fails(&text.replace(">297<", ">many<")).contains("Result `Redis`: Entry `Enhance BPF`: `many`")
        );
        assert!(fails(&text.replace("HIB", "SIDEWAYS")).contains("SIDEWAYS"));
    }

    /// Four results of a file that the suite has written (v10.8.4, in 2025; public in the repository ManuelJBrito/Phoronix-results at
    /// 9dc2c6e3, `old/test-results-GVNO3/resultname/composite.xml`): among them two that no profile has, and a system with two values.
    const RECORDED: &str = include_str!("composite/recorded.xml");

    #[test]
    fn file_that_the_suite_has_written_is_read() {
        let composite = Composite::read(RECORDED).unwrap();
        assert_eq!(composite.client, "Phoronix Test Suite v10.8.4");
        assert_eq!(composite.systems.len(), 1);
        assert_eq!(composite.systems[0].time, "2025-02-06 13:09:25");
        let scales: Vec<&str> = composite.tests.iter().map(|test| test.scale.as_str()).collect();
        assert_eq!(scales, ["Mflops", "Seconds", "Bytes", "Mflops"]);
        assert_eq!(composite.tests[1].profile, "");
        assert_eq!(composite.tests[2].entries.len(), 2);
        let last = &composite.tests[3].entries[0];
        assert_eq!(last.runs, [3816.7, 3644.5, 3828.5, 3828.8]);
        // The suite rounds its mean.
        let own = Entry::of("GVNO3", last.runs.clone());
        assert!((own.value.unwrap() - last.value.unwrap()).abs() < 0.05);
        let table = composite.markdown();
        assert!(table.contains("| GVNO3 | 3779.60 | 4 |"), "{table}");
    }

    #[test]
    fn recorded_file_is_written_with_its_numbers() {
        let composite = Composite::read(RECORDED).unwrap();
        let again = Composite::read(&composite.write()).unwrap();
        assert_eq!(again.tests, composite.tests);
        assert_eq!(again.systems, composite.systems);
    }

    /// Versions from 10 on add elements to the schema's, and a JSON to each entry.
    #[test]
    fn elements_that_are_not_in_the_schema_are_passed_over() {
        let text = composite()
            .write()
            .replace("</Entry>", "<JSON>{\"test-run-times\":\"1:2\"}</JSON></Entry>")
            .replace("</System>", "<JSON>{}</JSON></System>");
        assert_eq!(Composite::read(&text).unwrap(), composite());
    }
}

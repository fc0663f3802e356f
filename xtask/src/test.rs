//! `test`: all suites, each part with its counts, one closing line.

mod lanes;

use std::{
    collections::BTreeSet,
    fmt, fs,
    io::Write as _,
    ops::AddAssign,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Deserialize;

use crate::{
    bpf,
    build::{self, Profile},
    cluster, demo, image,
    kernel::Series,
    process::{self, Run},
    progress, tools,
    vm::{Guest, Share},
    workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these suites [default: all but agent, agree, life, model and rules, which take long; they are named and counted as
    /// skipped]
    #[arg(long)]
    suite: Vec<Suite>,
    /// Only these kernels for the guest suite [default: all]
    #[arg(long)]
    kernel: Vec<Series>,
    /// The suites life and agent in their full size: 10,000 updates, 1,000 containers and starts (hours without KVM)
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Suite {
    /// Tests of every package on this machine, without those of the matcher
    Unit,
    /// Properties of the matcher: kernel code, compiled automaton and naive reference agree
    Matcher,
    /// The programs in guests with each kernel of the matrix
    Guest,
    /// Every built-in rule that `AppArmor` holds, in guests [default: 6.1 and 6.12]
    #[value(name = "apparmor")]
    AppArmor,
    /// `explain`, `simulate` and `diff` against the kernel on generated operations, in guests [default: 6.12]
    Agree,
    /// Every built-in rule on each enforcer that holds it, in containers [default: 6.1]
    Rules,
    /// A service is recorded and held to what was learned of it, in a guest [default: 6.12]
    Model,
    /// Instructions of an open under few and many rules, counted in a guest
    Cost,
    /// Updates under fire, many containers, killed and foreign enforcers, in guests with each kernel of the matrix
    Life,
    /// A real container under a real agent that is killed and whose policies change; a kernel without BPF LSM
    Survive,
    /// Everything about the agent: survive, and the agent as a service: starts under load, starved, upgraded, flooded, with many
    /// containers, Docker, odd metadata
    Agent,
    /// The demo: real containers, with and without a policy
    Demo,
    /// The controller at a real kube-apiserver with etcd, which is built first
    #[value(name = "apiserver")]
    ApiServer,
    /// A real Kubernetes with the chart: every kind of workload, enforcer and change
    Cluster,
}

/// How many cases ended how.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// Something could not run at all.
    fn failure(name: &str, error: &anyhow::Error) -> Self {
        println!("FAILED: {name}: {error:#}");
        Self {
            failed: 1,
            ..Self::default()
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

pub(crate) fn command(args: &Args) -> ExitCode {
    let mut total = Counts::default();
    let chosen: BTreeSet<Suite> = if args.suite.is_empty() {
        let (chosen, left_out): (BTreeSet<Suite>, BTreeSet<Suite>) = Suite::value_variants()
            .iter()
            .partition(|suite| suite.is_for_all());
        for suite in &left_out {
            let name = suite.name();
            println!("skipped: {name}: takes too long for a run of all; cargo xtask test --suite {name}");
            total.skipped += 1;
        }
        chosen
    } else {
        args.suite.iter().copied().collect()
    };
    // What is compiled first serves all that follows; what needs the whole machine comes last.
    let (alone, together): (Vec<Suite>, Vec<Suite>) =
        chosen.iter().partition(|suite| !lanes::SUITES.contains(suite));
    let (first, last): (Vec<Suite>, Vec<Suite>) = alone.into_iter().partition(|suite| suite.compiles());
    for suite in first {
        total += run(suite, || suite.alone(&args.kernel));
    }
    total += lanes::run(&together, &args.kernel, args.full);
    for suite in last {
        total += run(suite, || suite.alone(&args.kernel));
    }
    println!("{total}");
    if total.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

impl Suite {
    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// Whether it is part of a run that names no suites.
    fn is_for_all(self) -> bool {
        match self {
            Self::Unit
            | Self::Matcher
            | Self::Guest
            | Self::AppArmor
            | Self::Cost
            | Self::Survive
            | Self::Demo
            | Self::ApiServer
            | Self::Cluster => true,
            Self::Agree | Self::Rules | Self::Model | Self::Life | Self::Agent => false,
        }
    }

    fn compiles(self) -> bool {
        matches!(self, Self::Unit | Self::Matcher)
    }

    /// Runs a suite that has the machine for itself.
    fn alone(self, kernels: &[Series]) -> Result<Counts> {
        match self {
            Self::Unit => unit(),
            Self::Matcher => matcher(),
            Self::Rules if kernels.is_empty() => rules(&[Series::V6_1]),
            Self::Rules => rules(kernels),
            Self::Demo
            | Self::Guest
            | Self::AppArmor
            | Self::Agree
            | Self::Model
            | Self::Cost
            | Self::Life
            | Self::Survive
            | Self::Agent
            | Self::ApiServer
            | Self::Cluster => bail!("this suite is run beside others"),
        }
    }
}

/// Runs a suite and prints its counts. One that cannot run is a failure, and the others still run.
fn run(suite: Suite, body: impl FnOnce() -> Result<Counts>) -> Counts {
    let start = Instant::now();
    let name = suite.name();
    eprintln!("[test: {name}]");
    let counts = body().unwrap_or_else(|error| Counts::failure(&name, &error));
    println!("{name}: {counts} in {}", progress::seconds(start.elapsed()));
    counts
}

/// What the suite `matcher` runs, by parts of the tests' names.
const OF_THE_MATCHER: [&str; 2] = ["matcher", "differential"];

fn unit() -> Result<Counts> {
    tools::need(tools::PROGRAMS)?;
    progress::timed("eBPF objects", bpf::build)?;
    let others = OF_THE_MATCHER.iter().flat_map(|name| ["--skip", name]);
    cargo_test("test-unit", build::test("test-unit")?.arg("--").args(others))
}

/// A hundred thousand generated cases.
fn matcher() -> Result<Counts> {
    tools::need(tools::PROGRAMS)?;
    progress::timed("eBPF objects", bpf::build)?;
    cargo_test(
        "test-matcher",
        build::test("test-matcher")?.arg("--").args(OF_THE_MATCHER),
    )
}

/// One test with many steps, which the suite `unit` leaves out; compiled with the tests of that suite.
fn api_server() -> Result<Counts> {
    let (kubernetes, etcd) = cluster::api_server()?;
    let run = build::test("test-apiserver")?
        .args(["--test", "apiserver", "--", "--ignored"])
        .env("VARMOR_KUBE_BIN", &kubernetes)
        .env("VARMOR_ETCD", &etcd);
    cargo_test("test-apiserver", run)
}

fn cargo_test(name: &str, run: Run) -> Result<Counts> {
    progress::timed(name, || {
        let file = run.log();
        let good = run.status()?;
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let mut counts = cargo_counts(&text);
        if !good && counts.failed == 0 {
            println!(
                "FAILED: the tests did not compile or a test program died; see {}",
                file.display()
            );
            counts.failed += 1;
        }
        Ok(counts)
    })
}

/// Sums the `test result:` lines.
fn cargo_counts(text: &str) -> Counts {
    let mut total = Counts::default();
    for line in text.lines().filter(|line| line.starts_with("test result:")) {
        let count = |word: &str| {
            let part = line
                .split([';', '.'])
                .map(str::trim)
                .find_map(|part| part.strip_suffix(word));
            part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        total += Counts {
            passed: count("passed"),
            failed: count("failed"),
            skipped: count("ignored"),
        };
    }
    total
}

/// A line that `varmor-guest suite` prints.
#[derive(Deserialize)]
struct Line {
    suite: String,
    case: String,
    outcome: String,
    #[serde(default)]
    detail: String,
}

/// What a guest needs to load `AppArmor` profiles.
pub(crate) fn parser() -> Result<Vec<Share>> {
    tools::need(tools::APPARMOR)?;
    // The parser and what it is linked with; it is the only program of the guest that is not static.
    let parser = ["/usr/sbin/apparmor_parser", "/sbin/apparmor_parser"]
        .into_iter()
        .find(|path| Path::new(path).is_file())
        .context("apparmor_parser is in no usual place")?;
    let mut shares = vec![Share::new(parser, "/usr/sbin/apparmor_parser")];
    let linked = process::output("ldd", [parser])?;
    for library in linked.split_whitespace().filter(|word| word.starts_with('/')) {
        let file = fs::canonicalize(library).with_context(|| format!("find {library}"))?;
        shares.push(Share::new(file, library));
    }
    Ok(shares)
}

fn rules(kernels: &[Series]) -> Result<Counts> {
    tools::need(tools::CONTAINER_GUEST)?;
    let built = build::build(Profile::Lab)?;
    let folder = workspace::target().join("rules");
    workspace::make_dir(&folder)?;
    let archive = folder.join("image.tar");
    image::write(&archive, &built.program("varmor-guest"))?;
    let mut counts = Counts::default();
    for series in kernels {
        let mut guest = Guest::new(*series, ["/usr/local/bin/varmor-guest", "rules"]);
        guest.rootfs = true;
        guest.memory = 3072;
        guest.timeout = Duration::from_hours(1);
        guest.shares = ["varmor-guest", "varmor-agent", "varmor"]
            .map(|name| Share::new(built.program(name), format!("/usr/local/bin/{name}")))
            .to_vec();
        guest.shares.push(Share::new(&archive, "/rules/image.tar"));
        counts += progress::timed(&format!("guest {series} with containers"), || guest_suite(&guest))?;
    }
    Ok(counts)
}

fn guest_suite(guest: &Guest) -> Result<Counts> {
    let mut output = Vec::new();
    // What a guest runs tells it from those that run beside it.
    let words = guest
        .command
        .iter()
        .filter(|word| !word.contains(['/', '-', ' ']));
    let name: Vec<&str> = words.map(String::as_str).collect();
    let log = workspace::log_file(&format!("guest-{}-{}", guest.kernel, name.join("-")));
    // As it comes: some guests run for an hour.
    let mut kept = fs::File::create(&log).with_context(|| format!("create {}", log.display()))?;
    let mut lost = Ok(());
    let outcome = guest.run(&mut |bytes| {
        output.extend_from_slice(bytes);
        if lost.is_ok() {
            lost = kept.write_all(bytes);
        }
    })?;
    lost.with_context(|| format!("write {}", log.display()))?;
    let text = String::from_utf8_lossy(&output);
    let mut counts = guest_counts(&text, guest.kernel.name());
    if counts == Counts::default() || (outcome.code != 0 && counts.failed == 0) {
        println!(
            "FAILED: guest {}: the suites ended with exit code {}; they printed:\n{text}",
            guest.kernel, outcome.code
        );
        counts.failed += 1;
    }
    Ok(counts)
}

fn guest_counts(text: &str, place: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines() {
        let Ok(Line {
            suite,
            case,
            outcome,
            detail,
        }) = serde_json::from_str(line)
        else {
            continue;
        };
        match outcome.as_str() {
            "passed" => {
                counts.passed += 1;
                if !detail.is_empty() {
                    println!("{place} {suite}::{case}: {detail}");
                }
            }
            "skipped" => {
                counts.skipped += 1;
                println!("skipped: {place} {suite}::{case}: {detail}");
            }
            _ => {
                counts.failed += 1;
                println!("FAILED: {place} {suite}::{case}: {detail}");
            }
        }
    }
    counts
}

fn cluster_suite() -> Result<Counts> {
    let cluster::Ended { passed, failed } = cluster::suite()?;
    Ok(Counts {
        passed,
        failed,
        skipped: 0,
    })
}

fn demo_suite() -> Result<Counts> {
    let result = demo::run(Series::V6_1, Profile::Lab)?;
    let mut counts = Counts::default();
    for (name, good) in &result.attempts {
        if *good {
            counts.passed += 1;
        } else {
            counts.failed += 1;
            println!("FAILED: demo::{name}");
        }
    }
    if !result.good && counts.failed == 0 {
        bail!("the demo failed although each operation went as it should");
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::{Counts, cargo_counts, guest_counts};

    #[test]
    fn result_lines_of_cargo_are_summed() {
        let text = "test a ... ok\ntest result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
                    test result: FAILED. 2 passed; 5 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n";
        assert_eq!(
            cargo_counts(text),
            Counts {
                passed: 14,
                failed: 5,
                skipped: 1
            }
        );
    }

    #[test]
    fn lines_of_guests_are_counted_and_other_output_is_not() {
        let text = "noise\n{\"suite\":\"s\",\"case\":\"a\",\"outcome\":\"passed\",\"ms\":1}\n\
                    {\"suite\":\"s\",\"case\":\"b\",\"outcome\":\"failed\",\"detail\":\"x\",\"ms\":1}\n\
                    {\"suite\":\"s\",\"case\":\"c\",\"outcome\":\"skipped\",\"detail\":\"y\",\"ms\":1}\n{\"other\":1}\n";
        assert_eq!(
            guest_counts(text, "6.1"),
            Counts {
                passed: 1,
                failed: 1,
                skipped: 1
            }
        );
    }
}

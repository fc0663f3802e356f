//! `test`: all suites, each part with its counts, one closing line.

use std::{
    collections::BTreeSet,
    fs,
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
    nginx, process, progress, tools,
    vm::{Guest, Share},
    workspace,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these suites [default: all but agree, apiserver, cluster, life, model, node and rules, which take long]
    #[arg(long)]
    suite: Vec<Suite>,
    /// Only these kernels for the guest suite [default: all]
    #[arg(long)]
    kernel: Vec<Series>,
    /// The suites life and node in their full size: 10,000 updates, 1,000 containers and starts (hours without KVM)
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
    Agent,
    /// The agent as a service: starts under load, starved, upgraded, flooded, with many containers, Docker, odd metadata
    Node,
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

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

pub(crate) fn command(args: &Args) -> ExitCode {
    let chosen: BTreeSet<Suite> = if args.suite.is_empty() {
        let all = Suite::value_variants().iter().copied();
        all.filter(|suite| {
            !matches!(
                suite,
                Suite::Agree
                    | Suite::ApiServer
                    | Suite::Cluster
                    | Suite::Life
                    | Suite::Model
                    | Suite::Node
                    | Suite::Rules
            )
        })
        .collect()
    } else {
        args.suite.iter().copied().collect()
    };
    let kernels = if args.kernel.is_empty() {
        Series::ALL.to_vec()
    } else {
        args.kernel.clone()
    };
    let mut total = Counts::default();
    for (number, suite) in chosen.iter().enumerate() {
        let name = suite
            .to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default();
        let start = Instant::now();
        eprintln!("[test {}/{}: {name}]", number + 1, chosen.len());
        let counts = match suite {
            Suite::Unit => unit(),
            Suite::Matcher => matcher(),
            Suite::Guest => guests(&kernels),
            Suite::AppArmor if args.kernel.is_empty() => apparmor(&[Series::V6_1, Series::V6_12]),
            Suite::AppArmor => apparmor(&kernels),
            Suite::Agree if args.kernel.is_empty() => agree(&[Series::V6_12]),
            Suite::Agree => agree(&kernels),
            Suite::Rules if args.kernel.is_empty() => rules(&[Series::V6_1]),
            Suite::Rules => rules(&kernels),
            Suite::Model if args.kernel.is_empty() => model(&[Series::V6_12]),
            Suite::Model => model(&kernels),
            Suite::Cost => cost(),
            // Short of a request for others, one kernel: the programs' life depends little on it.
            Suite::Life if args.kernel.is_empty() => life(&[Series::V6_1], args.full),
            Suite::Life => life(&kernels, args.full),
            Suite::Agent => agent(),
            Suite::Node => node(args.full),
            Suite::Demo => demo_suite(),
            Suite::ApiServer => api_server(),
            Suite::Cluster => cluster_suite(),
        };
        // A suite that cannot run is a failure, and the others still run.
        let counts = counts.unwrap_or_else(|error| {
            println!("FAILED: {name}: {error:#}");
            Counts {
                failed: 1,
                ..Counts::default()
            }
        });
        let Counts {
            passed,
            failed,
            skipped,
        } = counts;
        println!(
            "{name}: {passed} passed, {failed} failed, {skipped} skipped in {}",
            progress::seconds(start.elapsed())
        );
        total += counts;
    }
    println!(
        "{} passed, {} failed, {} skipped",
        total.passed, total.failed, total.skipped
    );
    if total.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn unit() -> Result<Counts> {
    tools::need(tools::PROGRAMS)?;
    progress::timed("eBPF objects", bpf::build)?;
    let mut counts = cargo_test(
        "test-workspace",
        &["--workspace", "--exclude", "varmor-common"],
        &[],
        &[],
    )?;
    counts += cargo_test(
        "test-common",
        &["--package", "varmor-common"],
        &["--skip", "matcher", "--skip", "differential"],
        &[],
    )?;
    Ok(counts)
}

/// Optimised: a hundred thousand generated cases.
fn matcher() -> Result<Counts> {
    tools::need(tools::PROGRAMS)?;
    cargo_test(
        "test-matcher",
        &["--package", "varmor-common", "--release"],
        &["matcher", "differential"],
        &[],
    )
}

/// One test with many steps, which the suite `unit` leaves out.
fn api_server() -> Result<Counts> {
    tools::need(tools::PROGRAMS)?;
    let (kubernetes, etcd) = cluster::api_server()?;
    cargo_test(
        "test-apiserver",
        &["--package", "varmor-controller", "--test", "apiserver"],
        &["--ignored"],
        &[("VARMOR_KUBE_BIN", &kubernetes), ("VARMOR_ETCD", &etcd)],
    )
}

fn cargo_test(
    log: &str,
    selection: &[&str],
    names: &[&str],
    environment: &[(&str, &Path)],
) -> Result<Counts> {
    progress::timed(&format!("cargo test {}", selection.join(" ")), || {
        let run = build::cargo(log)
            .args(["test", "--no-fail-fast"])
            .args(selection)
            .arg("--")
            .args(names);
        let run = environment
            .iter()
            .fold(run, |run, (name, value)| run.env(name, value));
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

/// Both halves run whatever the first one says.
const SUITES: &str = "/varmor-guest suite; first=$?; /varmor-guest enforce; exit $((first | $?))";

fn guests(kernels: &[Series]) -> Result<Counts> {
    on_each(kernels, &["/bin/sh", "-c", SUITES], Duration::from_mins(25))
}

fn life(kernels: &[Series], full: bool) -> Result<Counts> {
    const SHORT: &[&str] = &["/varmor-guest", "life"];
    const FULL: &[&str] = &[
        "/varmor-guest",
        "life",
        "--updates",
        "10000",
        "--containers",
        "1000",
        "--profiles",
        "50",
    ];
    if full {
        on_each(kernels, FULL, Duration::from_mins(90))
    } else {
        on_each(kernels, SHORT, Duration::from_mins(20))
    }
}

fn apparmor(kernels: &[Series]) -> Result<Counts> {
    let command = ["/varmor-guest", "apparmor"];
    on_each_with(kernels, &command, Duration::from_mins(30), &parser()?)
}

fn model(kernels: &[Series]) -> Result<Counts> {
    let mut shares = nginx::shares()?;
    shares.extend(parser()?);
    let command = ["/varmor-guest", "model"];
    on_each_with(kernels, &command, Duration::from_mins(30), &shares)
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

fn agree(kernels: &[Series]) -> Result<Counts> {
    on_each(kernels, &["/varmor-guest", "agree"], Duration::from_hours(1))
}

fn rules(kernels: &[Series]) -> Result<Counts> {
    tools::need(tools::CONTAINER_GUEST)?;
    let built = build::build(Profile::Release)?;
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

/// Runs the command in a guest with each of the kernels.
fn on_each(kernels: &[Series], command: &[&str], timeout: Duration) -> Result<Counts> {
    on_each_with(kernels, command, timeout, &[])
}

/// The same, with more files in the guests.
fn on_each_with(kernels: &[Series], command: &[&str], timeout: Duration, more: &[Share]) -> Result<Counts> {
    tools::need(tools::GUEST)?;
    let built = build::build(Profile::Release)?;
    let run = |series: Series| {
        let mut guest = Guest::new(series, command.iter().copied());
        guest.timeout = timeout;
        guest.shares = ["varmor-guest", "varmor-intruder", "varmor-agent", "varmor"]
            .map(|name| Share::new(built.program(name), format!("/{name}")))
            .to_vec();
        guest.shares.push(Share::new(bpf::objects(), "/bpf"));
        guest.shares.extend_from_slice(more);
        progress::timed(&format!("guest {series}"), || guest_suite(&guest)).unwrap_or_else(|error| {
            println!("FAILED: {error:#}");
            Counts {
                failed: 1,
                ..Counts::default()
            }
        })
    };
    // An emulated guest of this kind keeps one processor busy: two of them run at a time.
    let mut total = Counts::default();
    for pair in kernels.chunks(2) {
        let counts = std::thread::scope(|scope| {
            let running: Vec<_> = pair.iter().map(|series| scope.spawn(|| run(*series))).collect();
            let ended = running.into_iter().map(|guest| {
                guest.join().unwrap_or(Counts {
                    failed: 1,
                    ..Counts::default()
                })
            });
            ended.collect::<Vec<_>>()
        });
        for counts in counts {
            total += counts;
        }
    }
    Ok(total)
}

fn guest_suite(guest: &Guest) -> Result<Counts> {
    let mut output = Vec::new();
    let outcome = guest.run(&mut |bytes| output.extend_from_slice(bytes))?;
    let text = String::from_utf8_lossy(&output);
    let log = format!(
        "guest-{}-{}",
        guest.kernel,
        guest
            .command
            .get(1)
            .map_or("", |word| word.trim_start_matches('-'))
    );
    fs::write(workspace::log_file(&log), &*text).context("keep the guest's output")?;
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

fn cost() -> Result<Counts> {
    tools::need(tools::GUEST)?;
    let built = build::build(Profile::Release)?;
    let mut guest = Guest::new(Series::V6_1, ["/varmor-guest", "cost"]);
    guest.icount = true;
    guest.smp = 1;
    guest.timeout = Duration::from_mins(25);
    guest.shares = ["varmor-guest", "varmor"]
        .map(|name| Share::new(built.program(name), format!("/{name}")))
        .to_vec();
    progress::timed("guest that counts instructions", || guest_suite(&guest))
}

fn node(full: bool) -> Result<Counts> {
    tools::need(tools::GUEST)?;
    tools::need(tools::CONTAINER_GUEST)?;
    let guest = demo::node_guest(Series::V6_1, full)?;
    progress::timed("guest with an agent as a service", || guest_suite(&guest))
}

fn agent() -> Result<Counts> {
    tools::need(tools::GUEST)?;
    tools::need(tools::CONTAINER_GUEST)?;
    let guest = demo::survive_guest(Series::V6_1)?;
    let mut counts = progress::timed("guest with containers", || guest_suite(&guest))?;
    let guest = demo::without_bpf_guest(Series::V6_1)?;
    counts += progress::timed("guest without BPF LSM", || guest_suite(&guest))?;
    Ok(counts)
}

fn cluster_suite() -> Result<Counts> {
    let (passed, failed) = cluster::suite()?;
    Ok(Counts {
        passed,
        failed,
        skipped: 0,
    })
}

fn demo_suite() -> Result<Counts> {
    let result = demo::run(Series::V6_1)?;
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

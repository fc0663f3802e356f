//! `cost`: instructions of an open under policies of different size. The guest's clock counts instructions
//! (`-icount shift=0`: 1 ns = 1 instruction), so the numbers are the same on every machine.

use std::{
    fmt::Write,
    fs::{self, File},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure and print the number (internal)
    #[arg(long)]
    measure: bool,
}

const PATH: &str = "/aa/bb/cc/dd/ee/ff/gg/hh/file.txt";
const ROUNDS: u32 = 400;
const BATCHES: u32 = 10;
/// The first seconds after boot cost up to three times more on some kernels.
const SETTLE: Duration = Duration::from_secs(20);
const FEW: usize = 10;
const MANY: usize = 2000;

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    if args.measure {
        println!("{}", measure()?);
        return Ok(ExitCode::SUCCESS);
    }
    fs::create_dir_all("/aa/bb/cc/dd/ee/ff/gg/hh")?;
    fs::write(PATH, "content")?;
    std::thread::sleep(SETTLE);
    let free = measure()?;
    let few = under(FEW)?;
    let many = under(MANY)?;
    let growth = many.abs_diff(few) * 100;
    let good = growth <= few * 10;
    println!(
        "{}",
        serde_json::json!({
            "suite": "cost",
            "case": format!("an open under {MANY} rules costs what it costs under {FEW}, within 10 %"),
            "outcome": if good { "passed" } else { "failed" },
            "detail": format!(
                "instructions of open+close, 9 components: no policy {free}, {FEW} rules {few}, {MANY} rules {many}"
            ),
        })
    );
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Instructions of one open and close: the best batch, because interrupts only ever add.
fn measure() -> Result<u64> {
    let mut best = u64::MAX;
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            drop(File::open(PATH).context("open the measured file")?);
        }
        let batch = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        best = best.min(batch / u64::from(ROUNDS));
    }
    Ok(best)
}

fn under(rules: usize) -> Result<u64> {
    let file = format!("/tmp/{rules}.yaml");
    fs::write(&file, policy(rules))?;
    let output = Command::new("/varmor")
        .args([
            "run",
            "--policy",
            &file,
            "--",
            "/varmor-guest",
            "cost",
            "--measure",
        ])
        .output()
        .context("run varmor")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "varmor run with {rules} rules: {}: {errors}",
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| format!("read `{text}`"))
}

/// Half of the rules name a folder, half a file.
fn policy(rules: usize) -> String {
    let mut text = String::from(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {name: cost, namespace: demo}\nspec:\n  \
         target: {kind: Pod, name: any}\n  policy:\n    enforcer: BPF\n    mode: EnhanceProtect\n    enhanceProtect:\n      \
         privileged: true\n      bpfRawRules:\n        files:\n",
    );
    for number in 0..rules {
        let pattern = if number % 2 == 0 {
            format!("/srv/tenant-{number}/**")
        } else {
            format!("/opt/app-{number}/secret.key")
        };
        let _ = writeln!(
            text,
            "        - {{qualifiers: [deny], pattern: \"{pattern}\", permissions: [read, write]}}"
        );
    }
    text
}

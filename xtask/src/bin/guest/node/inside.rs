//! What runs in containers.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::json;

/// Threads of a flood.
const THREADS: u64 = 4;
/// Between two looks of the watch: far below what is measured.
const LOOK: Duration = Duration::from_micros(200);
/// Nobody listens there.
const PORT: u16 = 9;
const SHORT: Duration = Duration::from_secs(2);

/// Nanoseconds since the machine's start; the same clock in every container.
pub(super) fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(now.tv_nsec).unwrap_or_default()
}

pub(super) fn watch(path: &Path) -> Result<ExitCode> {
    let mut last = None;
    loop {
        let now = File::open(path).is_ok();
        if last != Some(now) {
            last = Some(now);
            let word = if now { "allowed" } else { "denied" };
            println!("{word} {}", monotonic());
            io::stdout().flush().context("say so")?;
        }
        thread::sleep(LOOK);
    }
}

pub(super) fn flood(path: &Path, times: u64) {
    let denied = AtomicU64::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..times / THREADS {
                    denied.fetch_add(u64::from(File::open(path).is_err()), Ordering::Relaxed);
                }
            });
        }
    });
    let counts = json!({ "denied": denied.into_inner(), "ms": start.elapsed().as_millis() });
    println!("{counts}");
}

/// Refused by a policy or not; what else comes of it does not matter.
pub(super) fn connect(address: IpAddr) {
    let outcome = TcpStream::connect_timeout(&SocketAddr::new(address, PORT), SHORT);
    let denied = outcome.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    println!(
        "{}",
        json!({ "allowed": u8::from(!denied), "denied": u8::from(denied) })
    );
}

/// Makes a folder and removes it, and lives on for some seconds.
pub(super) fn make(path: &Path, seconds: u64) {
    let made = fs::create_dir(path).is_ok();
    let removed = fs::remove_dir(path).is_ok();
    println!(
        "{}",
        json!({ "made": u8::from(made), "removed": u8::from(removed) })
    );
    thread::sleep(Duration::from_secs(seconds));
}

pub(super) fn attack(path: &Path, seconds: u64) -> Result<ExitCode> {
    let (mut allowed, mut denied) = (0_u64, 0_u64);
    let start = Instant::now();
    loop {
        match File::open(path) {
            Ok(_) => allowed += 1,
            Err(error) if is_refusal(&error) => denied += 1,
            // What is not there is refused by nobody.
            Err(error) => return Err(error).with_context(|| format!("open {}", path.display())),
        }
        if start.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{}", json!({ "allowed": allowed, "denied": denied }));
    Ok(ExitCode::SUCCESS)
}

/// EACCES of a rule, or EPERM: the start gate's.
fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

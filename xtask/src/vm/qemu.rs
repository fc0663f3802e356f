//! One QEMU process: started, watched, and ended whatever happens.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        atomic::Ordering,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{Cable, Forward, Guest, accel::Accel};
use crate::{kernel::Kernel, process, workspace};

/// The LSMs that varmor works with; kernels before 6.1 do not start `bpf` unless asked to.
pub(super) const LSMS: &str = "lockdown,capability,yama,apparmor,bpf";
/// Without `no_timer_check` a guest on a busy machine may find its emulated timer too late and panic.
const COMMON: &str = "console=ttyS0 quiet panic=-1 oops=panic net.ifnames=0 no_timer_check";
/// Everything that would make two boots differ (see `Accel::Icount`).
const DETERMINISTIC: &str = "nokaslr norandmaps randomize_kstack_offset=off tsc=reliable mitigations=off";

/// What a guest did.
pub(crate) struct Outcome {
    /// The exit code of the command.
    pub(crate) code: u8,
    /// From power-on until the command started.
    pub(crate) boot: Duration,
    pub(crate) ran: Duration,
    pub(crate) release: String,
    pub(crate) accel: &'static str,
}

pub(crate) struct Machine<'a> {
    pub(crate) guest: &'a Guest,
    pub(crate) kernel: &'a Kernel,
    pub(crate) accel: Accel,
    pub(crate) initrd: &'a Path,
    pub(crate) disks: &'a [PathBuf],
    pub(crate) scratch: &'a Path,
}

/// Kills the process when it goes out of scope, so that a panic or an error ends the guest too.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Leaves the console's text among the logs: guests of the same kernel may run at the same time, so each writes
/// to its own file first.
struct Kept<'a> {
    file: &'a Path,
    log: PathBuf,
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        let _ = fs::copy(self.file, &self.log);
    }
}

impl Machine<'_> {
    pub(crate) fn run(&self, sink: &mut dyn FnMut(&[u8])) -> Result<Outcome> {
        let control = self.scratch.join("control");
        let console = self.scratch.join("console");
        let _kept = Kept {
            file: &console,
            log: workspace::log_file(&format!("vm-{}-console", self.kernel.series)),
        };
        let errors = workspace::log_file(&format!("vm-{}-qemu", self.kernel.series));
        workspace::make_dir(errors.parent().expect("log files are in a folder"))?;
        let mut command = self.command(&control, &console);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(&errors).with_context(|| format!("create {}", errors.display()))?);
        let start = Instant::now();
        let mut child = Ended(command.spawn().context("start qemu-system-x86_64")?);
        let output = receive(child.0.stdout.take().expect("stdout is piped"));
        let mut booted = None;
        loop {
            match output.recv_timeout(Duration::from_millis(20)) {
                Ok(bytes) => sink(&bytes),
                Err(RecvTimeoutError::Timeout) => {}
                // The port is closed: QEMU is about to end.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(5)),
            }
            if booted.is_none() && fs::metadata(&control).is_ok_and(|about| about.len() > 0) {
                booted = Some(start.elapsed());
            }
            if child.0.try_wait().context("wait for QEMU")?.is_some() {
                break;
            }
            if self.guest.stop.load(Ordering::Relaxed) {
                bail!("guest {} was stopped", self.kernel.release);
            }
            if start.elapsed() > self.guest.timeout {
                let log = process::tail(&console, 30);
                let state = if booted.is_some() {
                    "its command still ran"
                } else {
                    "it had not booted"
                };
                let limit = self.guest.timeout.as_secs();
                bail!(
                    "guest {} ended after {limit} s: {state}; the end of its console:\n{log}",
                    self.kernel.release
                );
            }
        }
        for bytes in output {
            sink(&bytes);
        }
        let said = fs::read_to_string(&control).unwrap_or_default();
        if said.lines().any(|line| line.trim() == "warned") {
            bail!(
                "the kernel of guest {} warned of a fault of its own while the command ran; the end of its console:\n{}",
                self.kernel.release,
                process::tail(&console, 60)
            );
        }
        let code = said
            .lines()
            .find_map(|line| line.strip_prefix("exit ")?.trim().parse().ok());
        let Some(code) = code else {
            let console = process::tail(&console, 40);
            let qemu = process::tail(&errors, 10);
            bail!(
                "guest {} died before its command ended; its console:\n{console}\n{qemu}",
                self.kernel.release
            );
        };
        let boot = booted.unwrap_or_else(|| start.elapsed());
        Ok(Outcome {
            code,
            boot,
            ran: start.elapsed().saturating_sub(boot),
            release: self.kernel.release.clone(),
            accel: self.accel.name(),
        })
    }

    fn command(&self, control: &Path, console: &Path) -> Command {
        let guest = self.guest;
        // The kernel ends QEMU when this process dies, however it dies.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(self.accel.arguments(guest.kernel));
        command.args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-monitor",
            "none",
        ]);
        let smp = if self.accel == Accel::Icount { 1 } else { guest.smp };
        command.args(["-m", &guest.memory.to_string(), "-smp", &smp.to_string()]);
        command
            .arg("-kernel")
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(self.initrd);
        let mut line = COMMON.to_owned();
        if !guest.lsm.is_empty() {
            line = format!("{line} lsm={}", guest.lsm);
        }
        if self.accel == Accel::Icount {
            line = format!("{line} {DETERMINISTIC}");
            command.args([
                "-icount",
                "shift=0,sleep=off",
                "-rtc",
                "base=2026-01-01T00:00:00,clock=vm",
            ]);
        }
        command.args(["-append", &line]);
        let mut port = |id: &str, backend: String| {
            command.args([
                "-chardev",
                &format!("{backend},id={id}"),
                "-serial",
                &format!("chardev:{id}"),
            ]);
        };
        port("console", format!("file,path={}", escape(console)));
        port("output", "stdio,signal=off".to_owned());
        port("control", format!("file,path={}", escape(control)));
        if let Some(results) = &guest.results {
            port("results", format!("file,path={}", escape(results)));
        }
        for disk in self.disks {
            // What the guest writes goes to a file that QEMU has already unlinked.
            command.args([
                "-drive",
                &format!("file={},if=virtio,format=raw,snapshot=on", escape(disk)),
            ]);
        }
        if guest.rootfs {
            let mut network = "user,id=net".to_owned();
            for Forward { host, guest } in &guest.forwards {
                network = format!("{network},hostfwd=tcp:127.0.0.1:{host}-10.0.2.15:{guest}");
            }
            command.args([
                "-netdev",
                &network,
                "-device",
                "virtio-net-pci,netdev=net",
                "-device",
                "virtio-rng-pci",
            ]);
        }
        if let Some(Cable { own, peer }) = guest.cable {
            command.args([
                "-netdev",
                &format!("socket,id=cable,udp=127.0.0.1:{peer},localaddr=127.0.0.1:{own}"),
            ]);
            let [high, low] = own.to_be_bytes();
            command.args([
                "-device",
                &format!("virtio-net-pci,netdev=cable,mac=52:54:00:00:{high:02x}:{low:02x}"),
            ]);
        }
        command
    }
}

/// QEMU's options end a value at a comma.
fn escape(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

fn receive(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, received) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            if send.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    received
}

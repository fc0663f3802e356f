//! `vm`: boots a guest with a kernel of the matrix, runs one command in it, returns its exit code.

mod accel;
mod initramfs;
mod modules;
mod qemu;
pub(crate) mod rootfs;

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::ExitCode,
    str::FromStr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
pub(crate) use initramfs::{GROUPS, USERS};
pub(crate) use qemu::Outcome;

use crate::{
    cpio::Archive,
    kernel::{Kernel, Series},
    progress, tools, workspace,
};

/// Guests that this process has started.
static STARTED: AtomicU32 = AtomicU32::new(0);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The kernel to boot
    #[arg(long, default_value = "6.1")]
    kernel: Series,
    /// Processors of the guest
    #[arg(long, default_value_t = 2)]
    smp: u8,
    /// Memory of the guest in MiB [default: 1024, with --rootfs 2048]
    #[arg(long)]
    mem: Option<u32>,
    /// Count instructions instead of time (one processor, same numbers on every machine)
    #[arg(long)]
    icount: bool,
    /// Boot a Debian with containerd and runc instead of busybox
    #[arg(long)]
    rootfs: bool,
    /// The security modules that the kernel starts [default: all that varmor works with]
    #[arg(long, value_name = "NAMES")]
    lsm: Option<String>,
    /// Put a file or folder of this machine into the guest
    #[arg(long, value_name = "FILE:GUESTPATH")]
    share: Vec<Share>,
    /// Keep what the command leaves in /vm/out as this tar archive
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// End the guest after this many seconds
    #[arg(long, default_value_t = 600)]
    timeout: u64,
    /// The command to run in the guest
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// A file or folder of the host and its absolute path in the guest.
#[derive(Clone)]
pub(crate) struct Share {
    pub(crate) source: PathBuf,
    pub(crate) path: String,
}

impl Share {
    pub(crate) fn new(source: impl Into<PathBuf>, path: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            path: path.into(),
        }
    }
}

impl FromStr for Share {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.rsplit_once(':') {
            Some((source, path)) if path.starts_with('/') => Ok(Self::new(source, path)),
            _ => bail!("`{text}` is not FILE:GUESTPATH with an absolute GUESTPATH"),
        }
    }
}

/// Images are made once, by one guest while the others wait for it.
static MAKING: Mutex<()> = Mutex::new(());

/// What to boot and what to run in it.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(crate) kernel: Series,
    /// A kernel of the user's own, instead of that of the series.
    pub(crate) image: Option<PathBuf>,
    pub(crate) smp: u8,
    pub(crate) memory: u32,
    pub(crate) icount: bool,
    pub(crate) rootfs: bool,
    /// Empty = those that the kernel starts by itself.
    pub(crate) lsm: String,
    pub(crate) shares: Vec<Share>,
    pub(crate) timeout: Duration,
    pub(crate) command: Vec<String>,
    /// What the command leaves in `/vm/out` arrives here as a tar archive.
    pub(crate) results: Option<PathBuf>,
    /// Ports of this machine's loopback that lead to ports of a guest with containers.
    pub(crate) forwards: Vec<Forward>,
    /// A cable to another guest.
    pub(crate) cable: Option<Cable>,
    /// Ends the guest once it is true.
    pub(crate) stop: Arc<AtomicBool>,
}

/// A port of this machine's loopback that leads to a port of the guest.
#[derive(Clone, Copy)]
pub(crate) struct Forward {
    pub(crate) host: u16,
    pub(crate) guest: u16,
}

/// One end of a network cable between two guests. The ends are UDP ports of the machine's loopback: with a connection, the cable
/// would be cut for ever by whoever starts before the other, or anew.
#[derive(Clone, Copy)]
pub(crate) struct Cable {
    pub(crate) own: u16,
    pub(crate) peer: u16,
}

impl Guest {
    pub(crate) fn new(kernel: Series, command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            kernel,
            image: None,
            smp: 2,
            memory: 1024,
            icount: false,
            rootfs: false,
            lsm: qemu::LSMS.to_owned(),
            shares: Vec::new(),
            timeout: Duration::from_mins(30),
            command: command.into_iter().map(Into::into).collect(),
            results: None,
            forwards: Vec::new(),
            cable: None,
            stop: Arc::default(),
        }
    }

    /// Boots, runs the command, hands its output to `sink` as it comes, and ends the guest.
    pub(crate) fn run(&self, sink: &mut dyn FnMut(&[u8])) -> Result<Outcome> {
        tools::need(tools::GUEST)?;
        let accel = if self.icount {
            accel::Accel::Icount
        } else {
            accel::choose(self.kernel)?
        };
        self.run_with(accel, sink)
    }

    fn run_with(&self, accel: accel::Accel, sink: &mut dyn FnMut(&[u8])) -> Result<Outcome> {
        let kernel = match &self.image {
            Some(image) => Kernel::own(self.kernel, image),
            None => Kernel::open(self.kernel)?,
        };
        let disks = if self.rootfs {
            let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
            rootfs::disks(&kernel)?
        } else {
            Vec::new()
        };
        // One process may run several guests.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let scratch = workspace::Scratch::new(&format!("vm-{}-{}-{number}", self.kernel, accel.name()))?;
        let initrd = scratch.path().join("initrd");
        let base = initramfs::base(&kernel, self.rootfs)?;
        let mut file = fs::File::create(&initrd).context("create the initrd")?;
        file.write_all(&base)
            .and_then(|()| file.write_all(&self.payload()?))
            .context("write the initrd")?;
        drop(file);
        qemu::Machine {
            guest: self,
            kernel: &kernel,
            accel,
            initrd: &initrd,
            disks: &disks,
            scratch: scratch.path(),
        }
        .run(sink)
    }

    /// The files of this run, as a second archive behind that of the guest.
    fn payload(&self) -> std::io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        let prefix = if self.rootfs { "/vm/share" } else { "" };
        archive.file(
            "/vm/command",
            0o755,
            initramfs::command_script(&self.command).as_bytes(),
        );
        for share in &self.shares {
            archive
                .host(&share.source, &format!("{prefix}{}", share.path))
                .map_err(std::io::Error::other)?;
        }
        Ok(archive.finish())
    }
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    let mut guest = Guest::new(args.kernel, &args.command);
    guest.smp = args.smp;
    guest.memory = args.mem.unwrap_or(if args.rootfs { 2048 } else { 1024 });
    guest.icount = args.icount;
    if let Some(lsm) = &args.lsm {
        guest.lsm.clone_from(lsm);
    }
    guest.rootfs = args.rootfs;
    guest.shares.clone_from(&args.share);
    guest.results.clone_from(&args.results);
    guest.timeout = Duration::from_secs(args.timeout);
    if guest.rootfs {
        tools::need(tools::CONTAINER_GUEST)?;
    }
    let start = Instant::now();
    let outcome = guest.run(&mut |bytes| {
        let mut out = std::io::stdout().lock();
        // A reader that has gone away does not stop the guest's command.
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    })?;
    eprintln!(
        "[guest {}: {} with {}, command ran in {}, {} in all, exit code {}]",
        outcome.release,
        format_args!("booted in {}", progress::seconds(outcome.boot)),
        outcome.accel,
        progress::seconds(outcome.ran),
        progress::seconds(start.elapsed()),
        outcome.code
    );
    Ok(ExitCode::from(outcome.code))
}

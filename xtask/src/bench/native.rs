//! Programs in the time of this machine: the guest's measuring program in a folder that becomes its root, with mounts, processes
//! and a network of its own. Nothing of it stays but what it has said.

use std::{
    fs,
    io::Read,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use super::{
    hooks::Programs,
    intake::Intake,
    kept::{Boot, Kept},
    preset::cells::SEED,
    protocol::{FOLDER, PLAN, Plan},
    record::Folder,
    report::Report,
    stats::mirrored,
    systems,
};
use crate::{
    process, tools,
    vm::{GROUPS, Share, USERS},
    workspace,
};

/// Cgroups are seen as the product needs them, whatever hierarchies the machine has mounted: those of version 2 are always there.
const MOUNTS: &str = "set -e
root=$1
mount -t tmpfs -o mode=755 none \"$root/run\"
mount -t tmpfs -o mode=1777 none \"$root/tmp\"
mount -t proc none \"$root/proc\"
mount --rbind /dev \"$root/dev\"
mount -t sysfs none \"$root/sys\"
mount -t cgroup2 none \"$root/sys/fs/cgroup\"
mount -t securityfs none \"$root/sys/kernel/security\" 2>/dev/null || true
mount -t bpf none \"$root/sys/fs/bpf\" 2>/dev/null || true
chroot \"$root\" /bin/busybox ip link set lo up
shift
";
/// The measuring program carries out the plan that is in the root.
const CARRY_OUT: &str = "exec chroot \"$root\" /varmor-guest bench run\n";
pub(super) const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const NAMESPACES: [&str; 6] = [
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--propagation=private",
];

/// A root for the measured programs.
pub(super) struct Room {
    root: workspace::Scratch,
    release: String,
}

impl Room {
    /// With these files beside the measuring program, the product and the policies of the systems.
    pub(super) fn new(plan: &Plan, programs: &Programs, shares: &[Share]) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("to measure in this machine's time takes root: the programs get namespaces of their own");
        }
        let room = Self {
            root: workspace::Scratch::new("bench-native")?,
            release: process::output("uname", ["-r"])?.trim().to_owned(),
        };
        let place = room.root.path();
        for folder in ["bin", "dev", "etc", "proc", "run", "sys", "tmp"] {
            workspace::make_dir(&place.join(folder))?;
        }
        let busybox = tools::busybox()?;
        for share in shares {
            room.put(share)?;
        }
        let policies = workspace::Scratch::new("bench-native-policies")?;
        let mut own = systems::write_policies(policies.path(), &plan.systems)?;
        own.push(Share::new(&programs.varmor, "/varmor"));
        own.push(Share::new(&programs.guest, "/varmor-guest"));
        own.push(Share::new(busybox, "/bin/busybox"));
        for share in &own {
            room.put(share)?;
        }
        for applet in ["sh", "true"] {
            let link = place.join("bin").join(applet);
            if !link.exists() {
                symlink("busybox", &link).with_context(|| format!("link {}", link.display()))?;
            }
        }
        workspace::write_file(&place.join("etc/passwd"), USERS)?;
        workspace::write_file(&place.join("etc/group"), GROUPS)?;
        Ok(room)
    }

    /// Copies, so that no program can change what others will get; later files replace earlier ones.
    fn put(&self, share: &Share) -> Result<()> {
        let place = self.root.path().join(share.path.trim_start_matches('/'));
        if let Some(parent) = place.parent() {
            workspace::make_dir(parent)?;
        }
        let words = ["-a", "-T", "--remove-destination", "--reflink=auto"].map(str::to_owned);
        let files = [&share.source, &place].map(|path| path.display().to_string());
        process::output("cp", words.iter().chain(&files)).map(drop)
    }

    /// Carries a plan out, unless an earlier run has kept what came of it.
    pub(super) fn measure(&self, plan: &Plan, kept: &Kept) -> Result<Report> {
        if let Some(report) = kept.report(None)? {
            eprintln!("[bench native: measured before]");
            return Ok(report);
        }
        let intake = self.carry_out(plan, Some(kept.begin()?))?;
        intake.report.check()?;
        intake.end(true)
    }

    /// What the measuring program says of a plan.
    fn carry_out(&self, plan: &Plan, boot: Option<Boot>) -> Result<Intake> {
        let root = self.root.path();
        let file = root.join(FOLDER.trim_start_matches('/')).join(PLAN);
        workspace::write_file(&file, serde_json::to_vec(plan)?)?;
        let mut intake = Intake::new(None, boot);
        intake.report.release.clone_from(&self.release);
        let mut child = self
            .enter(CARRY_OUT)
            .stdout(Stdio::piped())
            .spawn()
            .context("run unshare (of util-linux)")?;
        let mut output = child.stdout.take().context("the output is piped")?;
        let mut bytes = [0; 4096];
        loop {
            match output.read(&mut bytes).context("read what was measured")? {
                0 => break,
                count => intake.hear(&bytes[..count]),
            }
        }
        let status = child.wait().context("wait for the measuring program")?;
        leave_cgroup();
        if !status.success() {
            bail!("the measurement: {status}: {}", intake.rest());
        }
        Ok(intake)
    }

    /// What keeps the systems of a plan from being brought about on this machine: nothing is measured under them.
    pub(super) fn obstacles(&self, plan: &Plan) -> Result<Report> {
        let plan = Plan {
            operations: Vec::new(),
            ..plan.clone()
        };
        self.carry_out(&plan, None)?.end(true)
    }

    /// A shell in namespaces of its own that goes on with this script: `$root` is the folder, the arguments are its own.
    pub(super) fn enter(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(NAMESPACES)
            .args(["/bin/sh", "-c", &format!("{MOUNTS}{script}"), "sh"])
            .arg(self.root.path())
            .env_clear()
            .env("PATH", PATH)
            .stdin(Stdio::null());
        command
    }

    /// The root, as everybody else sees it.
    pub(super) fn path(&self) -> &Path {
        self.root.path()
    }

    /// `uname -r`.
    pub(super) fn release(&self) -> &str {
        &self.release
    }
}

/// Carries a plan out in blocks: all its systems in a random order, and then in the reverse order. `measure` is given the plan
/// of one order, and where to keep what came of it.
pub(super) fn blocks(
    mut plan: Plan,
    blocks: u32,
    folder: &Folder,
    title: &str,
    mut measure: impl FnMut(&Plan, &Kept) -> Result<Report>,
) -> Result<Vec<Report>> {
    let systems = plan.systems.clone();
    let orders = mirrored(systems.len(), usize::try_from(blocks)?, SEED);
    let mut reports = Vec::new();
    for (block, order) in orders.iter().enumerate() {
        eprintln!("[{title} on this machine: block {} of {blocks}]", block + 1);
        let (forth, back) = order.split_at(systems.len());
        let mut half = |order: &[usize], name: &str| {
            plan.systems = order.iter().map(|system| systems[*system].clone()).collect();
            measure(&plan, &folder.boot(&format!("native-{block}-{name}")))
        };
        let forth = half(forth, "forth")?;
        reports.push(Report::mirrored(&forth, &half(back, "back")?));
    }
    Ok(reports)
}

/// The measured programs had one of their own, below the root of the hierarchy.
pub(super) fn leave_cgroup() {
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        // One of them is not there, or is not of version 2; a group that somebody uses stays.
        let _ = fs::remove_dir(Path::new(root).join("bench"));
    }
}

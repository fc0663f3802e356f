//! How the guest's processor is made: KVM where it really works, otherwise QEMU's translator.

use std::{fs, path::Path, time::Duration};

use anyhow::Result;

use super::Guest;
use crate::{kernel::Series, process, progress, workspace};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accel {
    Kvm,
    /// The translator; the guest's processors take turns. With a thread for each, one may go on with an old translation of an
    /// instruction that the kernel patches (a static key, a hook), and then all of them stop at its breakpoint for ever.
    Tcg,
    /// The translator with one nanosecond of guest time for each instruction.
    Icount,
}

impl Accel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
            Self::Icount => "icount",
        }
    }

    pub(crate) fn arguments(self, kernel: Series) -> [&'static str; 4] {
        // QEMU 7.2 returns wrong flags from cmpxchg16b now and then, and the allocator of 6.12 dies of it. Kernels from 6.18 on
        // cannot allocate task storage without the instruction (kmalloc_nolock), and rarely use it otherwise.
        let cpu = if kernel < Series::V7_2 { "max,-cx16" } else { "max" };
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Tcg => ["-accel", "tcg,thread=single", "-cpu", cpu],
            // qemu64 has no RDRAND: nothing that differs from boot to boot.
            Self::Icount => ["-accel", "tcg", "-cpu", "qemu64"],
        }
    }
}

/// KVM if a guest really boots with it. A machine can have `/dev/kvm` and still hang on a stock kernel, so the
/// only proof is a boot; its result is kept for this QEMU on this host kernel.
pub(crate) fn choose(series: Series) -> Result<Accel> {
    if fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_err()
    {
        return Ok(Accel::Tcg);
    }
    let host = process::output("uname", ["-r"])?;
    let qemu = process::output("qemu-system-x86_64", ["--version"])?;
    let qemu = qemu.lines().next().unwrap_or_default();
    let known = workspace::cache()
        .join("kvm")
        .join(file_name(&format!("{} {qemu}", host.trim())));
    if let Ok(answer) = fs::read_to_string(&known) {
        return Ok(if answer.trim() == "works" {
            Accel::Kvm
        } else {
            Accel::Tcg
        });
    }
    let works = progress::timed("see whether KVM works here (once)", || Ok(boots(series)))?;
    remember(&known, works)?;
    Ok(if works { Accel::Kvm } else { Accel::Tcg })
}

fn boots(series: Series) -> bool {
    let mut guest = Guest::new(series, ["true"]);
    guest.timeout = Duration::from_secs(12);
    guest
        .run_with(Accel::Kvm, &mut |_| {})
        .is_ok_and(|outcome| outcome.code == 0)
}

fn remember(known: &Path, works: bool) -> Result<()> {
    workspace::write_file(
        known,
        if works {
            "works\n"
        } else {
            "does not boot a guest\n"
        },
    )
}

fn file_name(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        })
        .collect()
}

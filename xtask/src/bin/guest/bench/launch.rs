//! Becomes a command under `AppArmor` or seccomp.

use std::{fs, os::unix::process::CommandExt, process::Command};

use anyhow::{Context, Result, bail};
use nix::libc;

use super::{
    kept,
    raw::{self, FilterInstruction},
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Enter this profile
    #[arg(long)]
    apparmor: Option<String>,
    /// Refuse this many system calls
    #[arg(long)]
    seccomp: Option<usize>,
    /// Let `varmor run` find the programs that an earlier run has loaded
    #[arg(long)]
    kept: bool,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Where the command is measured, as deep as the cgroup of `varmor run`: to switch between tasks of a cgroup, and to make one in it,
/// costs more than in the root (pressure is accounted on every level), and that is no enforcer's doing.
const CGROUP: &str = "/sys/fs/cgroup/bench";

/// Calls that no measured operation makes.
const REFUSED: [libc::c_long; 52] = [
    libc::SYS_ptrace,
    libc::SYS_mknod,
    libc::SYS_mount,
    libc::SYS__sysctl,
    libc::SYS_umount2,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_tuxcall,
    libc::SYS_init_module,
    libc::SYS_delete_module,
    libc::SYS_vserver,
    libc::SYS_afs_syscall,
    libc::SYS_quotactl,
    libc::SYS_nfsservctl,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_adjtimex,
    libc::SYS_pivot_root,
    libc::SYS_vhangup,
    libc::SYS_modify_ldt,
    libc::SYS_personality,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS_lookup_dcookie,
    libc::SYS_clock_settime,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_get_mempolicy,
    libc::SYS_kexec_load,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_migrate_pages,
    libc::SYS_unshare,
    libc::SYS_move_pages,
    libc::SYS_perf_event_open,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_clock_adjtime,
    libc::SYS_setns,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_finit_module,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
];

pub(super) fn launch(args: &Args) -> Result<()> {
    if args.kept {
        // The command keeps this process id, and makes a cgroup of its own.
        kept::restore(std::process::id())?;
    } else {
        fs::create_dir_all(CGROUP).with_context(|| format!("make {CGROUP}"))?;
        fs::write(format!("{CGROUP}/cgroup.procs"), "0").with_context(|| format!("enter {CGROUP}"))?;
    }
    if let Some(profile) = &args.apparmor {
        let file = "/proc/self/attr/exec";
        fs::write(file, format!("exec {profile}"))
            .with_context(|| format!("ask for profile {profile} through {file}"))?;
    }
    if let Some(rules) = args.seccomp {
        raw::filter_system_calls(&filter(rules)?).context("install the seccomp filter")?;
    }
    let (program, rest) = args.command.split_first().context("no command")?;
    Err(Command::new(program).args(rest).exec()).with_context(|| format!("run {program}"))
}

/// Wrong architecture: kill; one of the refused calls: EPERM; else: allow.
fn filter(rules: usize) -> Result<Vec<FilterInstruction>> {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// Offsets in `struct seccomp_data`.
    const NUMBER: u32 = 0;
    const ARCHITECTURE: u32 = 4;
    const X86_64: u32 = 0xc000_003e;
    let Some(refused) = REFUSED.get(..rules) else {
        bail!("at most {} calls can be refused, not {rules}", REFUSED.len())
    };
    let instruction = |code, jump_true, jump_false, value| FilterInstruction {
        code,
        jump_true,
        jump_false,
        value,
    };
    let mut filter = vec![
        instruction(LOAD_WORD, 0, 0, ARCHITECTURE),
        instruction(JUMP_IF_EQUAL, 1, 0, X86_64),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD_WORD, 0, 0, NUMBER),
    ];
    for (number, left) in refused.iter().zip((0..rules).rev()) {
        // Over the other comparisons and the permission, to the refusal.
        let over = u8::try_from(left + 1)?;
        filter.push(instruction(JUMP_IF_EQUAL, over, 0, u32::try_from(*number)?));
    }
    filter.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    if rules > 0 {
        let refuse = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM)?;
        filter.push(instruction(RETURN, 0, 0, refuse));
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{REFUSED, filter};

    #[test]
    fn every_comparison_jumps_to_the_refusal() {
        let filter = filter(50).unwrap();
        assert_eq!(filter.len(), 4 + 50 + 2);
        for (at, instruction) in filter.iter().enumerate().skip(4).take(50) {
            assert_eq!(at + 1 + usize::from(instruction.jump_true), filter.len() - 1);
        }
    }

    #[test]
    fn refused_calls_are_distinct_and_enough() {
        assert_eq!(REFUSED.iter().collect::<BTreeSet<_>>().len(), REFUSED.len());
        assert!(filter(REFUSED.len()).is_ok() && filter(REFUSED.len() + 1).is_err());
    }
}

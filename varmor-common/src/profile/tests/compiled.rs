//! Profiles as the kernel will judge them: through the compiled tables.

use super::{enhance, profile};
use crate::abi::{
    MOUNT_UMOUNT, PERM_APPEND, PERM_EXEC, PERM_READ, PERM_WRITE, PROFILE_DEVICES, VERDICT_DENY,
};
use crate::compile::bpf::{Artefact, compile};
use crate::matcher::{MountCall, MountSource, PathView, Walk};
use crate::rules::{self, RuleList};

const KEY: u64 = 0x0123_4567_89ab_cdef;

fn compiled(policy: &str) -> Artefact {
    compile(&profile(policy), KEY).expect("the profile compiles")
}

/// The refused permissions of a path.
fn refused(artefact: &Artefact, path: &str) -> u32 {
    let all = PERM_READ | PERM_WRITE | PERM_APPEND | PERM_EXEC;
    Walk::new(artefact, KEY)
        .files(&PathView::from_path(path.as_bytes()), all)
        .denied
}

#[test]
fn runtime_default_is_as_strong_as_the_template_of_the_runtimes() {
    let artefact = compiled("enforcer: BPF\nmode: RuntimeDefault");
    let write = PERM_WRITE | PERM_APPEND;
    let everything = PERM_READ | write | PERM_EXEC;
    for (path, expected) in [
        ("/proc/kcore", everything),
        ("/proc/sysrq-trigger", everything),
        ("/proc/12/mem", PERM_READ | write),
        ("/proc/12/task/13/mem", PERM_READ | write),
        ("/proc/kallsyms", write),
        ("/proc/12/attr/current", 0),
        ("/proc/12/oom_score_adj", 0),
        ("/proc/irq/1/smp_affinity", write),
        ("/proc/scsi/scsi", write),
        ("/proc/sysvipc/shm", write),
        ("/proc/sys/net/ipv4/ip_forward", write),
        ("/proc/sys/vm/panic_on_oom", write),
        ("/proc/sys/fs/binfmt_misc/register", write),
        ("/proc/sys/kernel/core_pattern", write),
        ("/proc/sys/kernel/modprobe", write),
        ("/proc/sys/kernel/sched_rt_runtime_us", write),
        ("/proc/sys/kernel/random/boot_id", write),
        ("/proc/sys/kernel/shmmax", 0),
        ("/proc/sys/kernel/shm_rmid_forced", 0),
        ("/sys/kernel/uevent_helper", write | PERM_EXEC),
        ("/sys/kernel/security/apparmor/.load", everything),
        ("/sys/firmware/efi/vars", everything),
        ("/sys/devices/virtual/powercap/intel-rapl", everything),
        ("/sys/class/net/eth0/mtu", write | PERM_EXEC),
        ("/sys/fs/bpf/x", write | PERM_EXEC),
        ("/sys/fs/cgroup/memory.max", 0),
        ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", 0),
        ("/etc/passwd", 0),
        ("/system/x", 0),
    ] {
        assert_eq!(refused(&artefact, path), expected, "{path}");
    }
    let walk = Walk::new(&artefact, KEY);
    let mount = |flags| {
        let call = MountCall {
            source: MountSource::Text(b"none"),
            fstype: Some(b"tmpfs"),
            flags,
        };
        walk.mount(&call).verdict & VERDICT_DENY != 0
    };
    assert!(mount(0), "a mount is refused");
    assert!(!mount(MOUNT_UMOUNT), "an unmount is not");
    assert!(walk.ptrace(crate::abi::PTRACE_TRACE, true).verdict & VERDICT_DENY != 0);
    assert_eq!(walk.ptrace(crate::abi::PTRACE_TRACE, false).verdict, 0);
}

#[test]
fn every_built_in_rule_compiles_and_all_of_them_together() {
    let ids = |list: RuleList| {
        let ids: Vec<&str> = rules::catalogue()
            .filter(|rule| rule.category.list() == list)
            .map(|rule| rule.id)
            .collect();
        ids.join(", ")
    };
    let artefact = compiled(&enhance(&format!(
        "hardeningRules: [{}]\nattackProtectionRules: [{{rules: [{}]}}]\nvulMitigationRules: [{}]",
        ids(RuleList::Hardening),
        ids(RuleList::AttackProtection),
        ids(RuleList::VulnerabilityMitigation)
    )));
    assert_eq!(artefact.unsupported, []);
    for (path, expected) in [
        ("/etc/shadow", PERM_READ | PERM_WRITE | PERM_APPEND),
        ("/etc/passwd-", PERM_WRITE | PERM_APPEND),
        ("/etcetera", 0),
        ("/home/a/.ssh/id", PERM_READ | PERM_WRITE | PERM_APPEND),
        ("/home/a/.ssh", PERM_READ | PERM_WRITE | PERM_APPEND),
        ("/usr/bin/bash", PERM_EXEC),
        ("/bin/shutdown", 0),
        (
            "/run/secrets/kubernetes.io/serviceaccount/..data/token",
            PERM_READ,
        ),
        ("/dev/vda1", 0),
    ] {
        assert_eq!(refused(&artefact, path), expected, "{path}");
    }
    assert!(
        artefact.descriptor.flags & PROFILE_DEVICES != 0,
        "disks are refused by number and not by name"
    );
}

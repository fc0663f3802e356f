//! The mode `RuntimeDefault`: what container runtimes let a container without added capabilities do, as data.
//!
//! Everything that needs a capability which containers do not have by default is left out: namespaces, mounts, modules,
//! clocks, kexec, BPF, perf, tracing of other users, quotas, accounting, `io_uring`, the kernel's keyrings, userfaultfd.

use super::Action;
use super::filter::{Entry, Filter};
use super::oci::{Comparison, Condition};
use crate::rules::syscalls::NOT_IMPLEMENTED;

const RULE: &str = "runtime-default";

/// Names that are allowed whatever their arguments are, by purpose.
const ALLOWED: &[&str] = &[
    // Opening, reading, writing.
    "_llseek access close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2 fadvise64 \
     fadvise64_64 fallocate fcntl fcntl64 fdatasync flock fsync ftruncate ftruncate64 ioctl lseek memfd_create \
     memfd_secret name_to_handle_at open openat openat2 pipe pipe2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 \
     read readahead readv sendfile sendfile64 splice sync sync_file_range sync_file_range2 syncfs tee truncate \
     truncate64 vmsplice write writev arm_fadvise64_64 arm_sync_file_range",
    // Names and attributes of files.
    "chdir chmod chown chown32 fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fgetxattr flistxattr \
     fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 futimesat getcwd getdents getdents64 getxattr \
     getxattrat lchown lchown32 lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr lsetxattr lstat \
     lstat64 mkdir mkdirat mknod mknodat newfstatat readlink readlinkat removexattr removexattrat rename renameat \
     renameat2 rmdir setxattr setxattrat stat stat64 statfs statfs64 statx symlink symlinkat umask unlink unlinkat \
     utime utimensat utimensat_time64 utimes",
    // Waiting for files.
    "_newselect epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait \
     epoll_wait_old eventfd eventfd2 fanotify_mark inotify_add_watch inotify_init inotify_init1 inotify_rm_watch \
     io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit poll ppoll ppoll_time64 \
     pselect6 pselect6_time64 select",
    // Memory.
    "brk cachestat madvise map_shadow_stack membarrier mincore mlock mlock2 mlockall mmap mmap2 mprotect mremap \
     mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_mrelease remap_file_pages \
     cacheflush",
    // Processes and threads.
    "arch_prctl breakpoint execve execveat exit exit_group fork futex futex_requeue futex_time64 futex_wait \
     futex_waitv futex_wake get_robust_list get_thread_area getcpu getpgid getpgrp getpid getppid getpriority \
     getrlimit getrusage getsid gettid ioprio_get ioprio_set kill modify_ldt pause pidfd_open pidfd_send_signal \
     prctl prlimit64 process_vm_readv process_vm_writev ptrace restart_syscall rseq sched_get_priority_max \
     sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval \
     sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield \
     set_robust_list set_thread_area set_tid_address set_tls setpgid setpriority setrlimit setsid sysinfo tgkill \
     times tkill ugetrlimit uname uretprobe vfork wait4 waitid waitpid",
    // Who a process is, and how it limits itself.
    "capget capset getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getrandom getresgid \
     getresgid32 getresuid getresuid32 getuid getuid32 landlock_add_rule landlock_create_ruleset \
     landlock_restrict_self seccomp setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 \
     setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setuid setuid32",
    // Signals.
    "rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait \
     rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaltstack signalfd signalfd4 sigprocmask sigreturn",
    // Time; setting it needs a capability in the kernel as well.
    "adjtimex alarm clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64 \
     clock_nanosleep clock_nanosleep_time64 getitimer gettimeofday nanosleep setitimer time timer_create timer_delete \
     timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime \
     timerfd_gettime64 timerfd_settime timerfd_settime64",
    // Sockets and messages. `socketcall` has its arguments in memory: 32-bit programs reach every family.
    "accept accept4 bind connect getpeername getsockname getsockopt ipc listen mq_getsetattr mq_notify mq_open \
     mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink msgctl msgget msgrcv msgsnd recv \
     recvfrom recvmmsg recvmmsg_time64 recvmsg semctl semget semop semtimedop semtimedop_time64 send sendmmsg \
     sendmsg sendto setsockopt shmat shmctl shmdt shmget shutdown socketcall socketpair",
];

/// Execution domains without risk: Linux, BSD, and both with uname26; the last value asks for the present one.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// Every flag of `clone` that makes a namespace.
const NAMESPACES: u64 = 0x7e02_0000;
/// `AF_ALG`, and behind it `AF_VSOCK`: the kernel's crypto interface, and the way to the hypervisor.
const ALG: u64 = 38;
/// The families above `AF_ALG` without `AF_VSOCK`. Ranges say what masks cannot: a family with a bit above its 32 is
/// none of these.
const FAMILIES_ABOVE: [u64; 6] = [39, 41, 42, 43, 44, 45];

pub(super) fn add(filter: &mut Filter) {
    filter.default = Action::Errno;
    for name in ALLOWED.iter().flat_map(|names| names.split(' ')) {
        filter.push(Entry::allow(name, RULE));
    }
    let equal = |index, value| compare(index, value, Comparison::Equal);
    for value in PERSONALITIES {
        filter.push(only_if("personality", equal(0, value)));
    }
    filter.push(only_if("socket", compare(0, ALG, Comparison::Less)));
    for family in FAMILIES_ABOVE {
        filter.push(only_if("socket", equal(0, family)));
    }
    filter.push(only_if("clone", Condition::masked(0, NAMESPACES, 0)));
    // The flags of clone3 stand in memory; "not implemented" makes the C library use clone.
    filter.push(Entry {
        action: Action::Errno,
        errno: Some(NOT_IMPLEMENTED),
        ..Entry::allow("clone3", RULE)
    });
}

const fn compare(index: u32, value: u64, op: Comparison) -> Condition {
    Condition {
        index,
        value,
        value_two: 0,
        op,
    }
}

fn only_if(name: &str, condition: Condition) -> Entry {
    Entry {
        args: vec![condition],
        ..Entry::allow(name, RULE)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::is_syscall;
    use super::*;

    #[test]
    fn every_name_is_a_system_call_and_stands_once() {
        let mut seen = BTreeSet::new();
        for name in ALLOWED.iter().flat_map(|names| names.split(' ')) {
            assert!(is_syscall(name), "{name}");
            assert!(seen.insert(name), "{name} twice");
        }
        for name in
            "mount umount2 setns unshare bpf init_module kexec_load add_key keyctl request_key userfaultfd \
                     io_uring_setup perf_event_open open_by_handle_at pivot_root reboot swapon clock_settime"
                .split_whitespace()
        {
            assert!(!seen.contains(name), "{name}");
        }
    }
}

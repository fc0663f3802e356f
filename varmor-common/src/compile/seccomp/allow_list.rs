//! The mode `DefenseInDepth`: a filter that allows only what it names.

use super::filter::Entry;
use super::oci::OciSeccomp;
use super::{ALWAYS_NEEDED, Action, Architecture, Compiler, Flag, part, raw};
use crate::policy::{DefenseInDepth, ProfileType, SeccompAllowList, Severity};

const FIELD: &str = "spec.policy.defenseInDepth.seccomp";
/// What a container runtime does between loading the filter and starting the workload: dropping privileges, closing
/// files, taking part in its own runtime's scheduling, reporting to its parent and executing.
const RUNTIME: &str = "access arch_prctl brk capget capset chdir clock_gettime clone close close_range dup dup2 dup3 \
    epoll_create1 epoll_ctl epoll_pwait eventfd2 execve execveat exit exit_group faccessat faccessat2 fchdir fcntl \
    fstat fstatfs futex getcwd getdents64 getegid geteuid getgid getpid getppid getrandom gettid getuid ioctl lseek \
    madvise mmap mprotect munmap nanosleep newfstatat pipe2 prctl pread64 prlimit64 readlink readlinkat \
    restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigreturn sched_getaffinity sched_yield set_robust_list \
    set_tid_address setgid setgroups setresgid setresuid setuid sigaltstack stat statfs statx tgkill uname";

pub(super) fn add(compiler: &mut Compiler<'_>, defense: Option<&DefenseInDepth>) {
    let Some(list) = defense.and_then(|defense| defense.seccomp.as_ref()) else {
        let message = "the mode DefenseInDepth needs the field `defenseInDepth.seccomp` for this enforcer";
        let help = "add `seccomp:` below `defenseInDepth`, or remove Seccomp from `enforcer`";
        compiler.report(Severity::Error, "spec.policy.mode", message.to_owned(), help);
        return;
    };
    compiler.filter.default = Action::Errno;
    match list.profile_type {
        ProfileType::Custom => custom(compiler, list),
        ProfileType::BehaviorModel => model(compiler),
    }
    raw::add(
        compiler,
        &list.syscall_raw_rules,
        &format!("{FIELD}.syscallRawRules"),
    );
    if defense.is_some_and(|defense| defense.allow_violations) && !compiler.filter.default.permits() {
        compiler.filter.default = Action::Log;
    }
}

/// What was seen, and what every container needs to come to life.
fn model(compiler: &mut Compiler<'_>) {
    let Some(observed) = compiler.inputs.model.and_then(|model| model.seccomp.as_ref()) else {
        let message = "there is no behaviour model for this policy yet".to_owned();
        let help = "record one with the mode BehaviorModeling, or write a `customProfile`";
        compiler.report(Severity::Error, &format!("{FIELD}.profileType"), message, help);
        return;
    };
    let names = raw::names(compiler, &observed.syscalls, &format!("{FIELD}.profileType"));
    for name in &names {
        compiler.filter.push(Entry::allow(name, "behavior-model"));
    }
    for name in ALWAYS_NEEDED.iter().copied().chain(RUNTIME.split_whitespace()) {
        compiler.filter.push(Entry::allow(name, "container-runtime"));
    }
}

fn custom(compiler: &mut Compiler<'_>, list: &SeccompAllowList) {
    let field = format!("{FIELD}.customProfile");
    let Some(text) = &list.custom_profile else {
        let message = "the profile type Custom needs the field `customProfile`".to_owned();
        compiler.report(
            Severity::Error,
            FIELD,
            message,
            "write the profile in the OCI format",
        );
        return;
    };
    let profile: OciSeccomp = match serde_json::from_str(text) {
        Ok(profile) => profile,
        Err(error) => {
            let help = "the format is `linux.seccomp` of the OCI runtime specification";
            compiler.report(
                Severity::Error,
                &field,
                format!("the profile cannot be read: {error}"),
                help,
            );
            return;
        }
    };
    compiler.filter.default = profile.default_action;
    if profile.default_action.permits() {
        let message = format!(
            "the profile allows what it does not name: its default is {}",
            profile.default_action
        );
        let help = "use the default SCMP_ACT_ERRNO, so that the profile is a list of what is allowed";
        compiler.report(Severity::Warning, &field, message, help);
    }
    if let Some(number) = profile
        .default_errno_ret
        .filter(|number| *number != super::DEFAULT_ERRNO)
    {
        let message = format!("`defaultErrnoRet` {number} is not kept: refused calls get EPERM");
        compiler.report(Severity::Warning, &field, message, "remove it");
    }
    architectures(compiler, &profile.architectures, &field);
    flags(compiler, &profile.flags, &field);
    for (index, rule) in profile.syscalls.iter().enumerate() {
        let place = part("syscalls", index, "names");
        for name in known(compiler, &rule.names, &field, &place) {
            compiler.filter.push(Entry {
                name,
                action: rule.action,
                errno: (rule.action == Action::Errno)
                    .then_some(rule.errno_ret.unwrap_or(super::DEFAULT_ERRNO)),
                args: rule.args.clone(),
                rule: format!("customProfile.syscalls[{index}]"),
                field: field.clone(),
                built_in: false,
            });
        }
        if let Some(arg) = rule.args.iter().find(|arg| arg.index > 5) {
            let message = format!("syscalls[{index}]: a system call has no argument {}", arg.index);
            compiler.report(
                Severity::Error,
                &field,
                message,
                "arguments are counted from 0 to 5",
            );
        }
    }
}

fn known(compiler: &mut Compiler<'_>, names: &[String], field: &str, place: &str) -> Vec<String> {
    let (known, unknown): (Vec<String>, Vec<String>) =
        names.iter().cloned().partition(|name| super::is_syscall(name));
    for name in unknown {
        let help = super::nearest_syscall(&name).map_or_else(
            || "remove it".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        let message = format!(
            "{place}: there is no system call {}",
            crate::policy::quoted(&name)
        );
        compiler.report(Severity::Error, field, message, &help);
    }
    known
}

/// What the profile does not name, the kernel kills; a profile that names nothing is meant for every node.
fn architectures(compiler: &mut Compiler<'_>, named: &[Architecture], field: &str) {
    if named.is_empty() {
        return;
    }
    let native = compiler.inputs.architectures.first().copied();
    if native.is_some_and(|native| !named.contains(&native)) {
        let message = format!(
            "the profile does not name {}, which the nodes run: every program would be killed",
            native.map(|native| native.to_string()).unwrap_or_default()
        );
        compiler.report(
            Severity::Error,
            field,
            message,
            "add it, or remove `architectures`",
        );
        return;
    }
    compiler.filter.architectures = named.to_vec();
    compiler.filter.architectures.sort_unstable();
    compiler.filter.architectures.dedup();
}

fn flags(compiler: &mut Compiler<'_>, named: &[Flag], field: &str) {
    if named.contains(&Flag::SpecAllow) {
        let message =
            "SECCOMP_FILTER_FLAG_SPEC_ALLOW gives up the protection against speculative store bypass";
        compiler.report(Severity::Warning, field, message.to_owned(), "remove it");
    }
    compiler.filter.flags.extend_from_slice(named);
}

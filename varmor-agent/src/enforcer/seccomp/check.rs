//! A filter as a container runtime makes it: through libseccomp, for all its architectures.

use std::io::{Read as _, Seek as _};

use libseccomp::{ScmpAction, ScmpArch, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall};
use thiserror::Error;
use varmor_common::compile::seccomp::{Action, Architecture, Comparison, Condition, Flag, OciSeccomp};

use super::cbpf::{Answer, Call, Fault, Program};

/// Why a filter cannot be made, evaluated or loaded.
#[derive(Debug, Error)]
pub enum CheckError {
    #[error("libseccomp refuses {what}")]
    Refused {
        what: String,
        #[source]
        source: libseccomp::error::SeccompError,
    },
    #[error("move the filter from libseccomp")]
    Export(#[source] std::io::Error),
    #[error("read the capabilities of this process")]
    Capabilities(#[source] std::io::Error),
    #[error("libseccomp made a filter that no kernel takes")]
    Broken(#[from] Fault),
    #[error("{architecture} has no system call `{name}`")]
    NoSuchCall {
        name: String,
        architecture: Architecture,
    },
}

/// A filter in libseccomp's hands.
#[derive(Debug)]
pub struct Assembled {
    context: ScmpFilterContext,
    skipped: Vec<String>,
}

/// Who gets the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    All,
    This,
}

/// Makes the filter. Names that libseccomp does not know are left out, as runtimes do; [`Assembled::skipped`] has them.
pub fn assemble(profile: &OciSeccomp) -> Result<Assembled, CheckError> {
    let default = action(profile.default_action, profile.default_errno_ret);
    let mut context = ScmpFilterContext::new(default).map_err(refused("a new filter"))?;
    architectures(&mut context, &profile.architectures)?;
    if profile.flags.contains(&Flag::Log) {
        context.set_ctl_log(true).map_err(refused("the flag LOG"))?;
    }
    if profile.flags.contains(&Flag::SpecAllow) {
        context
            .set_ctl_ssb(true)
            .map_err(refused("the flag SPEC_ALLOW"))?;
    }
    let mut skipped = Vec::new();
    for rule in &profile.syscalls {
        let then = action(rule.action, rule.errno_ret);
        let args: Vec<ScmpArgCompare> = rule.args.iter().map(compare).collect();
        for name in &rule.names {
            let Ok(number) = ScmpSyscall::from_name(name) else {
                skipped.push(name.clone());
                continue;
            };
            context
                .add_rule_conditional(then, number, &args)
                .map_err(refused(&format!("the rule for `{name}`")))?;
        }
    }
    skipped.sort_unstable();
    skipped.dedup();
    Ok(Assembled { context, skipped })
}

/// A new filter holds for this machine's architecture; the profile may want others, or not this one.
fn architectures(context: &mut ScmpFilterContext, wanted: &[Architecture]) -> Result<(), CheckError> {
    if wanted.is_empty() {
        return Ok(());
    }
    for architecture in wanted {
        context
            .add_arch(architecture_of(*architecture))
            .map_err(refused(&architecture.to_string()))?;
    }
    if !wanted.contains(&Architecture::HERE[0]) {
        context
            .remove_arch(ScmpArch::Native)
            .map_err(refused("a filter for another machine"))?;
    }
    Ok(())
}

impl Assembled {
    /// Names of the profile that libseccomp does not know: nothing about them is in the filter.
    #[must_use]
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// The filter as the kernel gets it.
    pub fn program(&self) -> Result<Program, CheckError> {
        let memory = rustix::fs::memfd_create("varmor-filter", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|error| CheckError::Export(error.into()))?;
        let mut file = std::fs::File::from(memory);
        self.context
            .export_bpf(&file)
            .map_err(refused("to write the filter"))?;
        let mut bytes = Vec::new();
        file.rewind()
            .and_then(|()| file.read_to_end(&mut bytes))
            .map_err(CheckError::Export)?;
        Ok(Program::parse(&bytes)?)
    }

    /// Settles how the filter will be loaded: for whom, and with `no_new_privs` only if the kernel asks for it.
    pub fn prepare(&mut self, threads: Threads) -> Result<(), CheckError> {
        let own = rustix::thread::capabilities(None)
            .map_err(|error| CheckError::Capabilities(error.into()))?
            .effective;
        let is_free = own.contains(rustix::thread::CapabilitySet::SYS_ADMIN);
        self.context
            .set_ctl_nnp(!is_free)
            .map_err(refused("the attribute NNP"))?;
        self.context
            .set_ctl_tsync(threads == Threads::All)
            .map_err(refused("the flag TSYNC"))?;
        Ok(())
    }

    /// Gives the filter to the kernel. Nothing takes it back.
    pub fn load(&self) -> Result<(), CheckError> {
        self.context.load().map_err(refused("to load the filter"))
    }
}

impl Program {
    /// What the filter answers to a system call by name.
    pub fn ask(
        &self,
        architecture: Architecture,
        name: &str,
        arguments: &[u64],
    ) -> Result<Answer, CheckError> {
        let mut call = Call {
            number: number(architecture, name)?,
            architecture: audit_architecture(architecture),
            arguments: [0; 6],
        };
        for (to, from) in call.arguments.iter_mut().zip(arguments) {
            *to = *from;
        }
        Ok(self.run(&call)?)
    }
}

/// Calls of 32-bit x86 that were parts of `socketcall` and `ipc` alone before Linux 4.3 and 5.1. libseccomp has
/// numbers of its own for them, because one rule becomes two.
const DIRECT: &[(&str, u32)] = &[
    ("socket", 359),
    ("socketpair", 360),
    ("bind", 361),
    ("connect", 362),
    ("listen", 363),
    ("accept4", 364),
    ("getsockopt", 365),
    ("setsockopt", 366),
    ("getsockname", 367),
    ("getpeername", 368),
    ("sendto", 369),
    ("sendmsg", 370),
    ("recvfrom", 371),
    ("recvmsg", 372),
    ("shutdown", 373),
    ("semget", 393),
    ("semctl", 394),
    ("shmget", 395),
    ("shmctl", 396),
    ("shmat", 397),
    ("shmdt", 398),
    ("msgget", 399),
    ("msgsnd", 400),
    ("msgrcv", 401),
    ("msgctl", 402),
];

/// The number of a system call; x32 has its own bit in it.
pub fn number(architecture: Architecture, name: &str) -> Result<u32, CheckError> {
    let missing = || CheckError::NoSuchCall {
        name: name.to_owned(),
        architecture,
    };
    if architecture == Architecture::X86
        && let Some((_, number)) = DIRECT.iter().find(|(direct, _)| *direct == name)
    {
        return Ok(*number);
    }
    let number =
        ScmpSyscall::from_name_by_arch(name, architecture_of(architecture)).map_err(|_| missing())?;
    // Negative numbers are libseccomp's own, for calls that other architectures have.
    u32::try_from(number.as_raw_syscall()).map_err(|_| missing())
}

/// `AUDIT_ARCH_*`; x32 shares that of x86-64.
const fn audit_architecture(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::X86_64 | Architecture::X32 => 0xc000_003e,
        Architecture::X86 => 0x4000_0003,
        Architecture::Aarch64 => 0xc000_00b7,
        Architecture::Arm => 0x4000_0028,
    }
}

const fn architecture_of(architecture: Architecture) -> ScmpArch {
    match architecture {
        Architecture::X86_64 => ScmpArch::X8664,
        Architecture::X86 => ScmpArch::X86,
        Architecture::X32 => ScmpArch::X32,
        Architecture::Aarch64 => ScmpArch::Aarch64,
        Architecture::Arm => ScmpArch::Arm,
    }
}

fn action(action: Action, errno: Option<u32>) -> ScmpAction {
    match action {
        Action::Allow => ScmpAction::Allow,
        Action::Log => ScmpAction::Log,
        Action::Errno => ScmpAction::Errno(errno.unwrap_or(1).cast_signed()),
        Action::Trap => ScmpAction::Trap,
        Action::KillThread => ScmpAction::KillThread,
        Action::KillProcess => ScmpAction::KillProcess,
    }
}

fn compare(condition: &Condition) -> ScmpArgCompare {
    let (operator, value) = match condition.op {
        Comparison::NotEqual => (ScmpCompareOp::NotEqual, condition.value),
        Comparison::Less => (ScmpCompareOp::Less, condition.value),
        Comparison::LessOrEqual => (ScmpCompareOp::LessOrEqual, condition.value),
        Comparison::Equal => (ScmpCompareOp::Equal, condition.value),
        Comparison::GreaterOrEqual => (ScmpCompareOp::GreaterEqual, condition.value),
        Comparison::Greater => (ScmpCompareOp::Greater, condition.value),
        Comparison::MaskedEqual => (ScmpCompareOp::MaskedEqual(condition.value), condition.value_two),
    };
    ScmpArgCompare::new(condition.index, operator, value)
}

fn refused(what: &str) -> impl FnOnce(libseccomp::error::SeccompError) -> CheckError {
    let what = what.to_owned();
    move |source| CheckError::Refused { what, source }
}

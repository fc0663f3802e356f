//! Policy -> seccomp filter in the format of the OCI runtime specification.

mod allow_list;
mod builtin;
mod filter;
mod names;
mod oci;
mod raw;
mod runtime_default;
#[cfg(test)]
mod tests;

pub use filter::Origin;
pub use names::{is_syscall, nearest_syscall, syscalls};
pub use oci::{Action, Architecture, Comparison, Condition, Flag, OciSeccomp, Syscalls};

use crate::policy::{
    Diagnostic, Document, DynamicResult, EnhanceProtect, Policy, PolicyMode, Severity, item,
};
use crate::rules::syscalls::NOT_PERMITTED;
use filter::{Entry, Filter};

/// What the policy does not say itself.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'i> {
    /// What the nodes execute.
    pub architectures: &'static [Architecture],
    /// What was seen of the workload, for `profileType: BehaviorModel`.
    pub model: Option<&'i DynamicResult>,
}

impl Default for Inputs<'_> {
    fn default() -> Self {
        Self {
            architectures: Architecture::HERE,
            model: None,
        }
    }
}

/// A filter, and what is to be said about it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// None if and only if there is an error among the diagnostics.
    pub profile: Option<OciSeccomp>,
    /// Why each system call stands in the profile, in the order of its names.
    pub origins: Vec<Origin>,
    pub diagnostics: Vec<Diagnostic>,
}

/// System calls that a recording leaves out, because every program makes them all the time.
pub const ALWAYS_NEEDED: &[&str] = &["close", "open", "openat", "openat2", "read", "write"];

/// The filter that the policy in `document` asks for.
#[must_use]
pub fn compile(document: &Document, inputs: Inputs<'_>) -> Compiled {
    let mut compiler = Compiler {
        document,
        inputs,
        filter: Filter::new(Action::Allow, inputs.architectures),
        diagnostics: Vec::new(),
    };
    if let Some(spec) = document.spec() {
        compiler.policy(&spec.policy);
    } else {
        let message = format!("an object of kind {} is not a policy", document.kind());
        compiler.report(
            Severity::Error,
            "kind",
            message,
            "write a VarmorPolicy or a VarmorClusterPolicy",
        );
    }
    compiler.finish()
}

/// A filter while it is made.
struct Compiler<'c> {
    document: &'c Document,
    inputs: Inputs<'c>,
    filter: Filter,
    diagnostics: Vec<Diagnostic>,
}

const RULES: &str = "spec.policy.enhanceProtect";

impl Compiler<'_> {
    fn policy(&mut self, policy: &Policy) {
        match (policy.mode, &policy.enhance_protect) {
            (PolicyMode::AlwaysAllow, _) => {}
            (PolicyMode::RuntimeDefault, _) => runtime_default::add(&mut self.filter),
            (PolicyMode::EnhanceProtect, Some(rules)) => self.enhance_protect(rules),
            (PolicyMode::EnhanceProtect, None) => {
                let message = "the mode EnhanceProtect needs the field `enhanceProtect`".to_owned();
                let help = "add `enhanceProtect:` below `spec.policy`";
                self.report(Severity::Error, "spec.policy.mode", message, help);
            }
            (PolicyMode::BehaviorModeling, _) => self.behavior_modeling(),
            (PolicyMode::DefenseInDepth, _) => allow_list::add(self, policy.defense_in_depth.as_ref()),
        }
    }

    fn enhance_protect(&mut self, rules: &EnhanceProtect) {
        let action = if rules.allow_violations {
            Action::Log
        } else {
            Action::Errno
        };
        if rules.audit_violations {
            self.filter.flags.push(Flag::Log);
        }
        builtin::add(self, rules, action);
        raw::add(
            self,
            &rules.syscall_raw_rules,
            &format!("{RULES}.syscallRawRules"),
        );
    }

    fn behavior_modeling(&mut self) {
        self.filter.default = Action::Log;
        for name in ALWAYS_NEEDED {
            self.filter.push(Entry::allow(name, "behavior-modeling"));
        }
    }

    fn report(&mut self, severity: Severity, field: &str, message: String, help: &str) {
        self.diagnostics
            .push(self.document.diagnostic(severity, field, message, help));
    }

    fn finish(mut self) -> Compiled {
        let empty = Filter::new(Action::Allow, &[]);
        let resolved = std::mem::replace(&mut self.filter, empty).resolve();
        for problem in resolved.problems {
            self.report(problem.severity, &problem.field, problem.message, problem.help);
        }
        let failed = self.diagnostics.iter().any(Diagnostic::is_error);
        Compiled {
            profile: (!failed).then_some(resolved.profile),
            origins: resolved.origins,
            diagnostics: self.diagnostics,
        }
    }
}

/// The path of a field of the rule `field[index]`.
fn part(field: &str, index: usize, name: &str) -> String {
    format!("{}.{name}", item(field, index))
}

/// The answer of filters that allow only what they name.
const DEFAULT_ERRNO: u32 = NOT_PERMITTED;

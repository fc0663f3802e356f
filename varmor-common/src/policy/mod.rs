//! Policies as users write them: the custom resources of `crd.varmor.org/v1beta1`, their text form with positions
//! for diagnostics, and everything that can be said about them without knowing what a rule means to a kernel.

mod armor_profile;
mod armor_profile_model;
mod bpf_raw;
mod cluster;
#[cfg(test)]
mod crd_rules;
mod diagnostic;
mod enforcer;
mod enhance_protect;
mod modeling;
mod network_proxy;
mod port;
mod status;
pub(crate) mod suggest;
mod syscall_raw;
mod target;
mod text;
mod varmor_policy;
pub mod vocabulary;

pub use armor_profile::*;
pub use armor_profile_model::*;
pub use bpf_raw::*;
pub use cluster::*;
pub(crate) use diagnostic::quoted;
pub use diagnostic::{Diagnostic, Severity, render};
pub use enforcer::{Enforcers, PolicyMode, UnknownEnforcer};
pub use enhance_protect::{AppArmorRawRules, AttackProtectionRules, EnhanceProtect, NetworkProxyRawRules};
pub use modeling::*;
pub use network_proxy::*;
pub use port::Port;
pub use status::*;
pub use syscall_raw::{SyscallArg, SyscallRawRule};
pub use target::{Target, TargetKind, selector_matches};
pub(crate) use text::item;
pub use text::{Document, Loaded, Object, load, load_yaml};
pub use varmor_policy::{ClusterPolicySpec, Policy, PolicySpec, VarmorClusterPolicy, VarmorPolicy};

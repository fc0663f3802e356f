//! The enforcer-independent meaning of a policy: a list of rules with an id, an origin, a verdict and an object
//! in the kernel's terms. Compilers and explainers read it. What only one enforcer can say is beside the rules: `apparmor`
//! checks what users write for it, and a policy's filter of system calls is carried as its compiler made it.

mod allow_list;
pub mod apparmor;
mod build;
mod builtin;
mod defaults;
mod destination;
mod facts;
mod merge;
mod name;
mod peers;
mod pod;
mod raw;
mod rule;
mod target;
#[cfg(test)]
mod tests;

pub use apparmor::{AppArmorBase, AppArmorPart, RawStatement};
pub use build::{Built, ClusterFacts, build, build_in, build_with};
pub use defaults::{DEFAULT_RULE, Defaults, Kinds};
pub use facts::{Disk, NodeFacts};
pub use name::{MANAGER_NAMESPACE, profile_name, profile_name_apart};
pub use peers::egress_peers;
pub use rule::{
    Access, CapabilitySet, DeviceAccess, DeviceKind, DeviceRule, EgressRule, IngressRule, MountRule, Object,
    Origin, PortRange, Profile, ProfileMode, PtraceAccess, PtraceRule, PtraceScope, Rule, SocketRule,
    Verdict,
};
pub use target::{InertRule, TargetGroup};

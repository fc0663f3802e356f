//! The enforcer-independent meaning of a policy: a list of rules with an id, an origin, a verdict and an object
//! in the kernel's terms. Compilers and explainers read it; nothing here knows an enforcer's format.

mod build;
mod builtin;
mod destination;
mod facts;
mod merge;
mod name;
mod raw;
mod rule;
#[cfg(test)]
mod tests;

pub use build::{Built, build};
pub use facts::NodeFacts;
pub use name::{MANAGER_NAMESPACE, profile_name};
pub use rule::{
    Access, CapabilitySet, EgressRule, IngressRule, MountRule, Object, Origin, PortRange, Profile,
    ProfileMode, PtraceAccess, PtraceRule, PtraceScope, Rule, SocketRule, Verdict,
};

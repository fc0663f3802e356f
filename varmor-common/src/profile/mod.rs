//! The enforcer-independent meaning of a policy: a list of rules with an id, an origin, a verdict and an object
//! in the kernel's terms. Compilers and explainers read it; nothing here knows an enforcer's format.

mod rule;

pub use rule::{
    Access, CapabilitySet, EgressRule, MountRule, Object, Origin, PortRange, Profile, ProfileMode, PtraceAccess,
    PtraceRule, PtraceScope, Rule, SocketRule, Verdict,
};

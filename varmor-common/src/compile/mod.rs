//! From a profile to what one enforcer needs.

pub mod apparmor;
pub mod bpf;
pub mod seccomp;

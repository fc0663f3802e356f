//! What every part of varmor shares: the bytes of the kernel interface, the matching engine, the policy
//! model, the built-in rules, the enforcer-independent profile and the compilers.
//!
//! Without the default feature `std` only [`abi`] and the kernel half of [`matcher`] remain; that is what
//! `varmor-ebpf` links.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

pub mod abi;
#[cfg(feature = "std")]
pub mod analysis;
#[cfg(feature = "std")]
pub mod audit;
#[cfg(feature = "std")]
pub mod compile;
#[cfg(feature = "std")]
pub mod fingerprint;
pub mod matcher;
#[cfg(feature = "std")]
pub mod model;
#[cfg(feature = "std")]
pub mod policy;
#[cfg(feature = "std")]
pub mod profile;
#[cfg(feature = "std")]
pub mod report;
#[cfg(feature = "std")]
pub mod rules;

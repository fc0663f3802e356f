//! The controller of a cluster: policies become `ArmorProfile`s for the nodes, and what the nodes report becomes the
//! status of the policies.
#![forbid(unsafe_code)]

pub mod admission;
pub mod certificate;
pub mod crds;
pub mod https;

//! The node agent and the command line: everything of varmor that touches a kernel.
//!
//! Data flows one way: [`source`] (which policies) and [`containers`] (who runs here) meet in [`reconcile`],
//! which drives an [`enforcer`]; what the kernel reports comes back through [`events`].
#![deny(unsafe_code)]

pub mod cli;
pub mod containers;
pub mod control;
pub mod daemon;
pub mod enforcer;
pub mod events;
pub mod files;
pub mod kernel;
pub mod logging;
pub(crate) mod memory;
pub mod observe;
pub mod reconcile;
pub mod source;
pub mod text;

//! The Seccomp enforcer: filters as files that the container runtime loads, checked before they are written.

pub mod cbpf;
pub mod check;
#[cfg(test)]
mod raw;
pub mod store;
#[cfg(test)]
mod tests;

pub use cbpf::{Answer, Program};
pub use check::{Assembled, CheckError, assemble};
pub use store::{SeccompStore, StoreError};

use varmor_common::compile::seccomp::OciSeccomp;

/// Loads the filter into every thread of this process, for ever. Whoever runs without `CAP_SYS_ADMIN` gives up new
/// privileges with it; so does everybody here.
pub fn load_into_this_process(profile: &OciSeccomp) -> Result<(), CheckError> {
    assemble(profile)?.load(check::Threads::All)
}

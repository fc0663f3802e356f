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
pub use store::{FilterFlags, SeccompStore, StoreError};

use varmor_common::compile::seccomp::{Architecture, OciSeccomp};

/// Loads the filters into every thread of this process, for ever. Whoever runs without `CAP_SYS_ADMIN` gives up new
/// privileges with it; others keep theirs, as under container runtimes.
pub fn load_into_this_process(profiles: &[OciSeccomp]) -> Result<(), CheckError> {
    let mut filters = in_order(profiles)?;
    // Everything else is done before: the first filter may refuse it.
    for filter in &mut filters {
        filter.prepare(check::Threads::All)?;
    }
    filters.iter().try_for_each(Assembled::load)
}

/// The filters in an order in which they can be loaded, as far as there is one: those that refuse to load another one
/// stand last. Of these only one can be loaded; the kernel refuses the next, and with it the whole.
fn in_order(profiles: &[OciSeccomp]) -> Result<Vec<Assembled>, CheckError> {
    /// `SECCOMP_SET_MODE_FILTER`
    const SET_FILTER: u64 = 1;
    let mut filters = Vec::new();
    for profile in profiles {
        let filter = assemble(profile)?;
        let answer = filter
            .program()?
            .ask(Architecture::HERE[0], "seccomp", &[SET_FILTER])?;
        filters.push((!matches!(answer, Answer::Allow | Answer::Log), filter));
    }
    filters.sort_by_key(|(is_last, _)| *is_last);
    Ok(filters.into_iter().map(|(_, filter)| filter).collect())
}

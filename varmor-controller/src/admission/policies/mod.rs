//! The policies as admission knows them: every replica follows both kinds by itself, and decides about nothing before it
//! has seen all of them once.

mod known;
mod lookup;
mod table;
mod watch;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

pub(crate) use known::{Candidate, Known};
pub(crate) use lookup::lookup;
pub(crate) use table::{Scope, Table};
pub(crate) use watch::follow;

/// The shared table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies(Arc<RwLock<Table>>);

impl Policies {
    /// The table of the moment. It must not be held across a wait.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Table> {
        // Every change of the table is complete before anything can panic.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the table.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

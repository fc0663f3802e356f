//! The interface of an enforcer that only keeps profiles: whoever starts a container names one of them.

use varmor_common::policy::Enforcers;
use varmor_common::profile::Profile;

use super::EnforcerError;

/// Owner of the profiles of one enforcer on this machine. There are no bindings: the container runtime puts a
/// container under the profile that its settings name.
pub trait ProfileStore: Send {
    /// The one enforcer that the profiles are for.
    fn enforcer(&self) -> Enforcers;
    /// Compiles and then puts into force; on an error the old version stays in force.
    fn apply(&mut self, profile: &Profile) -> Result<Stored, EnforcerError>;
    /// Takes a profile of ours away; not an error when there is none.
    fn remove(&mut self, name: &str) -> Result<(), EnforcerError>;
    /// The names of the profiles that are in force and were put there by us, also by an earlier process.
    fn profiles(&self) -> Result<Vec<String>, EnforcerError>;
}

/// What `apply` put into force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub rules: usize,
    /// Rules that this kernel or this enforcer cannot hold: id and reason.
    pub unsupported: Vec<(String, String)>,
}

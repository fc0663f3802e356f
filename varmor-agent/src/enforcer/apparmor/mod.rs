//! The `AppArmor` enforcer: profiles are compiled by `apparmor_parser` and loaded through the kernel's own interface.
//!
//! Compiling and loading are two steps, so a text that does not compile never touches what is loaded. Only profiles
//! whose name begins with ours and which stand in our ledger are ever removed.

mod kernel;
mod ledger;
mod parser;

use std::path::{Path, PathBuf};

use varmor_common::compile::apparmor::{self, Features, PREFIX};
use varmor_common::policy::Enforcers;
use varmor_common::profile::Profile;

use self::kernel::Kernel;
use self::ledger::Ledger;
use self::parser::Parser;
use super::{EnforcerError, ProfileStore, Stored};

pub use kernel::enter_at_exec;

/// The loaded profiles of varmor.
pub struct AppArmorStore {
    kernel: Kernel,
    parser: Parser,
    features: Features,
    ledger: Ledger,
}

/// Where the ledger is kept.
const LEDGER: &str = "apparmor.json";

/// Opens the enforcer, or says why this machine has none.
pub fn open(state_dir: &Path) -> Result<AppArmorStore, EnforcerError> {
    open_at(PathBuf::from(kernel::SECURITYFS), state_dir)
}

fn open_at(securityfs: PathBuf, state_dir: &Path) -> Result<AppArmorStore, EnforcerError> {
    let kernel = Kernel::open(securityfs)?;
    let parser = Parser::find(kernel.features())?;
    let features = kernel.known_features(parser.is_modern());
    Ok(AppArmorStore {
        kernel,
        parser,
        features,
        ledger: Ledger::open(&state_dir.join(LEDGER))?,
    })
}

/// Whether this machine can enforce `AppArmor` profiles: the parser's version, or what is missing.
pub fn support() -> Result<String, EnforcerError> {
    let kernel = Kernel::open(PathBuf::from(kernel::SECURITYFS))?;
    let parser = Parser::find(kernel.features())?;
    Ok(parser.version().to_owned())
}

impl AppArmorStore {
    /// Removes loaded profiles that `is_garbage` names and that the ledger does not know: what a killed `varmor run`
    /// left behind. Profiles without our prefix are never shown to it.
    pub fn collect(&mut self, is_garbage: impl Fn(&str) -> bool) -> Result<usize, EnforcerError> {
        let loaded = self.kernel.loaded()?;
        let garbage: Vec<&String> = loaded
            .iter()
            .filter(|name| is_ours(name) && !self.ledger.contains(name) && is_garbage(name))
            .collect();
        for name in &garbage {
            self.kernel.remove(name)?;
        }
        Ok(garbage.len())
    }
}

fn is_ours(name: &str) -> bool {
    name.starts_with(PREFIX) && !name.contains("//")
}

impl ProfileStore for AppArmorStore {
    fn enforcer(&self) -> Enforcers {
        Enforcers::APPARMOR
    }

    fn apply(&mut self, profile: &Profile) -> Result<Stored, EnforcerError> {
        let compiled = apparmor::compile(profile, self.features).map_err(|error| EnforcerError::Refused {
            profile: profile.name.clone(),
            reason: error.to_string(),
        })?;
        let Some(artefact) = compiled else {
            return Err(EnforcerError::Refused {
                profile: profile.name.clone(),
                reason: "the policy does not name AppArmor".to_owned(),
            });
        };
        let binary = self.parser.compile(&profile.name, &artefact.text)?;
        // Known before it is loaded: what is loaded and not known would stay for ever.
        self.ledger.add(&profile.name)?;
        self.kernel.replace(&profile.name, &binary)?;
        Ok(Stored {
            rules: artefact.rules,
            unsupported: artefact
                .unsupported
                .into_iter()
                .map(|missing| (missing.rule, missing.reason))
                .collect(),
        })
    }

    fn remove(&mut self, name: &str) -> Result<(), EnforcerError> {
        if !is_ours(name) || !self.ledger.contains(name) {
            return Ok(());
        }
        if self.kernel.loaded()?.iter().any(|loaded| loaded == name) {
            self.kernel.remove(name)?;
        }
        self.ledger.remove(name)
    }

    fn profiles(&self) -> Result<Vec<String>, EnforcerError> {
        let loaded = self.kernel.loaded()?;
        Ok(loaded
            .into_iter()
            .filter(|name| is_ours(name) && self.ledger.contains(name))
            .collect())
    }
}

#[cfg(test)]
mod tests;

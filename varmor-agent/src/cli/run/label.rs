//! The `AppArmor` profile of a run. It is named after the process of the run and goes with it.

use std::path::Path;

use anyhow::Context as _;
use varmor_common::profile::Profile;

use super::place::Place;
use crate::enforcer::apparmor::{self, AppArmorStore};
use crate::enforcer::{EnforcerError, ProfileStore as _};

const PREFIX: &str = "varmor-run-";

pub(super) struct Label {
    store: AppArmorStore,
    name: String,
}

impl Label {
    /// Loads the profile under the name of this run.
    pub(super) fn load(mut profile: Profile, place: &Place) -> anyhow::Result<Self> {
        profile.name = format!("{PREFIX}{}", std::process::id());
        let mut store = apparmor::open(place.state_dir()).context("start the AppArmor enforcer")?;
        store
            .collect(is_abandoned)
            .context("remove profiles of runs that were killed")?;
        let stored = store.apply(&profile).context("load the AppArmor profile")?;
        for (rule, reason) in &stored.unsupported {
            eprintln!("varmor: AppArmor: not enforced: {rule}: {reason}");
        }
        Ok(Self {
            store,
            name: profile.name,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn unload(&mut self) -> Result<(), EnforcerError> {
        self.store.remove(&self.name)
    }
}

impl Drop for Label {
    /// Also after an error; removing twice does no harm.
    fn drop(&mut self) {
        if let Err(error) = self.unload() {
            eprintln!("varmor: {error}");
        }
    }
}

/// Is this the profile of a run whose process is gone?
fn is_abandoned(name: &str) -> bool {
    let pid = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

#[cfg(test)]
mod tests {
    use super::is_abandoned;

    #[test]
    fn only_profiles_of_runs_that_ended_are_abandoned() {
        assert!(is_abandoned("varmor-run-4294967294"));
        assert!(!is_abandoned(&format!("varmor-run-{}", std::process::id())));
        assert!(!is_abandoned("varmor-demo-web"));
        assert!(!is_abandoned("varmor-run-x"));
    }
}

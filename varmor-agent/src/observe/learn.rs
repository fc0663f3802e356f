//! From a recording to a model.

use anyhow::Context as _;
use varmor_common::model::{self, Behaviour, HoldOut, Recording, Settings};
use varmor_common::policy::{ArmorProfileModel, Learning};

/// How it is learned.
#[derive(Clone, Copy, Debug)]
pub struct Learner {
    pub settings: Settings,
    /// So many percent of the recording are held out once, to see how well the rest foretells them.
    pub hold_out: u8,
}

impl Default for Learner {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            hold_out: 20,
        }
    }
}

impl Learner {
    /// The model of a recording, under the name of the profile that it is for.
    pub fn learn(
        self,
        recording: &Recording,
        name: &str,
        namespace: &str,
    ) -> anyhow::Result<ArmorProfileModel> {
        let (behaviour, generalisations) = model::generalise(&Behaviour::of(recording), &self.settings);
        let mut held_out = Vec::new();
        if self.hold_out > 0 {
            for hold_out in [HoldOut::Time(self.hold_out), HoldOut::Operations(self.hold_out)] {
                let report = model::held_out(recording, hold_out, &self.settings);
                held_out.push(report.context("judge the part that was held out")?);
            }
        }
        let learning = Learning {
            events: recording.events(),
            losses: recording.losses,
            generalisations,
            held_out,
        };
        Ok(model::model(name, namespace, &behaviour, learning))
    }
}

/// The object as YAML.
pub fn yaml(model: &ArmorProfileModel) -> anyhow::Result<String> {
    serde_saphyr::to_string(model).context("write the model")
}

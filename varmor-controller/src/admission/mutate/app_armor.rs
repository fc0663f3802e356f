//! The AppArmor profile of a container.

use serde_json::json;

use super::assign::Share;
use super::container::Outcome;
use super::slots::Slots;
use super::{Facts, keys};

const FIELD: &str = "appArmorProfile";

/// Sets the profile: by the field where Kubernetes has it, else by the annotation that came before it.
pub(super) fn apply(slots: &mut Slots<'_>, container: &str, share: &Share, facts: &Facts) -> Outcome {
    let own = format!("{}{container}", keys::APP_ARMOR);
    let kubernetes = format!("{}{container}", keys::KUBERNETES_APP_ARMOR);
    for key in [&own, &kubernetes] {
        if slots.annotation(key) == Some(keys::UNCONFINED) {
            return Outcome::LeftAlone(format!("the annotation {key} is `unconfined`"));
        }
    }
    let unconfined = slots
        .effective(container, FIELD)
        .is_some_and(|profile| profile["type"] == "Unconfined");
    if facts.app_armor_field && unconfined {
        return Outcome::LeftAlone(format!("its securityContext.{FIELD} is `Unconfined`"));
    }
    let value = keys::localhost(&share.profile);
    slots.set_annotation(&own, Some(&value));
    if facts.app_armor_field {
        // The API server refuses a pod whose annotation and field differ.
        slots.set_annotation(&kubernetes, None);
        let profile = json!({"type": "Localhost", "localhostProfile": share.profile});
        slots.set_field(container, FIELD, profile);
    } else {
        slots.set_annotation(&kubernetes, Some(&value));
    }
    Outcome::Protected
}

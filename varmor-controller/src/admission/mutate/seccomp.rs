//! The seccomp profile of a container.

use serde_json::json;
use varmor_common::policy::PolicyMode;

use super::assign::Share;
use super::container::Outcome;
use super::keys;
use super::slots::Slots;

const FIELD: &str = "seccompProfile";

/// Sets the profile; in the mode `RuntimeDefault` that is the one of the container runtime.
pub(super) fn apply(slots: &mut Slots<'_>, container: &str, share: &Share) -> Outcome {
    let key = format!("{}{container}", keys::SECCOMP);
    if slots.annotation(&key) == Some(keys::UNCONFINED) {
        return Outcome::LeftAlone(format!("the annotation {key} is `unconfined`"));
    }
    if slots.is_privileged(container) {
        return Outcome::LeftAlone(
            "it is privileged, and the runtime gives such containers no filter".to_owned(),
        );
    }
    let unconfined = slots
        .effective(container, FIELD)
        .is_some_and(|profile| profile["type"] == "Unconfined");
    if unconfined {
        return Outcome::LeftAlone(format!("its securityContext.{FIELD} is `Unconfined`"));
    }
    slots.set_annotation(&key, Some(&keys::localhost(&share.profile)));
    let profile = match share.mode {
        PolicyMode::RuntimeDefault => json!({"type": "RuntimeDefault"}),
        _ => json!({"type": "Localhost", "localhostProfile": share.profile}),
    };
    slots.set_field(container, FIELD, profile);
    Outcome::Protected
}

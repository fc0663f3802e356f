//! The mark by which the BPF enforcer of a node knows a container.

use super::assign::Share;
use super::container::Outcome;
use super::keys;
use super::slots::Slots;

/// Marks the container.
pub(super) fn apply(slots: &mut Slots<'_>, container: &str, share: &Share) -> Outcome {
    let key = format!("{}{container}", keys::BPF);
    if slots.annotation(&key) == Some(keys::UNCONFINED) {
        return Outcome::LeftAlone(format!("the annotation {key} is `unconfined`"));
    }
    slots.set_annotation(&key, Some(&keys::localhost(&share.profile)));
    Outcome::Protected
}

/// Says to the node, which cannot tell the containers of a pod apart otherwise, that no policy means this one.
pub(super) fn leave_out(slots: &mut Slots<'_>, container: &str) {
    slots.set_annotation(&format!("{}{container}", keys::BPF), Some(keys::UNCONFINED));
}

//! One look at one policy: what it should have come to is compared with what there is, and the difference is written.
//!
//! Guarantees: the result depends on the state of the cluster alone, never on which event came; an `ArmorProfile` goes
//! only after the API server has said that its policy is gone; a change that is refused leaves the last good one in force.

use std::time::Duration;

use serde_json::Value;
use varmor_common::policy::ArmorProfileSpec;

use super::apply;
use super::desired::{Facts, apply_object, is_current, needs_model, spec};
use super::existing::{is_restart_needed, roll, roll_existing};
use crate::admission::between;
use crate::context::Context;
use crate::object::{Policy, PolicyKey, Profile, ProfileKey, Wish};
use crate::reasons;
use crate::workload::Cause;
use crate::world::{Outcome, Problem};

/// Why a policy could not be brought to its state; tried again later.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what}")]
    Api {
        what: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("workloads cannot be rolled, so their pods run without the profile until they are replaced: {0}")]
    NotRolled(String),
    #[error("{0} still exists, so the ArmorProfile {1} stays; it is looked at again")]
    Late(PolicyKey, ProfileKey),
    #[error("another object has the name `{0}` of the ArmorProfile; it is looked at again")]
    Unknown(ProfileKey),
    #[error(
        "the Services, EndpointSlices or Pods that the rules name are not read yet; the controller must be allowed to list and watch them"
    )]
    Addresses,
}

/// What is known of a policy when the look begins.
struct Seen {
    policy: Option<Policy>,
    profiles: Vec<Profile>,
}

/// Brings one policy to its state. The answer says when to look again although nothing happens.
pub async fn reconcile(context: &Context, key: &PolicyKey) -> Result<Option<Duration>, Error> {
    let seen = {
        let world = context.world();
        Seen {
            policy: world.policy(key).cloned(),
            profiles: world.profiles_of(key).cloned().collect(),
        }
    };
    match seen.policy {
        None => gone(context, key, &seen.profiles).await.map(|()| None),
        Some(policy) => {
            let result = present(context, &policy, &seen.profiles).await;
            if let Err(error) = &result {
                let message = crate::told(error);
                let problem = Problem {
                    reason: reasons::ERROR,
                    message: format!("{message}; it is tried again"),
                };
                let profile = seen.profiles.first().map(|one| one.key.clone());
                context
                    .world()
                    .set_outcome(key, outcome(&policy, profile, Some(problem)));
            }
            result
        }
    }
}

/// The policy is gone: so goes what was made of it.
async fn gone(context: &Context, key: &PolicyKey, profiles: &[Profile]) -> Result<(), Error> {
    let Some(first) = profiles.first() else {
        return Ok(());
    };
    // A watch may be late; what protects workloads does not go on hearsay.
    let live = apply::live_uid(&context.client, key).await;
    if let Some(uid) = live.map_err(api(format!("look whether {key} still exists")))? {
        if profiles
            .iter()
            .any(|profile| profile.owner_uid() == Some(uid.as_str()))
        {
            return Err(Error::Late(key.clone(), first.key.clone()));
        }
        // A new policy of the same name takes over; its own look will come.
        return Ok(());
    }
    for profile in profiles {
        remove(context, key, profile).await?;
        tracing::info!(policy = %key, profile = %profile.key, "the policy is gone and its profile with it");
    }
    Ok(())
}

async fn remove(context: &Context, key: &PolicyKey, profile: &Profile) -> Result<(), Error> {
    let client = &context.client;
    if let Some(spec) = profile
        .spec()
        .filter(|spec| spec.update_existing_workloads && is_restart_needed(spec))
    {
        let uid = profile.owner_uid().unwrap_or(&profile.uid);
        // Who refuses a roll cannot keep a profile, and with it a namespace, from going.
        for workload in roll(context, key, &spec, &Cause::Deleted.mark(uid)).await? {
            tracing::warn!(policy = %key, workload, "a workload is not rolled; its pods keep their profile until they end");
        }
    }
    if !profile.is_deleting {
        apply::delete(client, profile)
            .await
            .map_err(api(format!("delete the ArmorProfile {}", profile.key)))?;
    }
    apply::release(client, profile).await.map_err(api(format!(
        "take the finalizer from the ArmorProfile {}",
        profile.key
    )))
}

/// The policy exists.
async fn present(
    context: &Context,
    policy: &Policy,
    profiles: &[Profile],
) -> Result<Option<Duration>, Error> {
    let key = &policy.key;
    let is_own = |profile: &&Profile| profile.owner_uid() == Some(policy.uid.as_str());
    for profile in profiles.iter().filter(|profile| profile.is_deleting) {
        if policy.is_deleting || !is_own(&profile) {
            remove(context, key, profile).await?;
            return Ok(Some(Duration::from_millis(200)));
        }
    }
    let known = profiles.iter().find(is_own).or(profiles.first());
    // Not within the `match`, which would hold the table to its end.
    let given = context.world().name(key);
    let name = match given {
        Ok(name) => name,
        Err(error) => {
            let problem = problem(reasons::NAME_TAKEN, error.to_string());
            context
                .world()
                .set_outcome(key, outcome(policy, None, Some(problem)));
            return Ok(None);
        }
    };
    let profile_key = ProfileKey {
        namespace: context.world().home(key),
        name,
    };
    let known = known.filter(|profile| profile.key == profile_key);
    let last_good = known.filter(is_own).and_then(|known| last_good(key, known));
    let (source, mut problem) = judge(policy, known.filter(is_own), last_good);
    let Some(source) = source else {
        context.world().set_outcome(key, outcome(policy, None, problem));
        return Ok(None);
    };
    if known.is_none() && policy.is_deleting {
        return Ok(None);
    }
    let facts = match facts(context, key, &profile_key, &source.wish).await? {
        Ok(facts) => facts,
        Err(missing) => {
            let profile = known.map(|known| known.key.clone());
            context
                .world()
                .set_outcome(key, outcome(policy, profile, Some(missing)));
            return Ok(None);
        }
    };
    let spec = spec(
        key,
        source.generation,
        source.text,
        &source.wish,
        &profile_key.name,
        facts,
    );
    write(context, policy, known, &profile_key, &spec).await?;
    if known.is_some_and(|known| known.is_deleting) && problem.is_none() {
        problem = Some(self::problem(
            reasons::PROFILE_DELETED,
            format!(
                "the ArmorProfile {profile_key} was deleted although its policy exists; it stays in force, and goes when the policy goes"
            ),
        ));
    }
    context
        .world()
        .set_outcome(key, outcome(policy, Some(profile_key.clone()), problem));
    roll_existing(context, policy, &profile_key, &spec).await
}

/// What an `ArmorProfile` is made from.
struct Source {
    wish: Wish,
    text: Value,
    generation: i64,
}

/// The policy as it is, or the last good state of it and why it cannot be the present one.
fn judge(
    policy: &Policy,
    known: Option<&Profile>,
    last_good: Option<Source>,
) -> (Option<Source>, Option<Problem>) {
    let text: Value = serde_json::from_str(&policy.spec).unwrap_or_default();
    match Wish::read(&policy.key, &text) {
        Err(message) => (last_good, Some(problem(reasons::INVALID, message))),
        Ok(wish) => {
            // Admission refuses the same, where it is on. How far a recording is only the API server's answer tells, so that
            // part is left to it.
            let before = known.and_then(Profile::spec).and_then(|spec| spec.policy);
            let refusals = before.map(|before| between(&before.spec, &text, None));
            if let Some(message) = refusals.and_then(|refusals| refusals.into_iter().next()) {
                return (last_good, Some(problem(reasons::FORBIDDEN, message)));
            }
            let source = Source {
                wish,
                text,
                generation: policy.generation,
            };
            (Some(source), None)
        }
    }
}

fn last_good(key: &PolicyKey, known: &Profile) -> Option<Source> {
    let source = known.spec()?.policy?;
    Some(Source {
        wish: Wish::read(key, &source.spec).ok()?,
        text: source.spec,
        generation: source.generation,
    })
}

/// What the cluster knows, or what is missing.
async fn facts(
    context: &Context,
    key: &PolicyKey,
    profile: &ProfileKey,
    wish: &Wish,
) -> Result<Result<Facts, Problem>, Error> {
    let mut facts = Facts::default();
    if needs_model(&wish.spec.policy) {
        let model = apply::model(&context.client, profile).await;
        facts.model = model.map_err(api(format!("read the ArmorProfileModel {profile}")))?;
        if facts.model.is_none() {
            let message = format!(
                "spec.policy.defenseInDepth: the profile type BehaviorModel needs the ArmorProfileModel {profile}, which does not exist; create it, or record it with the mode BehaviorModeling"
            );
            return Ok(Err(problem(reasons::NO_MODEL, message)));
        }
    }
    if !wish.peers.is_empty() && !context.addresses_known(&wish.peers).await {
        return Err(Error::Addresses);
    }
    let world = context.world();
    facts.workloads = world.workloads_of(key, &wish.spec.target);
    facts.egress = world.addresses_of(&wish.peers);
    Ok(Ok(facts))
}

async fn write(
    context: &Context,
    policy: &Policy,
    known: Option<&Profile>,
    key: &ProfileKey,
    spec: &ArmorProfileSpec,
) -> Result<(), Error> {
    if known.is_some_and(|known| is_current(policy, known, spec)) {
        return Ok(());
    }
    if known.is_none() {
        let exists = apply::exists(&context.client, key).await;
        if exists.map_err(api(format!("look for the ArmorProfile {key}")))? {
            return Err(Error::Unknown(key.clone()));
        }
    }
    let object = apply_object(policy, known, &key.namespace, spec);
    let written = apply::apply(&context.client, key, &object)
        .await
        .map_err(api(format!("write the ArmorProfile {key}")))?;
    if let Some(written) = written {
        context.world().set_profile(written);
    }
    tracing::info!(policy = %policy.key, profile = %key, generation = policy.generation, "profile written");
    Ok(())
}

fn outcome(policy: &Policy, profile: Option<ProfileKey>, problem: Option<Problem>) -> Outcome {
    Outcome {
        uid: policy.uid.clone(),
        generation: policy.generation,
        profile,
        problem,
    }
}

fn problem(reason: &'static str, message: String) -> Problem {
    Problem { reason, message }
}

pub(super) fn api(what: String) -> impl FnOnce(kube::Error) -> Error {
    |source| Error::Api {
        what,
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::tests as objects;

    fn stored(policy: &Policy) -> Profile {
        let text: Value = serde_json::from_str(&policy.spec).unwrap();
        let wish = Wish::read(&policy.key, &text).unwrap();
        let spec = spec(&policy.key, 1, text, &wish, "varmor-demo-web", Facts::default());
        let object = apply_object(policy, None, "demo", &spec);
        Profile::read(serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn a_target_cannot_be_changed_and_the_old_state_stays() {
        let old = objects::policy(Some("demo"), "web", "u1", &objects::spec("BPF"));
        let known = stored(&old);
        let mut text = objects::spec("BPF");
        text["target"]["name"] = "other".into();
        let mut new = objects::policy(Some("demo"), "web", "u1", &text);
        new.generation = 2;
        let (source, problem) = judge(&new, Some(&known), last_good(&new.key, &known));
        assert_eq!(problem.unwrap().reason, reasons::FORBIDDEN);
        let source = source.unwrap();
        assert_eq!(
            (source.generation, source.wish.spec.target.name.as_deref()),
            (1, Some("web"))
        );
        assert!(
            judge(&new, None, None).1.is_none(),
            "a new policy may have any target"
        );
    }

    #[test]
    fn an_invalid_change_leaves_the_last_good_state() {
        let old = objects::policy(Some("demo"), "web", "u1", &objects::spec("BPF"));
        let known = stored(&old);
        let bad = objects::policy(Some("demo"), "web", "u1", &objects::spec("PBF"));
        let (source, problem) = judge(&bad, Some(&known), last_good(&bad.key, &known));
        assert_eq!(problem.unwrap().reason, reasons::INVALID);
        assert_eq!(
            source.unwrap().wish,
            Wish::read(&old.key, &objects::spec("BPF")).unwrap()
        );
        let (source, problem) = judge(&bad, None, None);
        assert!(source.is_none() && problem.is_some());
    }
}

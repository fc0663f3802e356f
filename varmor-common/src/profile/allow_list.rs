//! The mode `DefenseInDepth`: everything is refused unless a rule of the custom profile allows it.

use std::borrow::Cow;

use super::build::Builder;
use super::{Access, CapabilitySet, Defaults, Kinds, Object, Origin, Verdict, raw};
use crate::model::{self, Behaviour};
use crate::policy::vocabulary as words;
use crate::policy::{BpfAllowList, BpfCustomProfile, DefenseInDepth, ProfileType, Severity};

const FIELD: &str = "spec.policy.defenseInDepth";

/// Adds the allow-list and the default that it is an exception from.
pub(super) fn add(builder: &mut Builder<'_>, defense: Option<&DefenseInDepth>) {
    let Some(bpf) = defense.and_then(|defense| defense.bpf.as_ref()) else {
        let message = "the mode DefenseInDepth with the enforcer BPF needs the field `defenseInDepth.bpf`";
        let help =
            "add `bpf:` with `profileType: Custom` and `customProfile:` below `spec.policy.defenseInDepth`";
        return builder.report(Severity::Error, "spec.policy.mode", message.to_owned(), help);
    };
    let Some((custom, field)) = custom_profile(builder, bpf) else {
        return;
    };
    add_empty(builder, &format!("{FIELD}.bpf"));
    let field = format!("{FIELD}.bpf.{field}");
    builder.allow_list = true;
    raw::add(builder, &custom.rules, &field);
    capabilities(builder, &custom, &format!("{field}.capabilities"));
    builder.allow_list = false;
    if bpf.profile_type == ProfileType::Custom {
        warn_of_standstill(builder, &field);
    }
}

/// An allow-list that allows nothing, asked for at `field`.
pub(super) fn add_empty(builder: &mut Builder<'_>, field: &str) {
    builder.profile.default = Defaults {
        denied: Kinds::ALL,
        audited: Kinds::NONE,
        origin: Origin {
            policy: builder.document.identity(),
            field: field.to_owned(),
        },
    };
}

/// The list, and the field that it comes from.
fn custom_profile<'p>(
    builder: &mut Builder<'_>,
    bpf: &'p BpfAllowList,
) -> Option<(Cow<'p, BpfCustomProfile>, &'static str)> {
    match (bpf.profile_type, &bpf.custom_profile) {
        (ProfileType::Custom, Some(custom)) => Some((Cow::Borrowed(custom), "customProfile")),
        (ProfileType::Custom, None) => {
            let message = "the profile type Custom needs the field `customProfile`".to_owned();
            let help =
                "add `customProfile:` with what the container may do, at least `processes:` and `files:`";
            builder.report(
                Severity::Error,
                &format!("{FIELD}.bpf.profileType"),
                message,
                help,
            );
            None
        }
        (ProfileType::BehaviorModel, _) => {
            let behaviour = behaviour(builder, &format!("{FIELD}.bpf.profileType"))?;
            Some((Cow::Owned(model::custom_profile(&behaviour)), "profileType"))
        }
    }
}

/// What was recorded of the workload.
fn behaviour(builder: &mut Builder<'_>, field: &str) -> Option<Behaviour> {
    let result = builder.model.filter(|result| result.bpf.is_some());
    let Some(result) = result else {
        let message = "there is no behaviour model for this policy".to_owned();
        let help = "record one with `varmor learn`, and give it with `--model` or in the same file";
        builder.report(Severity::Error, field, message, help);
        return None;
    };
    match Behaviour::read(result) {
        Ok(behaviour) => Some(behaviour),
        Err(error) => {
            let message = format!("the behaviour model cannot be read: {error}");
            builder.report(
                Severity::Error,
                field,
                message,
                "record it again with `varmor learn`",
            );
            None
        }
    }
}

fn capabilities(builder: &mut Builder<'_>, custom: &BpfCustomProfile, field: &str) {
    let named = custom
        .capabilities
        .iter()
        .filter_map(|word| words::capabilities(word));
    let set = named.fold(0, |all, one| all | one.0);
    if set != 0 {
        raw::push(builder, field, &[], Object::Capability(CapabilitySet(set)));
    }
}

/// A container whose own program may not run is never what was meant.
fn warn_of_standstill(builder: &mut Builder<'_>, field: &str) {
    let runs =
        |object: &Object| matches!(object, Object::Path { access, .. } if access.0 & Access::EXEC.0 != 0);
    let mut rules = builder.profile.rules.iter();
    if !rules.any(|rule| rule.verdict == Verdict::Allow && runs(&rule.object)) {
        let message = "no rule allows running any program: the container cannot start".to_owned();
        let help = "add `processes:` with the program, its loader and its libraries";
        builder.report(Severity::Warning, field, message, help);
    }
}

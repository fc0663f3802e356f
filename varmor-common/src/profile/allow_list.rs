//! The mode `DefenseInDepth`: everything is refused unless a rule of the custom profile allows it.

use super::build::Builder;
use super::{Access, CapabilitySet, Defaults, Kinds, Object, Origin, Verdict, raw};
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
    let Some(custom) = custom_profile(builder, bpf) else {
        return;
    };
    builder.profile.default = Defaults {
        denied: Kinds::ALL,
        audited: Kinds::NONE,
        origin: Origin {
            policy: builder.document.identity(),
            field: format!("{FIELD}.bpf"),
        },
    };
    let field = format!("{FIELD}.bpf.customProfile");
    builder.allow_list = true;
    raw::add(builder, &custom.rules, &field);
    capabilities(builder, custom, &format!("{field}.capabilities"));
    builder.allow_list = false;
    warn_of_standstill(builder, &field);
}

fn custom_profile<'p>(builder: &mut Builder<'_>, bpf: &'p BpfAllowList) -> Option<&'p BpfCustomProfile> {
    match (bpf.profile_type, &bpf.custom_profile) {
        (ProfileType::Custom, Some(custom)) => Some(custom),
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
            let message =
                "the profile type BehaviorModel is not supported by the BPF enforcer yet".to_owned();
            let help = "use `profileType: Custom` and write the `customProfile`";
            builder.report(
                Severity::Error,
                &format!("{FIELD}.bpf.profileType"),
                message,
                help,
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

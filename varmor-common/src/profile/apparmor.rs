//! What a policy says to `AppArmor` alone: the base of the profile, raw rules, custom profiles.

mod custom;
mod learned;
mod lexer;
mod statement;
#[cfg(test)]
mod tests;
mod variables;

pub use custom::custom_profile;
pub use lexer::TextError;
pub use statement::statements;

use super::build::Builder;
use super::{Origin, Profile, ProfileMode};
use crate::policy::{AppArmorAllowList, AppArmorRawRules, DefenseInDepth, ProfileType, Severity, item};

/// Longest text of one raw rule or custom profile.
const MAX_TEXT: usize = 64 << 10;

/// What `AppArmor` has beyond the rules of the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppArmorPart {
    pub base: AppArmorBase,
    pub raw: Vec<RawStatement>,
    /// Statements that another policy for the same command leaves without effect, and why.
    pub inert: Vec<(String, String)>,
}

/// What the rules are exceptions from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppArmorBase {
    /// Everything is allowed.
    #[default]
    AllowAll,
    /// As `AllowAll`, but signals go to tasks of the same profile only.
    RuntimeDefault,
    /// Nothing is allowed.
    AllowList,
}

/// One statement of a raw rule or of a custom profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawStatement {
    /// In canonical spelling, with the comma that ends it: whatever a user chose stands in quotes.
    pub text: String,
    /// The executables it is for, ascending; empty = all.
    pub executables: Vec<String>,
    pub origin: Origin,
}

impl RawStatement {
    fn refuses(&self) -> bool {
        self.text.starts_with("deny ") || self.text.starts_with("audit deny ")
    }
}

/// Adds `appArmorRawRules`, which are written at `field`.
pub(super) fn add_raw(builder: &mut Builder<'_>, entries: &[AppArmorRawRules], field: &str) {
    for (index, entry) in entries.iter().enumerate() {
        let field = item(field, index);
        builder.for_executables(&entry.targets, &format!("{field}.targets"));
        let place = format!("{field}.rules");
        match statements(&entry.rules) {
            Ok(found) => push(builder, found, &place),
            Err(error) => report(builder, &error, &place),
        }
        builder.executables.clear();
    }
}

/// Adds the custom profile of the mode `DefenseInDepth`.
pub(super) fn add_allow_list(builder: &mut Builder<'_>, defense: Option<&DefenseInDepth>) {
    const FIELD: &str = "spec.policy.defenseInDepth.appArmor";
    let Some(list) = defense.and_then(|defense| defense.app_armor.as_ref()) else {
        let message =
            "the mode DefenseInDepth with the enforcer AppArmor needs the field `defenseInDepth.appArmor`";
        let help = "add `appArmor:` with `profileType: Custom` and `customProfile:` below `spec.policy.defenseInDepth`";
        return builder.report(Severity::Error, "spec.policy.mode", message.to_owned(), help);
    };
    if list.profile_type == ProfileType::BehaviorModel {
        learned::add(builder, &format!("{FIELD}.profileType"));
    } else {
        let place = format!("{FIELD}.customProfile");
        match custom_text(builder, list) {
            None => return,
            Some(text) => match custom_profile(text) {
                Ok(found) => push(builder, found, &place),
                Err(error) => report(builder, &error, &place),
            },
        }
    }
    if let Some(own) = &mut builder.profile.app_armor {
        own.base = AppArmorBase::AllowList;
    }
    add_raw(
        builder,
        &list.app_armor_raw_rules,
        &format!("{FIELD}.appArmorRawRules"),
    );
}

fn custom_text<'l>(builder: &mut Builder<'_>, list: &'l AppArmorAllowList) -> Option<&'l str> {
    const FIELD: &str = "spec.policy.defenseInDepth.appArmor.profileType";
    if list.custom_profile.is_none() {
        let message = "the profile type Custom needs the field `customProfile`";
        let help = "add `customProfile:` with the text of the profile";
        builder.report(Severity::Error, FIELD, message.to_owned(), help);
    }
    list.custom_profile.as_deref()
}

fn push(builder: &mut Builder<'_>, found: Vec<String>, field: &str) {
    let mut executables = builder.executables.clone();
    executables.sort_unstable();
    executables.dedup();
    let origin = Origin {
        policy: builder.document.identity(),
        field: field.to_owned(),
    };
    if let Some(own) = &mut builder.profile.app_armor {
        own.raw.extend(found.into_iter().map(|text| RawStatement {
            text,
            executables: executables.clone(),
            origin: origin.clone(),
        }));
    }
}

fn report(builder: &mut Builder<'_>, error: &TextError, field: &str) {
    let message = format!(
        "line {}, column {} of the text: {}",
        error.line, error.column, error.message
    );
    builder.report(Severity::Error, field, message, &error.help);
}

impl AppArmorPart {
    /// `merged` and the part of one more profile; `mode` is that of the union. An allow-list holds alone: of a second
    /// one, and of profiles beside it, only what they refuse remains.
    pub(super) fn merge(merged: Option<Self>, profile: &Profile, mode: ProfileMode) -> Option<Self> {
        let Some(new) = &profile.app_armor else {
            return merged;
        };
        let Some(mut own) = merged else {
            return Some(new.clone());
        };
        let is_list = |part: &Self| part.base == AppArmorBase::AllowList;
        let mut new = new.clone();
        let reason = if is_list(&own) {
            new.keep_refusals()
        } else if is_list(&new) {
            own.keep_refusals()
        } else {
            Vec::new()
        };
        if profile.mode != mode {
            let (refusing, other): (Vec<_>, Vec<_>) = new.raw.drain(..).partition(RawStatement::refuses);
            new.raw = other;
            let reason =
                "another policy for the same command refuses violations; write `audit` instead of `deny`";
            own.inert.extend(named(refusing, reason));
        }
        own.base = match (own.base, new.base) {
            (AppArmorBase::AllowList, _) | (_, AppArmorBase::AllowList) => AppArmorBase::AllowList,
            (AppArmorBase::RuntimeDefault, _) | (_, AppArmorBase::RuntimeDefault) => {
                AppArmorBase::RuntimeDefault
            }
            _ => AppArmorBase::AllowAll,
        };
        own.raw.extend(new.raw);
        own.inert.extend(new.inert);
        own.inert.extend(reason);
        Some(own)
    }

    fn keep_refusals(&mut self) -> Vec<(String, String)> {
        let (refusing, other): (Vec<_>, Vec<_>) = self.raw.drain(..).partition(RawStatement::refuses);
        self.raw = refusing;
        named(
            other,
            "another policy for the same command has an allow-list, which holds alone",
        )
        .collect()
    }
}

fn named(statements: Vec<RawStatement>, reason: &str) -> impl Iterator<Item = (String, String)> {
    statements
        .into_iter()
        .map(move |statement| (statement.origin.field, reason.to_owned()))
}

//! Profile -> text of an `AppArmor` profile.
//!
//! The text reads no file of the host and holds nothing that a user wrote outside of quotes, so it means the same on
//! every node. Rules for `targets` are child profiles that are stacked upon the profile at exec: a task that executes
//! a target is judged by both from then on, as its children are. Stacking works with `no_new_privs`, takes several
//! targets in any order, and knows no way back.

mod base;
mod diagnose;
mod error;
pub(crate) mod glob;
mod mounts;
mod object;
mod targets;
#[cfg(test)]
mod tests;

pub use diagnose::diagnose;
pub use error::CompileError;

use crate::policy::Enforcers;
use crate::profile::{AppArmorBase, AppArmorPart, Profile, ProfileMode, Rule};

use object::Line;
use targets::Group;

/// What the kernel and `apparmor_parser` have of what not all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Rules about user namespaces (Linux 6.7, parser 4).
    pub user_namespaces: bool,
    /// Rules about `io_uring` (Linux 6.7, parser 4).
    pub io_uring: bool,
    /// Rules about POSIX message queues (Linux 6.7, parser 4).
    pub message_queues: bool,
}

impl Features {
    /// Of every kernel and parser that is supported.
    pub const COMMON: Self = Self {
        user_namespaces: false,
        io_uring: false,
        message_queues: false,
    };
    /// A kernel and a parser that have everything.
    pub const ALL: Self = Self {
        user_namespaces: true,
        io_uring: true,
        message_queues: true,
    };
}

/// The compiled form of one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Artefact {
    /// Of the profile and its children.
    pub text: String,
    /// Rules and statements in force.
    pub rules: usize,
    /// Rules that `AppArmor` cannot hold.
    pub unsupported: Vec<Unsupported>,
}

/// A rule that the enforcer cannot hold, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Id of the rule.
    pub rule: String,
    /// Where it was written.
    pub field: String,
    pub reason: String,
}

/// Flags of every profile. Without `attach_disconnected` a path that does not lead to the root of the mount namespace
/// (an inherited descriptor, a lazily unmounted volume) is refused whatever the rules say; without `mediate_deleted`
/// a deleted file that is still open is.
const FLAGS: &str = "attach_disconnected,mediate_deleted";

/// Compiles a profile. Nothing if the policy does not name `AppArmor`.
pub fn compile(profile: &Profile, features: Features) -> Result<Option<Artefact>, CompileError> {
    let Some(part) = profile.part_for(Enforcers::APPARMOR) else {
        return Ok(None);
    };
    check_name(&part.name)?;
    let own = part.app_armor.clone().unwrap_or_default();
    let groups = targets::groups(&part)?;
    let mut artefact = Artefact::default();
    for (field, reason) in &own.inert {
        artefact.refuse(field, field, reason);
    }
    for inert in &part.inert {
        artefact.refuse(&inert.rule.id, &inert.rule.origin.field, &inert.reason);
    }
    let mut writer = Writer {
        part: &part,
        own: &own,
        features,
        groups: &groups,
        artefact,
    };
    writer.main()?;
    Ok(Some(writer.artefact))
}

/// The names of all profiles that this policy can have begin so.
pub const PREFIX: &str = "varmor-";

/// Names come from names of Kubernetes objects; nothing else reaches the kernel.
fn check_name(name: &str) -> Result<(), CompileError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '+' | '_');
    if name.starts_with(PREFIX) && name.chars().all(is_plain) {
        Ok(())
    } else {
        Err(CompileError::Name(name.to_owned()))
    }
}

struct Writer<'p> {
    part: &'p Profile,
    own: &'p AppArmorPart,
    features: Features,
    groups: &'p [Group],
    artefact: Artefact,
}

impl Writer<'_> {
    fn main(&mut self) -> Result<(), CompileError> {
        let name = &self.part.name;
        let complain = if self.part.mode == ProfileMode::Complain {
            ",complain"
        } else {
            ""
        };
        let mut text = format!("profile \"{name}\" flags=({FLAGS}{complain}) {{\n");
        self.body(&mut text, "  ", self.own.base, &self.part.rules, &[], None)?;
        for index in 0..self.groups.len() {
            let group = &self.groups[index];
            text.push_str("\n  profile \"");
            text.push_str(&group.name);
            text.push_str("\" flags=(");
            text.push_str(FLAGS);
            text.push_str(complain);
            text.push_str(") {\n");
            let rules = &self.part.targets[group.index].rules;
            self.body(
                &mut text,
                "    ",
                AppArmorBase::AllowAll,
                rules,
                &group.executables,
                Some(index),
            )?;
            text.push_str("  }\n");
        }
        text.push_str("}\n");
        self.artefact.text = text;
        Ok(())
    }

    /// What stands between the braces of one profile.
    fn body(
        &mut self,
        text: &mut String,
        indent: &str,
        base: AppArmorBase,
        rules: &[Rule],
        executables: &[String],
        group: Option<usize>,
    ) -> Result<(), CompileError> {
        let mut lines = base::lines(base, &self.part.name, rules, self.features);
        for rule in rules {
            match object::lines(rule, &self.part.name, self.features)? {
                Line::Held(held) => {
                    let (held, lost): (Vec<_>, Vec<_>) = held
                        .into_iter()
                        .partition(|line| !targets::conflicts(self.groups, line));
                    if !lost.is_empty() {
                        let reason = "AppArmor cannot log an exec that it enters a target at";
                        self.artefact.refuse(&rule.id, &rule.origin.field, reason);
                    }
                    self.artefact.rules += 1;
                    lines.extend(held);
                }
                Line::Missing(reason) => {
                    self.artefact.refuse(&rule.id, &rule.origin.field, &reason);
                }
            }
        }
        for statement in self.own.raw.iter().filter(|one| one.executables == executables) {
            let refuses = statement.text.starts_with("deny ") || statement.text.starts_with("audit deny ");
            if group.is_some() && self.own.base == AppArmorBase::AllowList && !refuses {
                let reason = "the rules of targets stand beside those of the profile: they can only refuse more; \
                              write `deny`, or add the rule for the whole profile";
                let field = &statement.origin.field;
                self.artefact.refuse(field, field, reason);
                continue;
            }
            self.artefact.rules += 1;
            lines.extend(targets::without_conflict(self.groups, &statement.text));
        }
        lines.extend(targets::transitions(self.groups, &self.part.name, group));
        let mut written = std::collections::BTreeSet::new();
        for line in lines {
            if written.insert(line.clone()) {
                text.push_str(indent);
                text.push_str(&line);
                text.push('\n');
            }
        }
        Ok(())
    }
}

impl Artefact {
    fn refuse(&mut self, rule: &str, field: &str, reason: &str) {
        let missing = Unsupported {
            rule: rule.to_owned(),
            field: field.to_owned(),
            reason: reason.to_owned(),
        };
        if !self.unsupported.contains(&missing) {
            self.unsupported.push(missing);
        }
    }
}

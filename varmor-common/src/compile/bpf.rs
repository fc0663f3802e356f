//! Profile -> tables of the BPF enforcer.

mod devices;
mod error;
mod mounts;
mod network;
mod paths;
mod sites;
mod tasks;
#[cfg(test)]
mod tests;

pub use error::CompileError;

use crate::abi::{
    Descriptor, GlobRow, PERM_EXEC, PERM_WRITE, PROFILE_COMPLAIN, PROFILE_DEVICES, PROFILE_EGRESS,
    PROFILE_SOCKETS, Point, PointKey, State, Transition,
};
use crate::profile::{Object, Profile, ProfileMode, Verdict};

use sites::Sites;

/// What the kernel has of the facilities that not every kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The hook `userns_create`.
    pub userns_create: bool,
}

impl Default for Kernel {
    /// A kernel that has everything.
    fn default() -> Self {
        Self { userns_create: true }
    }
}

/// Compiles a profile under the boot key for a kernel that has everything. The same profile and key give the same
/// artefact.
pub fn compile(profile: &Profile, key: u64) -> Result<Artefact, CompileError> {
    compile_on(profile, key, Kernel::default())
}

/// As [`compile`], for a kernel; rules that it cannot hold are in [`Artefact::unsupported`].
pub fn compile_on(profile: &Profile, key: u64, kernel: Kernel) -> Result<Artefact, CompileError> {
    let mut artefact = Artefact::default();
    let mut sites = Sites::default();
    let patterns = paths::patterns(profile)?;
    let classes = mounts::classes(profile, key, &mut sites)?;
    for (slot, class) in artefact.descriptor.mounts.iter_mut().zip(&classes.table) {
        *slot = *class;
    }
    artefact.descriptor.mount_classes = classes.count();
    artefact.mount_sources = mounts::sources(profile, &patterns, &classes)?;
    paths::compile(profile, &patterns, &classes, key, &mut sites, &mut artefact)?;
    tasks::compile(profile, &mut sites, &mut artefact.descriptor);
    network::compile(profile, &mut sites, &mut artefact)?;
    devices::compile(profile, kernel, &mut sites, &mut artefact);
    if profile.mode == ProfileMode::Complain {
        artefact.descriptor.flags |= PROFILE_COMPLAIN;
    }
    artefact.sites = sites.into_vec();
    artefact.hooks = hooks(profile, &artefact.descriptor);
    Ok(artefact)
}

fn hooks(profile: &Profile, descriptor: &Descriptor) -> HookGroups {
    let has = |test: fn(&Object) -> bool| profile.rules.iter().any(|rule| test(&rule.object));
    [
        (descriptor.file_perms & !PERM_EXEC != 0, HookGroups::FILE),
        (descriptor.file_perms & PERM_EXEC != 0, HookGroups::EXEC),
        (
            descriptor.caps_deny | descriptor.caps_audit != 0,
            HookGroups::CAPABILITY,
        ),
        (descriptor.flags & PROFILE_SOCKETS != 0, HookGroups::SOCKET),
        (descriptor.flags & PROFILE_EGRESS != 0, HookGroups::EGRESS),
        (
            (descriptor.file_perms | descriptor.file_default) & PERM_WRITE != 0,
            HookGroups::ATTRIBUTE,
        ),
        (descriptor.flags & PROFILE_DEVICES != 0, HookGroups::DEVICE),
        (descriptor.user_namespace != 0, HookGroups::NAMESPACE),
        (descriptor.mount_classes != 0, HookGroups::MOUNT),
        (
            has(|object| matches!(object, Object::Ptrace(_))),
            HookGroups::PTRACE,
        ),
    ]
    .into_iter()
    .filter(|(needed, _)| *needed)
    .fold(HookGroups::default(), |groups, (_, group)| groups.union(group))
}

/// The compiled form of one profile: the contents of its kernel tables.
#[derive(Clone, Debug, Default)]
pub struct Artefact {
    /// `generation` and `slot` are filled in by the loader.
    pub descriptor: Descriptor,
    /// Index = state number. State 0 is a sink that says nothing.
    pub states: Vec<State>,
    pub transitions: Vec<(Transition, u32)>,
    /// Byte automaton of the component globs; `accept` = class number (0 = no class). Empty without globs.
    pub component_globs: Vec<GlobRow>,
    /// Byte automaton of the mount sources; `accept` = bit set of mount classes. Empty without mount rules.
    pub mount_sources: Vec<GlobRow>,
    pub points: Vec<(PointKey, Point)>,
    /// Index = site. Site 0 is no site.
    pub sites: Vec<Site>,
    /// Hook groups that this profile needs.
    pub hooks: HookGroups,
    /// Rules that this enforcer cannot hold.
    pub unsupported: Vec<Unsupported>,
}

/// What stands behind one site number of an event: the rules that speak there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    pub rules: Vec<SiteRule>,
}

impl Site {
    /// Index of the rule that speaks about the requested permissions: a denying rule first.
    #[must_use]
    pub fn rule(&self, requested: u32) -> Option<u32> {
        let concerns = |wanted: Verdict| {
            self.rules
                .iter()
                .find(|rule| rule.verdict == wanted && rule.permissions & requested != 0)
        };
        concerns(Verdict::Deny)
            .or_else(|| concerns(Verdict::Audit))
            .or_else(|| self.rules.first())
            .map(|rule| rule.rule)
    }
}

/// One rule at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteRule {
    /// Permission bits (for files `abi::PERM_*`) that the rule concerns here; `u32::MAX` where there are none.
    pub permissions: u32,
    pub verdict: Verdict,
    /// Index into `Profile::rules`.
    pub rule: u32,
}

/// Which groups of hooks must be attached, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookGroups(pub u32);

impl HookGroups {
    pub const FILE: Self = Self(1);
    pub const EXEC: Self = Self(1 << 1);
    pub const CAPABILITY: Self = Self(1 << 2);
    pub const SOCKET: Self = Self(1 << 3);
    pub const EGRESS: Self = Self(1 << 4);
    pub const MOUNT: Self = Self(1 << 5);
    pub const PTRACE: Self = Self(1 << 6);
    /// Attributes of files that may not be written.
    pub const ATTRIBUTE: Self = Self(1 << 16);
    pub const DEVICE: Self = Self(1 << 17);
    pub const NAMESPACE: Self = Self(1 << 18);

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A rule that the enforcer cannot hold, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// Index into `Profile::rules`.
    pub rule: u32,
    pub reason: String,
}

impl Artefact {
    /// The rule behind a site of an event, by the permissions that were requested: a denying rule first.
    #[must_use]
    pub fn rule_at<'p>(
        &self,
        profile: &'p Profile,
        site: u32,
        requested: u32,
    ) -> Option<&'p crate::profile::Rule> {
        let rule = self.sites.get(site as usize)?.rule(requested)?;
        profile.rules.get(rule as usize)
    }
}

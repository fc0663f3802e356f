//! Profile -> tables of the BPF enforcer.

mod defaults;
mod devices;
mod diagnose;
mod error;
mod mounts;
mod network;
mod paths;
mod sites;
mod targets;
mod tasks;
#[cfg(test)]
mod tests;

pub use diagnose::diagnose;
pub use error::CompileError;
pub use targets::{TargetKeys, inherited_keys};

use crate::abi::{
    Descriptor, GlobRow, NetRow, NetTest, PERM_EXEC, PERM_WRITE, PROFILE_COMPLAIN, PROFILE_DEVICES,
    PROFILE_EGRESS, PROFILE_INGRESS, PROFILE_SOCKETS, Point, PointKey, State, Transition,
};
use crate::policy::Enforcers;
use crate::profile::{DEFAULT_RULE, Object, Origin, Profile, ProfileMode, Rule, Verdict};

use sites::Sites;
use targets::Bits;

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
    compile_after(profile, key, &TargetKeys::default(), Kernel::default())
}

/// As [`compile`], for a kernel, and for a profile of which tasks may be running in target groups: `earlier` is what
/// [`Artefact::target_keys`] of its last version was. Rules that the kernel cannot hold are in
/// [`Artefact::unsupported`].
pub fn compile_after(
    profile: &Profile,
    key: u64,
    earlier: &TargetKeys,
    kernel: Kernel,
) -> Result<Artefact, CompileError> {
    if let Some(foreign) = profile
        .every_rule()
        .find(|rule| !rule.enforcers.contains(Enforcers::BPF))
    {
        return Err(CompileError::Foreign(foreign.id.clone()));
    }
    let bits = Bits::assign(&profile.targets, earlier)?;
    let mut artefact = one(profile, key, &bits, kernel)?;
    artefact.domains = targets::domains(profile, key, &bits, kernel)?;
    artefact.complete(profile);
    artefact.target_keys = bits.keys;
    artefact.target_bits = bits.of_groups;
    Ok(artefact)
}

/// The tables of the rules that stand in the profile itself.
fn one(profile: &Profile, key: u64, bits: &Bits, kernel: Kernel) -> Result<Artefact, CompileError> {
    let mut artefact = Artefact::default();
    let mut sites = Sites::default();
    let patterns = paths::patterns(profile)?;
    let classes = mounts::classes(profile, &patterns, key, &mut sites)?;
    for (slot, class) in artefact.descriptor.mounts.iter_mut().zip(&classes.table) {
        *slot = *class;
    }
    artefact.descriptor.mount_classes = classes.count();
    artefact.mount_sources = mounts::sources(profile, &patterns, &classes)?;
    defaults::compile(profile, &patterns, &mut artefact.descriptor);
    paths::compile(profile, &patterns, &classes, bits, key, &mut sites, &mut artefact)?;
    tasks::compile(profile, &mut sites, &mut artefact.descriptor);
    network::compile(profile, &mut sites, &mut artefact)?;
    devices::compile(profile, kernel, &mut sites, &mut artefact);
    if profile.mode == ProfileMode::Complain {
        artefact.descriptor.flags |= PROFILE_COMPLAIN;
    }
    artefact.sites = sites.into_vec();
    artefact.hooks =
        hooks(profile, &artefact.descriptor).union(defaults::hooks(&profile.default, &artefact.descriptor));
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
        (descriptor.file_perms & PERM_WRITE != 0, HookGroups::ATTRIBUTE),
        (descriptor.flags & PROFILE_DEVICES != 0, HookGroups::DEVICE),
        (descriptor.user_namespace != 0, HookGroups::NAMESPACE),
        (descriptor.flags & PROFILE_INGRESS != 0, HookGroups::INGRESS),
        (descriptor.file_perms & PERM_WRITE != 0, HookGroups::UNIX),
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
    /// `generation` and `slot` are filled in by the loader. In a box because it is large and artefacts are moved.
    pub descriptor: Box<Descriptor>,
    /// Index = state number. State 0 is a sink that says nothing.
    pub states: Vec<State>,
    /// In the order of the keys, each once.
    pub transitions: Vec<(Transition, u32)>,
    /// Byte automaton of the component globs; `accept` = class number (0 = no class). Empty without globs.
    pub component_globs: Vec<GlobRow>,
    /// Byte automaton of the mount sources; `accept` = bit set of mount classes. Empty without mount rules.
    pub mount_sources: Vec<GlobRow>,
    pub points: Vec<(PointKey, Point)>,
    /// Rows of the decision diagram of the network rules.
    pub net_rows: Vec<NetRow>,
    /// Tests of the decision diagram of the network rules.
    pub net_tests: Vec<NetTest>,
    /// Index = site. Site 0 is no site.
    pub sites: Vec<Site>,
    /// Hook groups that this profile needs.
    pub hooks: HookGroups,
    /// Rules that this enforcer cannot hold.
    pub unsupported: Vec<Unsupported>,
    /// For every set of target groups that a task can be in (bit n = `target_keys[n]`): the tables that judge it. Their
    /// own lists are empty.
    pub domains: Vec<(u32, Artefact)>,
    /// To be given to [`compile_after`] for the next version.
    pub target_keys: TargetKeys,
    /// By target group of the profile: its bit.
    pub target_bits: Vec<u32>,
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
    /// Index into the rules of the domain: those of the profile, then those of the target groups in it.
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
    /// Target groups.
    pub const TARGET: Self = Self(1 << 7);
    /// Attributes of files that may not be written.
    pub const ATTRIBUTE: Self = Self(1 << 16);
    pub const DEVICE: Self = Self(1 << 17);
    pub const NAMESPACE: Self = Self(1 << 18);
    pub const INGRESS: Self = Self(1 << 12);
    /// Connections to the sockets of paths: write rules hold for them.
    pub const UNIX: Self = Self(1 << 13);

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
    /// Index into `Profile::every_rule`.
    pub rule: u32,
    pub reason: String,
}

impl Artefact {
    /// The rule behind a site of an event, by the permissions that were requested: a denying rule first. For tasks in
    /// no target group.
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

    /// Id and origin of what decided about a task in these target groups: a rule, or the default of an allow-list.
    #[must_use]
    pub fn decided_by<'p>(
        &self,
        profile: &'p Profile,
        domain: u32,
        site: u32,
        requested: u32,
    ) -> Option<(&'p str, &'p Origin)> {
        if site == 0 {
            let has_default = profile.default.kinds().0 != 0;
            return has_default.then_some((DEFAULT_RULE, &profile.default.origin));
        }
        let rule = self.of_domain(domain).sites.get(site as usize)?.rule(requested)?;
        self.rules_of(profile, domain)
            .nth(rule as usize)
            .map(|rule| (rule.id.as_str(), &rule.origin))
    }

    /// The rules that hold for a task in these target groups, in the order in which sites number them.
    pub fn rules_of<'p>(&self, profile: &'p Profile, domain: u32) -> impl Iterator<Item = &'p Rule> {
        profile.rules_of(move |group| self.is_member(domain, group))
    }
}

//! What an allow-list profile does with what no rule allows, in the terms of the descriptor.

use super::HookGroups;
use crate::abi::{
    Descriptor, MASK_AUDIT, MASK_DENY, PERM_APPEND, PERM_EXEC, PERM_READ, PERM_STRUCT, PERM_WRITE,
    VERDICT_AUDIT, VERDICT_DENY,
};
use crate::matcher::Pattern;
use crate::profile::{Defaults, Kinds, Object, Profile, Verdict};

/// The permissions that need an allowing file rule, and the verdict of mounts that no rule allows. Capabilities and
/// ptrace follow in `tasks`, sockets and destinations in `network`.
pub(super) fn compile(profile: &Profile, patterns: &[Option<Pattern>], descriptor: &mut Descriptor) {
    let default = &profile.default;
    let free = free_permissions(profile, patterns);
    for (kinds, shift) in [(default.denied, MASK_DENY), (default.audited, MASK_AUDIT)] {
        descriptor.file_default |= (permissions(kinds) & !free) << shift;
        // The kernel asks one word whether a walk is needed.
        descriptor.file_perms |= permissions(kinds) & !free;
    }
    descriptor.mount_default = match default.verdict(Kinds::MOUNTS) {
        Some(Verdict::Deny) => VERDICT_DENY,
        Some(_) => VERDICT_AUDIT,
        None => 0,
    };
}

/// The permissions of file rules that belong to these kinds.
pub(super) fn permissions(kinds: Kinds) -> u32 {
    let of = |kind, permissions| if kinds.meets(kind) { permissions } else { 0 };
    of(Kinds::FILES, PERM_READ | PERM_WRITE | PERM_APPEND | PERM_STRUCT) | of(Kinds::EXEC, PERM_EXEC)
}

/// What a rule allows everywhere needs no default, and so no walk.
fn free_permissions(profile: &Profile, patterns: &[Option<Pattern>]) -> u32 {
    let rules = profile.rules.iter().zip(patterns);
    let free = rules.filter_map(|(rule, pattern)| match (&rule.object, pattern) {
        (Object::Path { access, .. }, Some(pattern))
            if rule.verdict == Verdict::Allow && pattern.is_everything() =>
        {
            Some(with_structure(access.0))
        }
        _ => None,
    });
    free.fold(0, |all, one| all | one)
}

/// Who may write a whole tree may also move and replace its folders.
pub(super) const fn with_structure(access: u32) -> u32 {
    if access & PERM_WRITE == 0 {
        access
    } else {
        access | PERM_STRUCT
    }
}

/// The hooks that a default needs, even if no rule does.
pub(super) fn hooks(default: &Defaults, descriptor: &Descriptor) -> HookGroups {
    let files = (descriptor.file_default >> MASK_DENY) | (descriptor.file_default >> MASK_AUDIT);
    let needs = |kind| default.kinds().meets(kind);
    [
        (
            files & (PERM_READ | PERM_WRITE | PERM_APPEND) != 0,
            HookGroups::FILE,
        ),
        (files & PERM_EXEC != 0, HookGroups::EXEC),
        (needs(Kinds::SOCKETS), HookGroups::SOCKET),
        (needs(Kinds::EGRESS), HookGroups::EGRESS),
        (needs(Kinds::INGRESS), HookGroups::INGRESS),
        (descriptor.mount_default != 0, HookGroups::MOUNT),
        (needs(Kinds::PTRACE), HookGroups::PTRACE),
    ]
    .into_iter()
    .filter(|(needed, _)| *needed)
    .fold(HookGroups::default(), |groups, (_, group)| groups.union(group))
}

//! One step of the path automaton, and what the emissions on the way mean in the end.

use crate::abi::{
    GLOB_DEAD, GlobRow, MASK_ALLOW, MASK_AUDIT, MASK_DENY, STATE_GLOBS, STATE_INHERITS, STATE_LATE_GLOBS,
    State, Transition,
};

const PERMISSIONS: u64 = 0xff;
const MASKS: u64 = 0xff_ffff;
const SITE_SHIFT: u32 = 32;

/// Where the tables are: BPF maps in the kernel, vectors in user space.
pub trait Tables {
    /// Bloom filter over the symbols of all transitions: false = certainly none.
    fn may_have(&self, symbol: u64) -> bool;
    /// The exact transition, if there is one.
    fn transition(&self, key: &Transition) -> Option<u32>;
}

/// The state after a component whose name hashes to `symbol`.
///
/// A name with a literal transition takes it (the compiler has merged the globs that the name also matches);
/// any other name takes the transition of its glob class if the state has glob children; else the default.
/// `class` is called at most once and gives the glob class as a symbol, or `None` for no class. A walk that comes back
/// to the globs of a state with `STATE_LATE_GLOBS` says `None` at first.
#[inline(always)]
pub fn next<T: Tables>(
    tables: &T,
    state: u32,
    record: &State,
    symbol: u64,
    class: impl FnOnce() -> Option<u64>,
) -> u32 {
    if tables.may_have(symbol)
        && let Some(next) = own_or_inherited(tables, state, record, symbol)
    {
        return next;
    }
    if record.flags & (STATE_GLOBS | STATE_LATE_GLOBS) != 0
        && let Some(symbol) = class()
        && let Some(next) = own_or_inherited(tables, state, record, symbol)
    {
        return next;
    }
    record.default
}

/// The state that says what holds at the root of a filesystem (`symbol` = its `filesystem_symbol`), if any rule
/// does. Only its `now` counts; the walk goes on from `state`.
#[inline(always)]
pub fn filesystem_step<T: Tables>(tables: &T, state: u32, record: &State, symbol: u64) -> Option<u32> {
    if tables.may_have(symbol) {
        own_or_inherited(tables, state, record, symbol)
    } else {
        None
    }
}

/// Rules that hold below a folder stay pending at every depth. A state that only adds something to them keeps
/// its own transitions; the pending ones are stored once, at its default.
#[inline(always)]
fn own_or_inherited<T: Tables>(tables: &T, state: u32, record: &State, symbol: u64) -> Option<u32> {
    let own = tables.transition(&Transition {
        symbol,
        state,
        _pad: 0,
    });
    if own.is_none() && record.flags & STATE_INHERITS != 0 {
        return tables.transition(&Transition {
            symbol,
            state: record.default,
            _pad: 0,
        });
    }
    own
}

/// One byte through a byte automaton; `GLOB_DEAD` stays dead.
#[inline(always)]
#[must_use]
pub fn glob_step(row: &GlobRow, byte: u8) -> u32 {
    let next = u32::from(row.next[byte as usize]);
    if next == GLOB_DEAD { GLOB_DEAD } else { next }
}

/// Adds what a state says (`masks`, `site`) to what the walk has collected: masks in the low 24 bits, the site
/// of the first rule that concerns `requested` in the high 32 bits, a denying rule before an auditing one.
#[inline(always)]
#[must_use]
pub const fn merge(collected: u64, masks: u64, site: u32, requested: u32) -> u64 {
    let requested = requested as u64 & PERMISSIONS;
    let denies = (masks >> MASK_DENY) & requested != 0;
    let audits = (masks >> MASK_AUDIT) & requested != 0;
    let denied_before = (collected >> MASK_DENY) & requested != 0;
    let has_site = collected >> SITE_SHIFT != 0;
    let union = collected | (masks & MASKS);
    if (denies && !denied_before) || (audits && !has_site) {
        (union & MASKS) | ((site as u64) << SITE_SHIFT)
    } else {
        union
    }
}

/// What the collected emissions mean for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Requested permissions that are refused.
    pub denied: u32,
    /// Requested permissions that a rule, or the default, wants audited.
    pub audited: u32,
    /// Site of the rule that decided; 0 = none (allowed, or decided by the default).
    pub site: u32,
}

/// The verdict on `requested` after a complete walk. `default` holds what becomes of permissions that no rule
/// allows (`Descriptor::file_default`); a denying rule wins over an allowing one.
#[inline(always)]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the fields are at most 32 bits wide by construction"
)]
pub const fn decide(collected: u64, requested: u32, default: u32) -> Verdict {
    let unallowed = !(collected >> MASK_ALLOW) as u32 & 0xff & requested;
    let by_rule = (collected >> MASK_DENY) as u32 & 0xff & requested;
    let by_default = (default >> MASK_DENY) & unallowed;
    let audited =
        ((collected >> MASK_AUDIT) as u32 & 0xff & requested) | ((default >> MASK_AUDIT) & unallowed);
    // A rule that audits must not be named for what the default refuses.
    let named = by_default == 0 || by_rule != 0;
    Verdict {
        denied: by_rule | by_default,
        audited,
        site: if named {
            (collected >> SITE_SHIFT) as u32
        } else {
            0
        },
    }
}

/// Permissions of an allow-list that an object would gain by a new name: allowed under the new one, not under the
/// old one. Who may write both places must not get more than both give.
#[inline(always)]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the fields are at most 32 bits wide by construction"
)]
pub const fn gained(old: u64, new: u64, default: u32) -> u32 {
    let allowed = (new >> MASK_ALLOW) & !(old >> MASK_ALLOW);
    ((default >> MASK_DENY) | (default >> MASK_AUDIT)) & allowed as u32 & 0xff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{PERM_EXEC, PERM_READ, PERM_WRITE};

    const SITE: u64 = 7 << SITE_SHIFT;

    fn allowed(permissions: u32) -> u64 {
        u64::from(permissions) << MASK_ALLOW
    }

    #[test]
    fn the_default_is_not_blamed_on_a_rule_that_only_logs() {
        let logs = u64::from(PERM_READ) << MASK_AUDIT | SITE;
        let verdict = decide(logs, PERM_READ, PERM_READ);
        assert_eq!((verdict.denied, verdict.site), (PERM_READ, 0));
        let verdict = decide(logs | allowed(PERM_READ), PERM_READ, PERM_READ);
        assert_eq!((verdict.denied, verdict.audited, verdict.site), (0, PERM_READ, 7));
        let denies = u64::from(PERM_READ) << MASK_DENY | SITE;
        assert_eq!(decide(denies, PERM_READ, PERM_READ).site, 7);
    }

    #[test]
    fn a_default_concerns_only_what_is_asked_for() {
        assert_eq!(decide(0, PERM_READ, PERM_WRITE | PERM_READ).denied, PERM_READ);
        assert_eq!(decide(0, PERM_READ, PERM_WRITE).denied, 0);
        assert_eq!(decide(0, PERM_READ, PERM_READ << MASK_AUDIT).audited, PERM_READ);
    }

    #[test]
    fn what_a_new_name_would_allow_in_addition_is_gained() {
        let (old, new) = (allowed(PERM_WRITE), allowed(PERM_WRITE | PERM_EXEC));
        assert_eq!(gained(old, new, PERM_WRITE | PERM_EXEC), PERM_EXEC);
        assert_eq!(gained(new, old, PERM_WRITE | PERM_EXEC), 0);
        assert_eq!(gained(old, new, PERM_WRITE), 0, "executing needs no rule here");
        assert_eq!(gained(old, new, PERM_EXEC << MASK_AUDIT), PERM_EXEC);
    }
}

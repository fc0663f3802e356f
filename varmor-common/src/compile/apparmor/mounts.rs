//! Mount rules.
//!
//! `AppArmor` judges mount(2) by source, type and flags. The rules of the catalogue have four shapes; a rule of another
//! shape would have to be said by a list of all combinations of flags, and is not.

use super::glob;
use crate::abi::MOUNT_UMOUNT;
use crate::matcher::{Pattern, PatternError};
use crate::profile::MountRule;

/// The lines of a rule; nothing if it is of no shape that can be said.
pub(super) fn lines(prefix: &str, rule: &MountRule) -> Result<Option<Vec<String>>, PatternError> {
    let pattern = Pattern::parse(&rule.source)?;
    let sources = if pattern.is_everything() {
        Vec::new()
    } else {
        glob::paths(&pattern)
    };
    let any_source = sources.is_empty();
    let new_mount = rule.any == 0 && rule.none == MOUNT_UMOUNT;
    let lines = match &rule.fstype {
        Some(fstype) if new_mount && any_source && is_name(fstype) => {
            vec![format!("{prefix}mount fstype=({fstype}),")]
        }
        None if new_mount && any_source => vec![format!("{prefix}mount,"), format!("{prefix}remount,")],
        None if new_mount => with_each(prefix, "mount", &sources),
        None if rule.any == MOUNT_UMOUNT && rule.none == 0 && any_source => {
            vec![format!("{prefix}umount,")]
        }
        None if rule.any == MOUNT_UMOUNT && rule.none == 0 => with_each(prefix, "umount", &sources),
        None if rule.any & EXISTING == EXISTING && rule.none == 0 && !any_source => {
            let mut lines = with_each(prefix, "mount options in (bind, rbind, move)", &sources);
            lines.extend(with_each(
                prefix,
                "mount options in (bind, rbind, move) ->",
                &sources,
            ));
            lines.extend(with_each(prefix, "remount", &sources));
            lines.extend(with_each(prefix, "umount", &sources));
            lines
        }
        _ => return Ok(None),
    };
    Ok(Some(lines))
}

/// `MS_REMOUNT`, `MS_BIND`, `MS_MOVE` and unmounting: what is done with a mount that exists.
const EXISTING: u32 = 0x20 | 0x1000 | 0x2000 | MOUNT_UMOUNT;

fn with_each(prefix: &str, head: &str, paths: &[String]) -> Vec<String> {
    paths
        .iter()
        .map(|path| format!("{prefix}{head} {path},"))
        .collect()
}

fn is_name(fstype: &str) -> bool {
    fstype
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-'))
}

//! The abilities of the kernel's `AppArmor`, in the form of a features file.

use std::{fs, path::Path};

use anyhow::{Context, Result};

pub(super) const FOLDER: &str = "/sys/kernel/security/apparmor/features";

/// Folders and files become `name {content}`.
pub(super) fn text(folder: &Path) -> Result<String> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("read {}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    let mut text = String::new();
    for path in entries {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let content = if path.is_dir() {
            self::text(&path)?
        } else {
            fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?
        };
        text.extend([name.as_str(), " {", content.trim_end(), "\n}\n"]);
    }
    Ok(text)
}

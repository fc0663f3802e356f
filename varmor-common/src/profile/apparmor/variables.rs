//! The variables of `AppArmor`'s tunables, with the values that they have for a container. Host files are never read.

use super::lexer::{Position, TextError};

/// Name and value. A path must begin with `/`, so no value begins with a brace.
const VARIABLES: [(&str, &str); 16] = [
    ("PROC", "/proc/"),
    ("proc", "/proc/"),
    ("sys", "/sys/"),
    ("HOME", "/{root,home/*}/"),
    ("HOMEDIRS", "/home/"),
    ("HOMEROOT", "/root/"),
    ("run", "/{run,var/run}/"),
    ("bin", "/{,usr/}{,s}bin/"),
    ("lib", "/{,usr/}lib{,64}/"),
    ("multiarch", "*-linux-gnu*"),
    ("pid", "[0-9]*"),
    ("pids", "[0-9]*"),
    ("tid", "[0-9]*"),
    ("tids", "[0-9]*"),
    ("uid", "[0-9]*"),
    ("uids", "[0-9]*"),
];

/// `text` with every variable replaced.
pub(super) fn expand(text: &str, at: Position) -> Result<String, TextError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(index) = rest.find(['@', '$']) {
        let (head, tail) = rest.split_at(index);
        out.push_str(head);
        let is_variable = tail[1..].starts_with('{');
        if !is_variable {
            out.push_str(&tail[..1]);
            rest = &tail[1..];
            continue;
        }
        let end = tail.find('}').unwrap_or(tail.len());
        let name = tail.get(2..end).unwrap_or_default();
        let known = VARIABLES
            .iter()
            .find(|(known, _)| tail.starts_with('@') && *known == name);
        // The one variable that `apparmor_parser` sets itself: the label of this very profile.
        if name == "profile_name" && tail.starts_with('@') && text == "@{profile_name}" {
            return Ok(text.to_owned());
        }
        let Some((_, value)) = known else {
            let names: Vec<&str> = VARIABLES.iter().map(|(name, _)| *name).collect();
            return Err(at.error(
                format!("there is no variable `{}{{{name}}}`", &tail[..1]),
                format!("write the paths themselves; known are {}", names.join(", ")),
            ));
        };
        out.push_str(value);
        rest = tail.get(end + 1..).unwrap_or_default();
    }
    out.push_str(rest);
    if out.contains("@{") || out.contains("${") {
        return Err(at.error(
            "variables make another variable here",
            "write the paths themselves",
        ));
    }
    // A variable that ends in `/` before another one.
    while out.contains("//") {
        out = out.replace("//", "/");
    }
    Ok(out)
}

//! The systems that are compared, and the files that bring them about.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result};

use super::{
    policy,
    protocol::{FOLDER, Setup, System},
};
use crate::{vm::Share, workspace};

/// Rules of each kind under the product.
const PROTECTED: [usize; 6] = [0, 1, 8, 50, 1000, 10_000];
/// Rules of each kind for the enforcers that it is compared with.
const OTHERS: [usize; 3] = [0, 8, 50];
/// The policy of the neighbour whose hooks concern an unprotected task.
const NEIGHBOUR: usize = 8;

pub(super) const NOTHING: &str = "nothing";
/// The first system once more, at the end: what the order does to the numbers.
pub(super) const NOTHING_AGAIN: &str = "nothing-again";
pub(super) const EMPTY: &str = "empty";
pub(super) const UNPROTECTED: &str = "unprotected";
/// A neighbour's policy needs none of the operation's hooks.
pub(super) const UNCONCERNED: &str = "unconcerned";

/// `protected-8` and the like.
pub(super) fn with_rules(family: &str, rules: usize) -> String {
    format!("{family}-{rules}")
}

/// Whether the measured task is under a policy of the product.
pub(super) fn is_protected(name: &str) -> bool {
    name.starts_with("protected-")
}

/// Whether the product is loaded for a system.
pub(super) fn uses_product(name: &str) -> bool {
    [UNPROTECTED, UNCONCERNED, EMPTY].contains(&name) || is_protected(name)
}

/// All systems, in the order in which they are measured.
pub(super) fn all() -> Vec<System> {
    let system = |name: &str, setup| System {
        name: name.to_owned(),
        setup,
    };
    let mut systems = vec![
        system(NOTHING, Setup::Nothing),
        system(
            UNPROTECTED,
            Setup::Beside {
                policy: policy_file(NEIGHBOUR),
            },
        ),
        system(
            UNCONCERNED,
            Setup::Beside {
                policy: UNCONCERNED_POLICY.to_owned(),
            },
        ),
        system(
            EMPTY,
            Setup::Empty {
                policy: policy_file(NEIGHBOUR),
            },
        ),
    ];
    for rules in PROTECTED {
        let policy = policy_file(rules);
        systems.push(system(&with_rules("protected", rules), Setup::Under { policy }));
    }
    for rules in OTHERS {
        let profile = format!("bench-{rules}");
        let file = format!("apparmor-{rules}.bin");
        systems.push(system(
            &with_rules("apparmor", rules),
            Setup::AppArmor { profile, file },
        ));
    }
    for rules in OTHERS {
        systems.push(system(&with_rules("seccomp", rules), Setup::Seccomp { rules }));
    }
    systems.push(system(NOTHING_AGAIN, Setup::Nothing));
    systems
}

const UNCONCERNED_POLICY: &str = "unconcerned.yaml";

fn policy_file(rules: usize) -> String {
    format!("policy-{rules}.yaml")
}

/// Writes every file that some system names: all guests get the same bytes, whatever they measure. `compile` makes
/// an `AppArmor` profile loadable.
pub(super) fn write_files(folder: &Path, compile: impl Fn(&str) -> Result<Vec<u8>>) -> Result<Vec<Share>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    files.insert(
        UNCONCERNED_POLICY.to_owned(),
        policy::one_capability().into_bytes(),
    );
    for rules in PROTECTED {
        files.insert(policy_file(rules), policy::varmor(rules).into_bytes());
    }
    for system in all() {
        if let Setup::AppArmor { profile, file } = system.setup {
            let rules = file.trim_matches(|c: char| !c.is_ascii_digit());
            let rules = rules
                .parse()
                .with_context(|| format!("read the number in {file}"))?;
            files.insert(file, compile(&policy::apparmor(&profile, rules))?);
        }
    }
    for (name, content) in &files {
        workspace::write_file(&folder.join(name), content)?;
    }
    Ok(files
        .into_keys()
        .map(|name| Share::new(folder.join(&name), format!("{FOLDER}/{name}")))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{NOTHING, all};

    #[test]
    fn systems_have_distinct_names_and_begin_with_nothing() {
        let systems = all();
        let names: BTreeSet<&str> = systems.iter().map(|system| system.name.as_str()).collect();
        assert_eq!(names.len(), systems.len());
        assert_eq!(systems[0].name, NOTHING);
    }
}

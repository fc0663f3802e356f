//! The systems that are compared, and the files that bring them about.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, bail};

use super::{
    comparison, policy,
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
/// Under a policy that allows everything.
pub(super) const ALWAYS_ALLOW: &str = "always-allow";
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
        nothing(NOTHING),
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
    systems.extend(PROTECTED.map(protected));
    systems.extend(OTHERS.map(apparmor));
    systems.extend(OTHERS.map(seccomp));
    systems.push(nothing(NOTHING_AGAIN));
    systems
}

const UNCONCERNED_POLICY: &str = "unconcerned.yaml";
const ALWAYS_ALLOW_POLICY: &str = "always-allow.yaml";

fn policy_file(rules: usize) -> String {
    format!("policy-{rules}.yaml")
}

/// The number of rules that a file's name tells.
fn number_in(file: &str) -> Result<usize> {
    file.trim_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .with_context(|| format!("read the number in {file}"))
}

/// The kernel as it booted.
pub(super) fn nothing(name: &str) -> System {
    System {
        name: name.to_owned(),
        setup: Setup::Nothing,
    }
}

/// The product in the mode that allows everything.
pub(super) fn always_allow() -> System {
    System {
        name: ALWAYS_ALLOW.to_owned(),
        setup: Setup::Under {
            policy: ALWAYS_ALLOW_POLICY.to_owned(),
        },
    }
}

/// The product with a policy of the comparison that the presets repeat.
pub(super) fn compared(mode: &str, enforcer: &str) -> System {
    let name = format!("{mode}-{enforcer}");
    System {
        setup: Setup::Under {
            policy: format!("{name}.yaml"),
        },
        name,
    }
}

/// The system of the comparison with this name, such as `RuntimeDefault-BPF`.
pub(super) fn of_comparison(name: &str) -> Option<System> {
    comparison::policy(name)?;
    let (mode, enforcer) = name.split_once('-')?;
    Some(compared(mode, enforcer))
}

/// The product with so many rules of each kind.
pub(super) fn protected(rules: usize) -> System {
    System {
        name: with_rules("protected", rules),
        setup: Setup::Under {
            policy: policy_file(rules),
        },
    }
}

/// `AppArmor` with so many rules of each kind.
pub(super) fn apparmor(rules: usize) -> System {
    System {
        name: with_rules("apparmor", rules),
        setup: Setup::AppArmor {
            profile: format!("bench-{rules}"),
            file: format!("apparmor-{rules}.bin"),
        },
    }
}

/// A filter that refuses so many calls.
pub(super) fn seccomp(rules: usize) -> System {
    System {
        name: with_rules("seccomp", rules),
        setup: Setup::Seccomp { rules },
    }
}

/// Writes every file that some system names, of these or of the usual ones: all guests get the same bytes, whatever they
/// measure. `compile` makes an `AppArmor` profile loadable.
pub(super) fn write_files(
    folder: &Path,
    systems: &[System],
    compile: impl Fn(&str) -> Result<Vec<u8>>,
) -> Result<Vec<Share>> {
    write_all(folder, all().iter().chain(systems), compile)
}

/// Writes the files of systems that run the product, which compiles profiles itself.
pub(super) fn write_policies(folder: &Path, systems: &[System]) -> Result<Vec<Share>> {
    write_all(folder, systems.iter(), |_| {
        bail!("a profile beside the product's is loaded in guests only")
    })
}

fn write_all<'a>(
    folder: &Path,
    systems: impl Iterator<Item = &'a System>,
    compile: impl Fn(&str) -> Result<Vec<u8>>,
) -> Result<Vec<Share>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for system in systems {
        match &system.setup {
            Setup::AppArmor { profile, file } if !files.contains_key(file) => {
                let content = compile(&policy::apparmor(profile, number_in(file)?))?;
                files.insert(file.clone(), content);
            }
            Setup::Empty { policy } | Setup::Beside { policy } | Setup::Under { policy } => {
                let content = match policy.as_str() {
                    UNCONCERNED_POLICY => policy::one_capability(),
                    ALWAYS_ALLOW_POLICY => policy::always_allow(),
                    _ => match comparison::policy(policy.trim_end_matches(".yaml")) {
                        Some(content) => content,
                        None => policy::varmor(number_in(policy)?),
                    },
                };
                files.insert(policy.clone(), content.into_bytes());
            }
            Setup::AppArmor { .. } | Setup::Nothing | Setup::Seccomp { .. } => {}
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

    use super::{NOTHING, all, of_comparison};

    #[test]
    fn rows_of_the_comparison_are_systems_of_their_own() {
        let system = of_comparison("RuntimeDefault-BPF").expect("a row of the comparison");
        assert_eq!(system.name, "RuntimeDefault-BPF");
        assert!(of_comparison("protected-8").is_none());
        assert!(all().iter().all(|system| of_comparison(&system.name).is_none()));
    }

    #[test]
    fn systems_have_distinct_names_and_begin_with_nothing() {
        let systems = all();
        let names: BTreeSet<&str> = systems.iter().map(|system| system.name.as_str()).collect();
        assert_eq!(names.len(), systems.len());
        assert_eq!(systems[0].name, NOTHING);
    }
}

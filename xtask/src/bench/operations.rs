//! The measured operations and what they may cost, from the project's targets.

use anyhow::{Result, bail};

use super::protocol::Work;
use crate::kernel::Series;

/// A measured operation.
pub(super) struct Operation {
    /// The name that the guest knows.
    pub(super) name: &'static str,
    /// What it does, for the report.
    pub(super) does: &'static str,
    rounds: u32,
    batches: u32,
    /// Another operation that is a part of this one and has a bound of its own.
    pub(super) part: Option<&'static str>,
    /// Most instructions that the product may add for a protected task.
    pub(super) protected: Option<Limit>,
}

/// A bound on added instructions.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// The same on every kernel.
    Flat(u32),
    /// Before 6.12, and from 6.12 on.
    Kernels(u32, u32),
    /// What `AppArmor` adds with as many rules.
    AppArmor,
    /// Both.
    KernelsAndAppArmor(u32, u32),
}

impl Limit {
    /// The bound on this kernel, given what `AppArmor` adds there.
    pub(super) fn on(self, kernel: Series, apparmor: Option<f64>) -> Option<f64> {
        let recent = kernel >= Series::V6_12;
        match self {
            Self::Flat(most) => Some(f64::from(most)),
            Self::Kernels(old, new) => Some(f64::from(if recent { new } else { old })),
            Self::AppArmor => apparmor,
            Self::KernelsAndAppArmor(old, new) => {
                let most = f64::from(if recent { new } else { old });
                Some(apparmor.map_or(most, |other| most.min(other)))
            }
        }
    }
}

/// Most instructions that an operation of a task without a policy may cost more.
pub(super) fn unprotected(kernel: Series) -> f64 {
    if kernel == Series::V6_1 { 350.0 } else { 250.0 }
}

/// Many rules may cost so much more than few: a part, and as many instructions as the measurement is unsure of.
pub(super) const FLAT: (f64, f64) = (0.10, 30.0);

/// Short names for quick measurements.
const ALIASES: [(&str, &str); 2] = [("open", "open-9"), ("connect", "connect-v4")];

/// The operation of this name.
pub(super) fn find(name: &str) -> Option<&'static Operation> {
    let name = ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name, |(_, name)| name);
    ALL.iter().find(|operation| operation.name == name)
}

/// The operations of these names, or all; a name that does not exist is an error that tells those that do.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static Operation>> {
    let mut wanted = Vec::new();
    for name in names {
        let Some(operation) = find(name) else {
            let names: Vec<&str> = ALL.iter().map(|operation| operation.name).collect();
            bail!("no operation `{name}`; there are: {}", names.join(", "));
        };
        wanted.push(operation.name);
    }
    let is_wanted = |operation: &&Operation| wanted.is_empty() || wanted.contains(&operation.name);
    Ok(ALL.iter().filter(is_wanted).collect())
}

/// A batch is shorter than a tick of the kernel's clock (4,000,000), so that most batches hold none.
pub(super) const ALL: &[Operation] = &[
    operation("open-1", "open and close a file at the root", 100, None),
    operation("open-3", "open and close, path of 3 components", 100, None),
    operation(
        "open-9",
        "open and close, path of 9 components",
        80,
        Some(Limit::KernelsAndAppArmor(2000, 1200)),
    ),
    operation(
        "open-9-overlay",
        "the same on an overlay, as in a container's root",
        40,
        None,
    ),
    operation(
        "open-9-volume",
        "the same on a volume bound into the overlay",
        60,
        None,
    ),
    operation(
        "create-unlink",
        "create and unlink a file, 9 components",
        30,
        Some(Limit::AppArmor),
    ),
    operation("stat", "stat, 9 components", 120, Some(Limit::Flat(100))),
    operation(
        "rename",
        "rename within a folder, 9 components",
        50,
        Some(Limit::AppArmor),
    ),
    operation(
        "mkdir-rmdir",
        "make and remove a folder, 9 components",
        25,
        Some(Limit::AppArmor),
    ),
    operation("chmod", "chmod, 9 components", 80, Some(Limit::AppArmor)),
    operation(
        "socket",
        "make and close a TCP socket",
        80,
        Some(Limit::Flat(400)),
    ),
    operation(
        "connect-v4",
        "connect a UDP socket, IPv4",
        40,
        Some(Limit::Kernels(500, 350)),
    ),
    operation(
        "connect-v6",
        "connect a UDP socket, IPv6",
        80,
        Some(Limit::Kernels(500, 350)),
    ),
    operation(
        "connect-unix",
        "connect a datagram socket to a path of 9 components",
        100,
        Some(Limit::Kernels(500, 350)),
    ),
    operation("sendto", "send a datagram and receive it", 40, None),
    Operation {
        batches: 41,
        ..operation("fork", "fork, exit, wait", 6, Some(Limit::Flat(1500)))
    },
    Operation {
        batches: 41,
        part: Some("fork"),
        ..operation(
            "exec",
            "fork, exec of a static program, wait",
            2,
            Some(Limit::Flat(6000)),
        )
    },
    operation("mmap", "map a page of a file and unmap it", 50, None),
    operation("mmap-exec", "the same, executable", 50, None),
    operation("eventfd", "write to an eventfd", 1500, Some(Limit::Flat(100))),
];

const fn operation(
    name: &'static str,
    does: &'static str,
    rounds: u32,
    protected: Option<Limit>,
) -> Operation {
    Operation {
        name,
        does,
        rounds,
        batches: 21,
        part: None,
        protected,
    }
}

impl Operation {
    pub(super) fn work(&self) -> Work {
        Work {
            name: self.name.to_owned(),
            rounds: self.rounds,
            batches: self.batches,
            amount: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{ALL, Limit, find};
    use crate::kernel::Series;

    #[test]
    fn operations_have_distinct_names_and_parts_that_exist() {
        let names: BTreeSet<&str> = ALL.iter().map(|operation| operation.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(
            ALL.iter()
                .filter_map(|operation| operation.part)
                .all(|part| find(part).is_some())
        );
        assert_eq!(find("open").map(|operation| operation.name), Some("open-9"));
    }

    #[test]
    fn open_must_be_below_both_its_number_and_apparmor() {
        let limit = Limit::KernelsAndAppArmor(2000, 1200);
        assert_eq!(limit.on(Series::V6_1, Some(2425.0)), Some(2000.0));
        assert_eq!(limit.on(Series::V6_12, Some(900.0)), Some(900.0));
        assert_eq!(limit.on(Series::V7_2, None), Some(1200.0));
        assert_eq!(Limit::AppArmor.on(Series::V6_1, None), None);
    }
}

//! What this kernel can enforce, as a table for `varmor status` and for start-up errors.

use std::fmt;
use std::fs;

use serde::Serialize;

use super::{Btf, Facts, HOOKS, Presence, has_label_slots};

/// The report on the running kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Support {
    /// `uname -r`.
    pub kernel: String,
    /// Names in `/sys/kernel/security/lsm`.
    pub lsms: Vec<String>,
    pub features: Vec<Feature>,
}

/// One row of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Feature {
    pub name: String,
    pub available: bool,
    /// What is there, or what is missing and what to do.
    pub detail: String,
}

/// Looks at the running kernel; never fails, what cannot be read is reported as missing.
#[must_use]
pub fn probe() -> Support {
    let kernel = read_line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    let lsms: Vec<String> = read_line("/sys/kernel/security/lsm")
        .map(|line| line.split(',').map(str::to_owned).collect())
        .unwrap_or_default();
    let btf = Btf::of_running_kernel();
    let mut features = vec![
        feature("bpf-lsm", lsms.iter().any(|lsm| lsm == "bpf"), || {
            "add `bpf` to the lsm= list of the kernel command line, and mount securityfs".to_owned()
        }),
        feature("apparmor", lsms.iter().any(|lsm| lsm == "apparmor"), || {
            "not in the lsm= list".to_owned()
        }),
        feature("bpffs", fs::metadata("/sys/fs/bpf").is_ok(), || {
            "mount -t bpf bpf /sys/fs/bpf".to_owned()
        }),
        feature(
            "cgroup-v2",
            fs::metadata("/sys/fs/cgroup/cgroup.procs").is_ok(),
            || "tasks are found by their cgroup v2: mount -t cgroup2 cgroup2 /sys/fs/cgroup".to_owned(),
        ),
    ];
    match &btf {
        Err(error) => features.push(Feature {
            name: "btf".to_owned(),
            available: false,
            detail: error.to_string(),
        }),
        Ok(btf) => {
            let layout = Facts::of(btf);
            features.push(feature("btf", true, String::new));
            features.push(Feature {
                name: "layout".to_owned(),
                available: layout.is_ok(),
                detail: layout.err().map(|error| error.to_string()).unwrap_or_default(),
            });
            features.extend(hooks(btf));
        }
    }
    Support {
        kernel,
        lsms,
        features,
    }
}

impl Support {
    /// Whether the BPF enforcer can work here, else the reasons.
    pub fn bpf_enforcer(&self) -> Result<(), String> {
        let missing: Vec<String> = self
            .features
            .iter()
            .filter(|feature| {
                !feature.available && feature.name != "apparmor" && !feature.name.starts_with("hook ")
            })
            .map(|feature| format!("{}: {}", feature.name, feature.detail))
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(missing.join("; "))
        }
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {}, lsm {}", self.kernel, self.lsms.join(","))?;
        for feature in &self.features {
            let mark = if feature.available { "yes" } else { "no " };
            writeln!(f, "  {mark} {:<24} {}", feature.name, feature.detail)?;
        }
        Ok(())
    }
}

/// Hooks that not every kernel has, and what covers for a missing one.
fn hooks(btf: &Btf) -> Vec<Feature> {
    let label_slots = has_label_slots(btf);
    HOOKS
        .iter()
        .filter(|hook| hook.presence != Presence::TaskHash || !label_slots)
        .map(|hook| {
            let available = btf.has_function(&format!("bpf_lsm_{}", hook.name));
            let detail = match (available, hook.presence) {
                (true, _) => String::new(),
                (false, Presence::CoveredBy(other)) => format!("covered by {other}"),
                (false, _) => "missing: the BPF enforcer cannot start".to_owned(),
            };
            Feature {
                name: format!("hook {}", hook.name),
                available,
                detail,
            }
        })
        .collect()
}

fn feature(name: &str, available: bool, otherwise: impl FnOnce() -> String) -> Feature {
    Feature {
        name: name.to_owned(),
        available,
        detail: if available { String::new() } else { otherwise() },
    }
}

fn read_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

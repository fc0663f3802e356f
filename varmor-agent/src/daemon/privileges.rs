//! What this process may do, and no more: it is the most interesting one of the machine to take over.

use anyhow::Context as _;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};
use tracing::{info, warn};

/// A capability that is kept, and what for.
const KEPT: [(CapabilitySet, &str, &str); 11] = [
    (CapabilitySet::BPF, "BPF", "load the programs and their maps"),
    (CapabilitySet::PERFMON, "PERFMON", "load programs of kind LSM"),
    (
        CapabilitySet::SYS_ADMIN,
        "SYS_ADMIN",
        "open programs and maps by their ids",
    ),
    (
        CapabilitySet::SYS_RESOURCE,
        "SYS_RESOURCE",
        "lift the limit of locked memory before Linux 5.11",
    ),
    (
        CapabilitySet::SYS_PTRACE,
        "SYS_PTRACE",
        "read about the processes of other users in /proc",
    ),
    (
        CapabilitySet::KILL,
        "KILL",
        "let starts go on that wait at the gate",
    ),
    (CapabilitySet::MAC_ADMIN, "MAC_ADMIN", "load AppArmor profiles"),
    (
        CapabilitySet::DAC_READ_SEARCH,
        "DAC_READ_SEARCH",
        "read what runtimes write with their own owners",
    ),
    (CapabilitySet::AUDIT_READ, "AUDIT_READ", "read audit records"),
    (
        CapabilitySet::AUDIT_CONTROL,
        "AUDIT_CONTROL",
        "ask how many audit records were lost",
    ),
    (
        CapabilitySet::SYSLOG,
        "SYSLOG",
        "read the kernel's log where there are no audit records",
    ),
];

/// Gives up the rest for this process and, because what it executes cannot gain any, for the programs that it starts.
/// Must run before there are threads.
pub(super) fn drop_others() -> anyhow::Result<()> {
    let had = capabilities(None).context("read the capabilities of this process")?;
    let kept = kept();
    let mut left = had;
    left.effective &= kept;
    left.permitted &= kept;
    left.inheritable = CapabilitySet::empty();
    // Without this one, whoever started the agent has set the bounds.
    if had.effective.contains(CapabilitySet::SETPCAP) {
        forget_bounds(kept)?;
    }
    set_capabilities(None, left).context("give up capabilities")?;
    set_no_new_privs(true).context("set no_new_privs")?;
    // No core file with the rules of the machine, and no tracer without CAP_SYS_PTRACE.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("make this process undumpable")?;
    info!(
        given_up = had.effective.difference(left.effective).bits().count_ones(),
        kept = left.effective.bits().count_ones(),
        "capabilities"
    );
    for (_, name, purpose) in KEPT
        .iter()
        .filter(|(capability, _, _)| !left.effective.contains(*capability))
    {
        warn!(
            capability = name,
            purpose, "a capability is missing; add it to the service or to the pod's securityContext"
        );
    }
    Ok(())
}

fn kept() -> CapabilitySet {
    KEPT.iter()
        .fold(CapabilitySet::empty(), |set, (capability, _, _)| {
            set | *capability
        })
}

/// A program that root executes has what the bounding set holds.
fn forget_bounds(kept: CapabilitySet) -> anyhow::Result<()> {
    use rustix::thread::{capability_is_in_bounding_set, remove_capability_from_bounding_set};
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        // An error means that this kernel has no capability of that number.
        let Ok(is_there) = capability_is_in_bounding_set(capability) else {
            break;
        };
        if is_there && !kept.contains(capability) {
            remove_capability_from_bounding_set(capability)
                .with_context(|| format!("take capability {number} out of the bounding set"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> rustix::thread::CapabilitySets {
        let every = CapabilitySet::from_bits_retain((1 << 41) - 1);
        rustix::thread::CapabilitySets {
            effective: every,
            permitted: every,
            inheritable: every,
        }
    }

    #[test]
    fn capabilities_that_change_the_machine_are_not_kept() {
        let kept = kept();
        assert_eq!(kept.bits().count_ones() as usize, KEPT.len());
        for capability in [
            CapabilitySet::SYS_MODULE,
            CapabilitySet::SYS_RAWIO,
            CapabilitySet::SETUID,
            CapabilitySet::NET_ADMIN,
            CapabilitySet::NET_RAW,
            CapabilitySet::SYS_BOOT,
            CapabilitySet::MKNOD,
            CapabilitySet::DAC_OVERRIDE,
        ] {
            assert!(!kept.contains(capability), "{capability:?}");
        }
    }

    #[test]
    fn what_is_given_up_does_not_come_back() {
        // Capabilities belong to a thread; the others of this test keep theirs.
        let thread = std::thread::spawn(|| {
            drop_others().unwrap();
            assert!(set_capabilities(None, all()).is_err());
            capabilities(None).unwrap().effective
        });
        let left = thread.join().unwrap();
        assert!(kept().contains(left), "{left:?}");
    }
}

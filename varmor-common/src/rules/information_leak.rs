//! Rules against the leakage of information that helps an escape or a lateral movement.

use super::hardening::DISKS_BY_NAME;
use super::{APPARMOR_BPF, AppArmor, Bpf, BuiltinRule, Category, Contribution, DiskUse, NO_ADDRESSES};
use crate::policy::Enforcers;
use crate::profile::Access;

use Category::MitigatingInformationLeakage;

/// AWS and most others, over IPv4 and IPv6.
const AWS: [Contribution; 2] = [
    Contribution::Address("169.254.169.254"),
    Contribution::Address("fd00:ec2::254"),
];
const VOLCENGINE: Contribution = Contribution::Address("100.96.0.96");

pub(super) const RULES: &[BuiltinRule] = &[
    BuiltinRule {
        id: "mitigate-sa-leak",
        aliases: &[],
        category: MitigatingInformationLeakage,
        description: "refuses reading the token of the service account",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[
            Contribution::Path("/run/secrets/kubernetes.io/serviceaccount/**", Access::READ),
            Contribution::Path("/var/run/secrets/kubernetes.io/serviceaccount/**", Access::READ),
        ]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "mitigate-disk-device-number-leak",
        aliases: &[],
        category: MitigatingInformationLeakage,
        description: "refuses reading the device numbers of the node's disks, and making nodes with these numbers",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[
            Contribution::Path("/proc/partitions", Access::READ),
            Contribution::Path("/proc/**/mountinfo", Access::READ),
            Contribution::DiskDevices(DiskUse::Make),
        ]),
        app_armor: AppArmor::Partly(DISKS_BY_NAME),
    },
    BuiltinRule {
        id: "mitigate-overlayfs-leak",
        aliases: &[],
        category: MitigatingInformationLeakage,
        description: "refuses reading where the container's image lies on the node",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[
            Contribution::Path("/proc/**/mounts", Access::READ),
            Contribution::Path("/proc/**/mountinfo", Access::READ),
        ]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "mitigate-host-ip-leak",
        aliases: &[],
        category: MitigatingInformationLeakage,
        description: "refuses reading the neighbour table, which names the node's address",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[Contribution::Path("/proc/**/net/arp", Access::READ)]),
        app_armor: AppArmor::AsBpf,
    },
    BuiltinRule {
        id: "block-access-to-metadata-service",
        aliases: &["disallow-metadata-service"],
        category: MitigatingInformationLeakage,
        description: "refuses connections to the metadata services of AWS (and of the clouds that use its address) and \
                      of Volcengine",
        enforcers: Enforcers::BPF,
        bpf: Bpf::Contributes(&[AWS[0], AWS[1], VOLCENGINE]),
        app_armor: AppArmor::Unsupported(NO_ADDRESSES),
    },
    BuiltinRule {
        id: "block-access-to-aws-metadata-service",
        aliases: &[],
        category: MitigatingInformationLeakage,
        description: "refuses connections to the metadata service of AWS and of the clouds that use its address",
        enforcers: Enforcers::BPF,
        bpf: Bpf::Contributes(&AWS),
        app_armor: AppArmor::Unsupported(NO_ADDRESSES),
    },
    BuiltinRule {
        id: "block-access-to-volc-metadata-service",
        aliases: &[],
        category: MitigatingInformationLeakage,
        description: "refuses connections to the metadata service of Volcengine",
        enforcers: Enforcers::BPF,
        bpf: Bpf::Contributes(&[VOLCENGINE]),
        app_armor: AppArmor::Unsupported(NO_ADDRESSES),
    },
    BuiltinRule {
        id: "block-access-to-alibaba-metadata-service",
        aliases: &[],
        category: MitigatingInformationLeakage,
        description: "refuses connections to the metadata service of Alibaba Cloud",
        enforcers: Enforcers::BPF,
        bpf: Bpf::Contributes(&[Contribution::Address("100.100.100.200")]),
        app_armor: AppArmor::Unsupported(NO_ADDRESSES),
    },
    BuiltinRule {
        id: "block-access-to-oci-metadata-service",
        aliases: &[],
        category: MitigatingInformationLeakage,
        description: "refuses connections to the metadata service of Oracle Cloud",
        enforcers: Enforcers::BPF,
        bpf: Bpf::Contributes(&[Contribution::Address("192.0.0.192")]),
        app_armor: AppArmor::Unsupported(NO_ADDRESSES),
    },
];

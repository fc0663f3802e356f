//! Rules about sockets and about services of the node and the cluster.

use super::contribution::SocketPart;
use super::{APPARMOR_BPF, Bpf, BuiltinRule, Category, Contribution};
use crate::policy::Enforcers;
use crate::policy::vocabulary::{INTERNET_DOMAINS, af, ipproto};
use crate::profile::Access;

use Category::OtherAttackProtection;

pub(super) const RULES: &[BuiltinRule] = &[
    sockets(
        "disable-network",
        &[],
        "refuses creating sockets of any kind",
        &[socket(&[], &[])],
    ),
    sockets(
        "disable-inet",
        &["disable-ipv4"],
        "refuses creating IPv4 sockets",
        &[socket(&[af::INET], &[])],
    ),
    sockets(
        "disable-inet6",
        &["disable-ipv6"],
        "refuses creating IPv6 sockets",
        &[socket(&[af::INET6], &[])],
    ),
    sockets(
        "disable-unix-domain-socket",
        &[],
        "refuses creating unix domain sockets",
        &[socket(&[af::UNIX], &[])],
    ),
    sockets(
        "disable-icmp",
        &[],
        "refuses creating ICMP and ICMPv6 sockets",
        &[socket(&INTERNET_DOMAINS, &[ipproto::ICMP, ipproto::ICMPV6])],
    ),
    sockets(
        "disable-tcp",
        &[],
        "refuses creating TCP sockets, also as multipath TCP and through SMC",
        &[
            socket(&INTERNET_DOMAINS, &[ipproto::TCP, ipproto::MPTCP]),
            socket(&[af::SMC], &[]),
        ],
    ),
    sockets(
        "disable-udp",
        &[],
        "refuses creating UDP and UDP-Lite sockets",
        &[socket(&INTERNET_DOMAINS, &[ipproto::UDP, ipproto::UDPLITE])],
    ),
    BuiltinRule {
        id: "block-access-to-kube-apiserver",
        aliases: &[],
        category: OtherAttackProtection,
        description: "refuses connections to the API server of the cluster",
        enforcers: Enforcers::BPF,
        bpf: Bpf::Contributes(&[Contribution::Service {
            namespace: "default",
            name: "kubernetes",
        }]),
    },
    BuiltinRule {
        id: "block-access-to-container-runtime",
        aliases: &[],
        category: OtherAttackProtection,
        description: "refuses opening, replacing and linking the sockets of containerd, Docker and CRI-O",
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(&[
            Contribution::Path("/**/containerd.sock", Access::READ_WRITE),
            Contribution::Path("/**/docker.sock", Access::READ_WRITE),
            Contribution::Path("/**/crio.sock", Access::READ_WRITE),
        ]),
    },
];

const fn socket(domains: &'static [u32], protocols: &'static [u32]) -> Contribution {
    Contribution::Socket(SocketPart { domains, protocols })
}

/// A rule about the creation of sockets.
const fn sockets(
    id: &'static str,
    aliases: &'static [&'static str],
    description: &'static str,
    contributions: &'static [Contribution],
) -> BuiltinRule {
    BuiltinRule {
        id,
        aliases,
        category: OtherAttackProtection,
        description,
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(contributions),
    }
}

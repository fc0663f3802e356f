//! Rules about sockets and about services of the node and the cluster.

use super::contribution::SocketPart;
use super::{APPARMOR_BPF, AppArmor, Bpf, BuiltinRule, Category, Contribution, NO_ADDRESSES};
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
        AppArmor::AsBpf,
    ),
    sockets(
        "disable-inet",
        &["disable-ipv4"],
        "refuses creating IPv4 sockets",
        &[socket(&[af::INET], &[])],
        AppArmor::AsBpf,
    ),
    sockets(
        "disable-inet6",
        &["disable-ipv6"],
        "refuses creating IPv6 sockets",
        &[socket(&[af::INET6], &[])],
        AppArmor::AsBpf,
    ),
    sockets(
        "disable-unix-domain-socket",
        &[],
        "refuses creating unix domain sockets",
        &[socket(&[af::UNIX], &[])],
        AppArmor::AsBpf,
    ),
    sockets(
        "disable-icmp",
        &[],
        "refuses creating ICMP and ICMPv6 sockets",
        &[socket(&INTERNET_DOMAINS, &[ipproto::ICMP, ipproto::ICMPV6])],
        AppArmor::Partly(
            "every raw socket of IPv4 and IPv6 is refused, and ping sockets (datagrams) are not",
        ),
    ),
    sockets(
        "disable-tcp",
        &[],
        "refuses creating TCP sockets, also as multipath TCP and through SMC",
        &[
            socket(&INTERNET_DOMAINS, &[ipproto::TCP, ipproto::MPTCP]),
            socket(&[af::SMC], &[]),
        ],
        AppArmor::Partly("every stream socket of IPv4 and IPv6 is refused, SCTP too"),
    ),
    sockets(
        "disable-udp",
        &[],
        "refuses creating UDP and UDP-Lite sockets",
        &[socket(&INTERNET_DOMAINS, &[ipproto::UDP, ipproto::UDPLITE])],
        AppArmor::Partly("every datagram socket of IPv4 and IPv6 is refused, ping sockets too"),
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
        app_armor: AppArmor::Unsupported(NO_ADDRESSES),
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
        app_armor: AppArmor::Partly("connecting to a socket is only seen from Linux 6.17 on"),
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
    app_armor: AppArmor,
) -> BuiltinRule {
    BuiltinRule {
        id,
        aliases,
        category: OtherAttackProtection,
        description,
        enforcers: APPARMOR_BPF,
        bpf: Bpf::Contributes(contributions),
        app_armor,
    }
}

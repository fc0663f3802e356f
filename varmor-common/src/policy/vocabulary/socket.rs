//! Address families, socket types and protocols.

use super::lookup;

/// `AF_*` numbers that rules name.
pub mod af {
    pub const UNIX: u32 = 1;
    pub const INET: u32 = 2;
    pub const INET6: u32 = 10;
    pub const ALG: u32 = 38;
    pub const SMC: u32 = 43;
}

/// `SOCK_*` numbers.
pub mod sock {
    pub const STREAM: u32 = 1;
    pub const DGRAM: u32 = 2;
    pub const RAW: u32 = 3;
    pub const RDM: u32 = 4;
    pub const SEQPACKET: u32 = 5;
    pub const DCCP: u32 = 6;
    pub const PACKET: u32 = 10;
}

/// `IPPROTO_*` numbers.
pub mod ipproto {
    pub const ICMP: u32 = 1;
    pub const TCP: u32 = 6;
    pub const UDP: u32 = 17;
    pub const ICMPV6: u32 = 58;
    pub const UDPLITE: u32 = 136;
    pub const MPTCP: u32 = 262;
}

/// The families in which an `IPPROTO_*` number means that protocol. Elsewhere the same numbers mean other things:
/// netlink's 6 is `NETLINK_XFRM`.
pub const INTERNET_DOMAINS: [u32; 2] = [af::INET, af::INET6];

const DOMAINS: [(&str, u32); 46] = [
    ("unix", af::UNIX),
    ("inet", af::INET),
    ("ax25", 3),
    ("ipx", 4),
    ("appletalk", 5),
    ("netrom", 6),
    ("bridge", 7),
    ("atmpvc", 8),
    ("x25", 9),
    ("inet6", af::INET6),
    ("rose", 11),
    ("decnet", 12),
    ("netbeui", 13),
    ("security", 14),
    ("key", 15),
    ("netlink", 16),
    ("packet", 17),
    ("ash", 18),
    ("econet", 19),
    ("atmsvc", 20),
    ("rds", 21),
    ("sna", 22),
    ("irda", 23),
    ("pppox", 24),
    ("wanpipe", 25),
    ("llc", 26),
    ("ib", 27),
    ("mpls", 28),
    ("can", 29),
    ("tipc", 30),
    ("bluetooth", 31),
    ("iucv", 32),
    ("rxrpc", 33),
    ("isdn", 34),
    ("phonet", 35),
    ("ieee802154", 36),
    ("caif", 37),
    ("alg", af::ALG),
    ("nfc", 39),
    ("vsock", 40),
    ("kcm", 41),
    ("qipcrtr", 42),
    ("smc", af::SMC),
    ("xdp", 44),
    ("mctp", 45),
    ("local", af::UNIX),
];

const TYPES: [(&str, u32); 7] = [
    ("stream", sock::STREAM),
    ("dgram", sock::DGRAM),
    ("raw", sock::RAW),
    ("rdm", sock::RDM),
    ("seqpacket", sock::SEQPACKET),
    ("dccp", sock::DCCP),
    ("packet", sock::PACKET),
];

/// A word of the policy stands for every number under which the kernel offers that protocol.
const PROTOCOLS: [(&str, &[u32]); 3] = [
    ("icmp", &[ipproto::ICMP, ipproto::ICMPV6]),
    ("tcp", &[ipproto::TCP, ipproto::MPTCP]),
    ("udp", &[ipproto::UDP, ipproto::UDPLITE]),
];

/// The `AF_*` number of a word.
#[must_use]
pub fn domain(word: &str) -> Option<u32> {
    lookup(&DOMAINS, word)
}

/// The word for an `AF_*` number.
#[must_use]
pub fn domain_word(number: u32) -> Option<&'static str> {
    let known = DOMAINS.iter().find(|(_, known)| *known == number);
    known.map(|(word, _)| *word)
}

/// The `SOCK_*` number of a word.
#[must_use]
pub fn socket_type(word: &str) -> Option<u32> {
    lookup(&TYPES, word)
}

/// The `IPPROTO_*` numbers of a word.
#[must_use]
pub fn protocols(word: &str) -> Option<&'static [u32]> {
    PROTOCOLS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word))
        .map(|(_, numbers)| *numbers)
}

/// The words for domains, for messages.
pub fn domain_names() -> impl Iterator<Item = &'static str> {
    DOMAINS.iter().map(|(name, _)| *name).chain(["all"])
}

/// The words for types, for messages.
pub fn type_names() -> impl Iterator<Item = &'static str> {
    TYPES.iter().map(|(name, _)| *name).chain(["all"])
}

/// The words for protocols, for messages.
pub fn protocol_names() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.iter().map(|(name, _)| *name).chain(["all"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_up_to_mctp_has_a_word() {
        for number in 1..=45 {
            assert!(DOMAINS.iter().any(|(_, known)| *known == number), "AF {number}");
        }
    }

    #[test]
    fn tcp_is_also_multipath_tcp() {
        assert_eq!(protocols("TCP"), Some([6, 262].as_slice()));
    }
}

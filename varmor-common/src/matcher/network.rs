//! The step of the network rules: from an address and a port to a leaf. The kernel and user space run the same code.

use core::net::Ipv6Addr;

use crate::abi::{
    LEAF_SITE_SHIFT, MAX_NET_STEPS, NODE_KIND_SHIFT, NODE_LEAF, NODE_ROW, NetTest, PLACE_HIGH, PLACE_LOW,
    Point, ROW_PLACE_SHIFT, VERDICT_ALLOW, VERDICT_AUDIT, VERDICT_DENY,
};

/// The prefix length of the IPv4 addresses within the IPv6 ones (`::ffff:0:0/96`).
pub const MAPPED: u32 = 96;
/// The lower half of `::ffff:0:0`.
pub const V4_MAPPED: u64 = 0xffff << 32;

/// `64:ff9b::/96` (RFC 6052), the well-known prefix of NAT64: upper half.
const NAT64: u64 = 0x0064_ff9b_0000_0000;
/// `64:ff9b:1::/48` (RFC 8215), NAT64 within a site: the first 48 bits.
const NAT64_LOCAL: u64 = 0x0064_ff9b_0001;
/// `2002::/16` (RFC 3056), 6to4: the first 16 bits.
const SIX_TO_FOUR: u64 = 0x2002;

const VERDICTS: u32 = VERDICT_DENY | VERDICT_AUDIT | VERDICT_ALLOW;
const INDEX: u32 = (1 << NODE_KIND_SHIFT) - 1;
const ROW_INDEX: u32 = (1 << ROW_PLACE_SHIFT) - 1;

/// The tables of one profile's network rules.
pub trait Network {
    /// The successor for a byte in a row.
    fn successor(&self, row: u32, byte: u8) -> Option<u32>;
    fn test(&self, index: u32) -> Option<&NetTest>;
}

/// Whether a node is the answer already.
#[inline(always)]
#[must_use]
pub const fn is_leaf(node: u32) -> bool {
    node >> NODE_KIND_SHIFT == NODE_LEAF
}

/// What a leaf says.
#[inline(always)]
#[must_use]
pub const fn leaf(node: u32) -> Point {
    Point {
        verdict: node & VERDICTS,
        site: (node & INDEX) >> LEAF_SITE_SHIFT,
    }
}

/// The leaf for an address (IPv4 as v4-mapped) and a port; `None` if a table has no entry where one must be.
#[inline(always)]
#[must_use]
pub fn resolve<N: Network>(tables: &N, start: u32, hi: u64, lo: u64, port: u16) -> Option<u32> {
    let mut node = start;
    let mut step = 0;
    while step < MAX_NET_STEPS {
        if is_leaf(node) {
            return Some(node);
        }
        node = if node >> NODE_KIND_SHIFT == NODE_ROW {
            let place = (node & INDEX) >> ROW_PLACE_SHIFT;
            let word = if place >= PLACE_HIGH {
                hi
            } else if place >= PLACE_LOW {
                lo
            } else {
                u64::from(port)
            };
            tables.successor(node & ROW_INDEX, byte(word, place))?
        } else {
            let test = tables.test(node & INDEX)?;
            let differs = ((hi ^ test.hi) & test.mask_hi) | ((lo ^ test.lo) & test.mask_lo);
            let beyond = u32::from(port).wrapping_sub(test.first);
            if differs == 0 && beyond <= test.span {
                test.inside
            } else {
                test.outside
            }
        };
        step += 1;
    }
    None
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the byte is what is asked for")]
const fn byte(word: u64, place: u32) -> u8 {
    (word >> ((place & 7) * 8)) as u8
}

/// The first byte of an address, by which the search begins: of the IPv4 address in a v4-mapped one.
#[inline(always)]
#[must_use]
pub const fn first_byte(hi: u64, lo: u64, v4: bool) -> u8 {
    if v4 { byte(lo, 3) } else { byte(hi, 7) }
}

/// Whether this is an IPv4 address in IPv6 clothes.
#[inline(always)]
#[must_use]
pub const fn is_v4(hi: u64, lo: u64) -> bool {
    hi == 0 && lo >> 32 == V4_MAPPED >> 32
}

/// The IPv4 addresses that an IPv6 address leads to through a translator or a tunnel, as lower halves of v4-mapped
/// addresses; 0 = none. The prefix of RFC 8215 is divided as its site likes, so both common places are read.
#[inline(always)]
#[must_use]
pub const fn embedded(hi: u64, lo: u64) -> [u64; 2] {
    if hi == NAT64 && lo >> 32 == 0 {
        [mapped(lo), 0]
    } else if hi >> 48 == SIX_TO_FOUR {
        [mapped(hi >> 16), 0]
    } else if hi >> 16 == NAT64_LOCAL {
        [mapped(lo), mapped((hi & 0xffff) << 16 | (lo >> 40 & 0xffff))]
    } else {
        [0, 0]
    }
}

#[inline(always)]
const fn mapped(v4: u64) -> u64 {
    let v4 = v4 & 0xffff_ffff;
    if v4 == 0 { 0 } else { V4_MAPPED | v4 }
}

/// Adds what another question about the same operation said: a denial wins, and the first one gives the site.
#[inline(always)]
#[must_use]
pub const fn join(first: Point, second: Point) -> Point {
    let denies = second.verdict & VERDICT_DENY != 0 && first.verdict & VERDICT_DENY == 0;
    Point {
        verdict: first.verdict | second.verdict,
        site: if denies || first.site == 0 {
            second.site
        } else {
            first.site
        },
    }
}

/// A kind of socket as the address that its rules are about: domain and type are the first two bytes, the protocol
/// is the port.
#[inline(always)]
#[must_use]
pub const fn socket_address(domain: u32, kind: u32) -> u64 {
    (domain as u64 & 0xff) << 56 | (kind as u64 & 0xff) << 48
}

/// The protocol that `socket(2)` gives an internet socket for protocol 0: the first permanent one of the type
/// (`inet_create` in `net/ipv4/af_inet.c`).
#[inline(always)]
#[must_use]
pub const fn real_protocol(domain: u32, kind: u32, protocol: u32) -> u32 {
    const AF_INET: u32 = 2;
    const AF_INET6: u32 = 10;
    if protocol != 0 || (domain != AF_INET && domain != AF_INET6) {
        return protocol;
    }
    match kind {
        1 => 6,
        2 => 17,
        5 => 132,
        6 => 33,
        _ => 0,
    }
}

/// The bit of a protocol in the masks of protocols that rules may speak about.
#[inline(always)]
#[must_use]
pub const fn protocol_bit(protocol: u32) -> u64 {
    1 << if protocol < 63 { protocol } else { 63 }
}

/// Both halves of an address.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the halves of 128 bits are 64 bits each"
)]
pub const fn halves(address: Ipv6Addr) -> (u64, u64) {
    let bits = address.to_bits();
    ((bits >> 64) as u64, bits as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedded_of(text: &str) -> Vec<String> {
        let (hi, lo) = halves(text.parse().unwrap());
        embedded(hi, lo)
            .into_iter()
            .filter(|low| *low != 0)
            .map(|low| Ipv6Addr::from_bits(u128::from(low)).to_canonical().to_string())
            .collect()
    }

    #[test]
    fn translated_addresses_hold_an_ipv4_address() {
        for (text, expected) in [
            ("64:ff9b::169.254.169.254", &["169.254.169.254"][..]),
            ("64:ff9b::1:169.254.169.254", &[]),
            ("2002:a9fe:a9fe::1", &["169.254.169.254"]),
            ("64:ff9b:1::169.254.169.254", &["169.254.169.254"]),
            ("64:ff9b:1:a9fe:a9:fe00::", &["169.254.169.254"]),
            ("2001:db8::169.254.169.254", &[]),
            ("::ffff:169.254.169.254", &[]),
        ] {
            assert_eq!(embedded_of(text), expected, "{text}");
        }
    }

    #[test]
    fn protocol_zero_is_the_protocol_of_the_type() {
        assert_eq!(real_protocol(2, 1, 0), 6);
        assert_eq!(real_protocol(10, 2, 0), 17);
        assert_eq!(real_protocol(10, 5, 0), 132);
        assert_eq!(real_protocol(2, 1, 262), 262);
        assert_eq!(real_protocol(2, 3, 0), 0);
        assert_eq!(real_protocol(1, 1, 0), 0);
    }

    #[test]
    fn joined_verdicts_name_the_denying_rule() {
        let point = |verdict, site| Point { verdict, site };
        let (none, audit, deny) = (point(0, 0), point(VERDICT_AUDIT, 1), point(VERDICT_DENY, 2));
        assert_eq!(join(audit, deny), point(VERDICT_DENY | VERDICT_AUDIT, 2));
        assert_eq!(join(deny, audit), point(VERDICT_DENY | VERDICT_AUDIT, 2));
        assert_eq!(join(none, audit), audit);
        assert_eq!(join(deny, point(VERDICT_DENY, 3)), deny);
    }
}

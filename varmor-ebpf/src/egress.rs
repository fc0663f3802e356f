//! Sockets and destinations: points that hash look-ups decide, however many rules there are.

use varmor_common::{
    abi::{
        ANY, MAX_ADDRESS_LENGTHS, MAX_PORT_LENGTHS, POINT_EGRESS, POINT_SOCKET, Point, PointKey, VERDICT_DENY,
    },
    matcher::{length_applies, mask_address, mask_port},
};

use crate::maps;

/// Upper half of `::ffff:0:0/96` is zero; this is bits 64..96 of the lower half's prefix.
const V4_MAPPED: u64 = 0xffff << 32;
/// `64:ff9b::/96` (RFC 6052), the well-known prefix of NAT64.
const NAT64: u64 = 0x0064_ff9b_0000_0000;
const LOOPBACK_V4: u64 = V4_MAPPED | 0x7f00_0001;

#[inline(always)]
const fn add(collected: u64, point: Point) -> u64 {
    let deny = point.verdict & VERDICT_DENY != 0;
    let denied = collected & VERDICT_DENY as u64 != 0;
    let verdict = (collected & 0xffff_ffff) | point.verdict as u64;
    if collected >> 32 == 0 || (deny && !denied) {
        verdict | (point.site as u64) << 32
    } else {
        verdict | collected & 0xffff_ffff_0000_0000
    }
}

/// What the socket rules say about (domain, type, protocol): `VERDICT_*` bits, the site above.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn socket(artefact: u32, domain: u32, kind: u32, protocol: u32) -> u64 {
    let Some(points) = maps::POINTS.get(artefact) else {
        return 0;
    };
    let mut collected = 0;
    let mut i = 0;
    while i < 4 {
        let key = PointKey {
            hi: 0,
            lo: 0,
            kind: POINT_SOCKET,
            a: domain,
            b: if i & 1 != 0 { kind } else { ANY },
            c: if i & 2 != 0 { protocol } else { ANY },
        };
        if let Some(point) = maps::point(points, &key) {
            collected = add(collected, point);
        }
        i += 1;
    }
    collected
}

/// What the destination rules say about an address and the addresses that reach the same host: an unspecified
/// address is the loopback, a NAT64 address its IPv4 host. IPv4 is v4-mapped.
#[inline(always)]
pub fn destination(artefact: u32, hi: u64, lo: u64, port: u32) -> u64 {
    let mut collected = exact_destination(artefact, hi, lo, port);
    let other = if hi == 0 && lo == V4_MAPPED {
        Some((0, LOOPBACK_V4))
    } else if hi == 0 && lo == 0 {
        Some((0, 1))
    } else if hi == NAT64 && lo >> 32 == 0 {
        Some((0, V4_MAPPED | lo))
    } else {
        None
    };
    if let Some((hi, lo)) = other {
        let more = exact_destination(artefact, hi, lo, port);
        collected = add(
            collected,
            Point {
                verdict: more as u32,
                site: (more >> 32) as u32,
            },
        );
    }
    collected
}

/// One look-up per existing prefix length of addresses and ports.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn exact_destination(artefact: u32, hi: u64, lo: u64, port: u32) -> u64 {
    let Some(profile) = maps::descriptor(artefact) else {
        return 0;
    };
    let Some(points) = maps::POINTS.get(artefact) else {
        return 0;
    };
    let v4 = hi == 0 && lo >> 32 == V4_MAPPED >> 32;
    let mut collected = 0;
    let mut i = 0;
    while i < MAX_ADDRESS_LENGTHS {
        if i >= profile.address_lengths as usize {
            break;
        }
        let address = u32::from(profile.address_length[i]);
        i += 1;
        if !length_applies(address, v4) {
            continue;
        }
        let masked = mask_address(hi, lo, address);
        let mut j = 0;
        while j < MAX_PORT_LENGTHS {
            if j >= profile.port_lengths as usize {
                break;
            }
            let ports = u32::from(profile.port_length[j]);
            let key = PointKey {
                hi: masked.0,
                lo: masked.1,
                kind: POINT_EGRESS,
                a: address,
                b: mask_port(port as u16, ports),
                c: ports,
            };
            if let Some(point) = maps::point(points, &key) {
                collected = add(collected, point);
            }
            j += 1;
        }
    }
    collected
}

//! Which address prefixes are looked up for a destination.

use core::net::Ipv6Addr;

/// The prefix length of the IPv4 addresses within the IPv6 ones (`::ffff:0:0/96`).
pub const MAPPED: u32 = 96;

/// Whether a prefix of this length may speak about the address: a rule about IPv6 networks (`::/0` is compiled to
/// its two halves) does not speak about IPv4, but a rule about every address (length 0) does.
#[inline(always)]
#[must_use]
pub const fn length_applies(length: u32, v4: bool) -> bool {
    !v4 || length == 0 || length >= MAPPED
}

/// Keeps the first `length` bits of an address.
#[inline(always)]
#[must_use]
pub const fn mask_address(hi: u64, lo: u64, length: u32) -> (u64, u64) {
    match length {
        0 => (0, 0),
        1..=63 => (hi & (u64::MAX << (64 - length)), 0),
        64 => (hi, 0),
        65..=127 => (hi, lo & (u64::MAX << (128 - length))),
        _ => (hi, lo),
    }
}

/// Keeps the first `length` of a port's 16 bits.
#[inline(always)]
#[must_use]
pub const fn mask_port(port: u16, length: u32) -> u32 {
    if length >= 16 {
        port as u32
    } else {
        (port as u32) & !(0xffff >> length)
    }
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

//! The compiled network rules: a decision diagram over addresses, ports and kinds of sockets.

/// Shift of a node's kind in its number.
pub const NODE_KIND_SHIFT: u32 = 30;
/// The node is the answer: `VERDICT_*` bits, the site above them.
pub const NODE_LEAF: u32 = 0;
/// The node branches by one byte: index into the rows, above it the place of the byte.
pub const NODE_ROW: u32 = 1;
/// The node asks one question: index into the tests.
pub const NODE_TEST: u32 = 2;

/// Shift of the site in a leaf.
pub const LEAF_SITE_SHIFT: u32 = 3;
/// Most sites that leaves can name.
pub const MAX_LEAF_SITES: u32 = 1 << (NODE_KIND_SHIFT - LEAF_SITE_SHIFT);

/// Shift of the byte's place in a row's number. The place is the number of bytes behind the byte in its word (0..=7),
/// plus `PLACE_*` for the word.
pub const ROW_PLACE_SHIFT: u32 = 25;
/// Most rows of one profile.
pub const MAX_NET_ROWS: u32 = 1 << ROW_PLACE_SHIFT;
/// The byte is in the port.
pub const PLACE_PORT: u32 = 0;
/// The byte is in the lower half of the address.
pub const PLACE_LOW: u32 = 8;
/// The byte is in the upper half of the address.
pub const PLACE_HIGH: u32 = 16;

/// Most nodes on the way to a leaf; the compiler makes no longer way.
pub const MAX_NET_STEPS: u32 = 32;

/// One successor per value of a byte.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NetRow {
    pub next: [u32; 256],
}
const _: () = assert!(size_of::<NetRow>() == 1024);

/// One question: is the address in a network and the port in `first..=first + span`?
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NetTest {
    /// Network and mask, upper and lower half; IPv4 as v4-mapped.
    pub hi: u64,
    pub lo: u64,
    pub mask_hi: u64,
    pub mask_lo: u64,
    pub first: u32,
    pub span: u32,
    /// Successor if the answer is yes.
    pub inside: u32,
    /// Successor if the answer is no.
    pub outside: u32,
}
const _: () = assert!(size_of::<NetTest>() == 48);

/// Where each kind of question begins. What most connections need is here, so that one byte of the address decides
/// them without a look-up.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetStarts {
    /// Outgoing, IPv4: by the first byte of the address.
    pub egress_v4: [u32; 256],
    /// Outgoing, IPv6: by the first byte of the address.
    pub egress_v6: [u32; 256],
    /// Sockets: by domain.
    pub sockets: [u32; SOCKET_DOMAINS],
    /// By domain, bit = protocol (the last bit: every higher one): may a rule speak about such a socket? Most sockets
    /// need no more than this.
    pub protocols: [u64; SOCKET_DOMAINS],
    /// Incoming, IPv4 and IPv6: the first node.
    pub ingress_v4: u32,
    pub ingress_v6: u32,
}
const _: () = assert!(size_of::<NetStarts>() == 1024 + 1024 + 256 + 512 + 8);

/// Domains with a start of their own; `AF_MAX` is below.
pub const SOCKET_DOMAINS: usize = 64;

impl Default for NetStarts {
    fn default() -> Self {
        Self {
            egress_v4: [0; 256],
            egress_v6: [0; 256],
            sockets: [0; SOCKET_DOMAINS],
            protocols: [0; SOCKET_DOMAINS],
            ingress_v4: 0,
            ingress_v6: 0,
        }
    }
}

//! The kernel's decisions in user space: the same steps over the same tables. Used by explain, simulate and tests.

use std::net::IpAddr;

use super::{
    Network, Tables, Verdict, class_symbol, decide, embedded, filesystem_step, filesystem_symbol, filter,
    first_byte, gained, glob, halves, is_v4, join, leaf, merge, name_hash, next, protocol_bit, real_protocol,
    resolve, socket_address,
};
use crate::abi::{
    FILTER, FILTER_SEVERAL, MASK_AUDIT, MASK_DENY, NetTest, PERM_ALL, PERM_WRITE, Point, STATE_EMITS,
    STATE_LATE_GLOBS, STATE_SINK, State, Transition, VERDICT_ALLOW, VERDICT_ANYWHERE, VERDICT_AUDIT,
    VERDICT_DENY,
};
use crate::compile::bpf::Artefact;

/// A path as the kernel sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathView {
    /// From the leaf to the root of the mount tree.
    pub names: Vec<Vec<u8>>,
    /// Mounts on the way, in the same direction.
    pub filesystems: Vec<FilesystemRoot>,
}

/// A mount that the path passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemRoot {
    /// Magic number of the superblock.
    pub magic: u64,
    /// How many names have been read when the walk stands on the root of the mount.
    pub depth: usize,
    /// Names between the root of the mount and the root of the superblock (a bind mount of a folder).
    pub above: Vec<Vec<u8>>,
}

impl PathView {
    /// A path without mounts of special filesystems.
    #[must_use]
    pub fn from_path(path: &[u8]) -> Self {
        let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        Self {
            names: names.rev().map(<[u8]>::to_vec).collect(),
            filesystems: Vec::new(),
        }
    }

    /// The same path with a filesystem mounted whole where `depth` names have been read.
    #[must_use]
    pub fn with_filesystem(mut self, magic: u64, depth: usize) -> Self {
        self.filesystems.push(FilesystemRoot {
            magic,
            depth,
            above: Vec::new(),
        });
        self
    }
}

/// What a mount takes from.
#[derive(Clone, Copy, Debug)]
pub enum MountSource<'s> {
    /// A resolved path (bind, move, unmount).
    Path(&'s PathView),
    /// The string that the caller gave.
    Text(&'s [u8]),
    /// The call does not tell.
    Unknown,
}

/// A mount, remount, move or unmount.
#[derive(Clone, Copy, Debug)]
pub struct MountCall<'s> {
    pub source: MountSource<'s>,
    pub fstype: Option<&'s [u8]>,
    pub flags: u32,
}

/// The tables of one artefact, ready to be asked.
pub struct Walk<'a> {
    artefact: &'a Artefact,
    key: u64,
}

impl Network for Walk<'_> {
    fn successor(&self, row: u32, byte: u8) -> Option<u32> {
        let row = self.artefact.net_rows.get(row as usize)?;
        Some(row.next[usize::from(byte)])
    }

    fn test(&self, index: u32) -> Option<&NetTest> {
        self.artefact.net_tests.get(index as usize)
    }
}

impl Tables for Walk<'_> {
    fn may_have(&self, symbol: u64) -> bool {
        let descriptor = &self.artefact.descriptor;
        filter::admits(
            symbol,
            |symbol| descriptor.filter[filter::slot(symbol, FILTER)],
            |symbol| descriptor.filter_several[filter::slot(symbol, FILTER_SEVERAL)],
        )
    }

    fn transition(&self, key: &Transition) -> Option<u32> {
        let known = &self.artefact.transitions;
        let found = known
            .binary_search_by_key(key, |(transition, _)| *transition)
            .ok()?;
        Some(known[found].1)
    }
}

impl<'a> Walk<'a> {
    /// `key` is the one that the artefact was compiled with.
    #[must_use]
    pub fn new(artefact: &'a Artefact, key: u64) -> Self {
        Self { artefact, key }
    }

    /// The verdict on file permissions (`abi::PERM_*`).
    #[must_use]
    pub fn files(&self, path: &PathView, requested: u32) -> Verdict {
        self.files_within(path, requested, u32::MAX)
    }

    /// As [`Self::files`]; the default of an allow-list counts for the permissions `within` only.
    #[must_use]
    pub fn files_within(&self, path: &PathView, requested: u32, within: u32) -> Verdict {
        decide(self.said(path, requested), requested, self.default_within(within))
    }

    /// The verdicts on the old and the new name of a file, each with what an allow-list must allow there. A new name
    /// must not give more than the old one.
    #[must_use]
    pub fn rename(&self, old: (&PathView, u32), new: (&PathView, u32)) -> [Verdict; 2] {
        let (left, entered) = (self.said(old.0, PERM_ALL), self.said(new.0, PERM_WRITE));
        let default = self.artefact.descriptor.file_default;
        let gain = |shift: u32| {
            let gains = gained(left, entered, default & (0xff << shift)) != 0;
            u64::from(gains) * (u64::from(PERM_WRITE) << shift)
        };
        let entered = entered | gain(MASK_DENY) | gain(MASK_AUDIT);
        [
            decide(left, PERM_ALL, self.default_within(old.1)),
            decide(entered, PERM_WRITE, self.default_within(new.1)),
        ]
    }

    /// What the rules say about a path, as the kernel's half collects it.
    fn said(&self, path: &PathView, requested: u32) -> u64 {
        self.path(
            path,
            self.artefact.descriptor.file_start,
            |collected, value, site| merge(collected, value, site, requested),
        )
    }

    fn default_within(&self, within: u32) -> u32 {
        self.artefact.descriptor.file_default & (within << MASK_DENY | within << MASK_AUDIT)
    }

    /// The verdict on a mount: the first class that denies, else the first that audits.
    #[must_use]
    pub fn mount(&self, call: &MountCall<'_>) -> Point {
        let descriptor = &self.artefact.descriptor;
        let bits = match call.source {
            MountSource::Path(path) => self.path(path, descriptor.mount_start, |bits, value, _| bits | value),
            MountSource::Text(text) => glob::run(&self.artefact.mount_sources, text),
            MountSource::Unknown => u64::MAX,
        };
        let unknown = matches!(call.source, MountSource::Unknown);
        let fstype = call.fstype.map(|name| name_hash(self.key, name));
        let mut said = Point::default();
        for (index, class) in descriptor
            .mounts
            .iter()
            .enumerate()
            .take(descriptor.mount_classes as usize)
        {
            let flags = call.flags & class.any != 0 || !call.flags & class.none != 0;
            let fits = class.fstype == 0 || fstype == Some(class.fstype);
            if bits & (1 << index) != 0 && flags && fits {
                // A source that is not known may be the denied one, but it is not taken for the allowed one.
                let doubtful = unknown && class.verdict & VERDICT_ANYWHERE == 0;
                let verdict = class.verdict & !(VERDICT_ANYWHERE | if doubtful { VERDICT_ALLOW } else { 0 });
                let site = class.site;
                add(&mut said, Point { verdict, site });
            }
        }
        if said.verdict & VERDICT_ALLOW == 0 {
            if said.verdict & VERDICT_DENY == 0 && descriptor.mount_default & VERDICT_DENY != 0 {
                said.site = 0;
            }
            said.verdict |= descriptor.mount_default;
        }
        said
    }

    /// The target groups that a task enters when it executes the file.
    #[must_use]
    pub fn targets(&self, path: &PathView) -> u64 {
        let descriptor = &self.artefact.descriptor;
        if descriptor.targets == 0 {
            return 0;
        }
        self.path(path, descriptor.target_start, |bits, value, _| bits | value)
    }

    /// The verdict on a destination, and on the addresses that lead to the same host.
    #[must_use]
    pub fn egress(&self, address: IpAddr, port: u16) -> Point {
        let (hi, lo) = mapped_halves(address);
        let mut said = self.exact_egress(hi, lo, port);
        for other in embedded(hi, lo) {
            if other != 0 {
                said = join(said, self.exact_egress(0, other, port));
            }
        }
        said
    }

    /// The verdict on a local address that the outside can reach.
    #[must_use]
    pub fn ingress(&self, address: IpAddr, port: u16) -> Point {
        let (hi, lo) = mapped_halves(address);
        let starts = &self.artefact.descriptor.net;
        let start = if is_v4(hi, lo) {
            starts.ingress_v4
        } else {
            starts.ingress_v6
        };
        self.resolve(start, hi, lo, port)
    }

    /// The verdict on a socket, by the numbers that socket(2) gets.
    #[must_use]
    pub fn socket(&self, domain: u32, kind: u32, protocol: u32) -> Point {
        let protocol = real_protocol(domain, kind, protocol) & 0xffff;
        let net = &self.artefact.descriptor.net;
        let spoken = net.protocols.get(domain as usize).copied().unwrap_or(0);
        if spoken & protocol_bit(protocol) == 0 {
            return Point::default();
        }
        let start = net.sockets.get(domain as usize).copied().unwrap_or(0);
        let protocol = u16::try_from(protocol).unwrap_or(u16::MAX);
        self.resolve(start, socket_address(domain, kind), 0, protocol)
    }

    fn exact_egress(&self, hi: u64, lo: u64, port: u16) -> Point {
        let v4 = is_v4(hi, lo);
        let starts = &self.artefact.descriptor.net;
        let row = if v4 { &starts.egress_v4 } else { &starts.egress_v6 };
        self.resolve(row[usize::from(first_byte(hi, lo, v4))], hi, lo, port)
    }

    fn resolve(&self, start: u32, hi: u64, lo: u64, port: u16) -> Point {
        leaf(resolve(self, start, hi, lo, port).expect("the compiler's tables are complete"))
    }

    /// The verdict on a capability number.
    #[must_use]
    pub fn capability(&self, number: u32) -> Point {
        let descriptor = &self.artefact.descriptor;
        let bit = 1_u64.checked_shl(number).unwrap_or(0);
        let says = |mask: u64, verdict| if mask & bit == 0 { 0 } else { verdict };
        let verdict = says(descriptor.caps_deny, VERDICT_DENY) | says(descriptor.caps_audit, VERDICT_AUDIT);
        let site = descriptor.cap_sites.get(number as usize).copied().unwrap_or(0);
        Point {
            verdict,
            site: if verdict == 0 { 0 } else { site },
        }
    }

    /// The verdict on ptrace permissions (`abi::PTRACE_*`) towards a peer.
    #[must_use]
    pub fn ptrace(&self, access: u32, outside: bool) -> Point {
        let rules = &self.artefact.descriptor.ptrace;
        let held = |all: u32, other: u32| access & (all | if outside { other } else { 0 });
        let (denied, audited) = (
            held(rules.deny_all, rules.deny_outside),
            held(rules.audit_all, rules.audit_outside),
        );
        let concerned = if denied == 0 { audited } else { denied };
        let says = |mask: u32, verdict| if mask == 0 { 0 } else { verdict };
        let site = rules
            .sites
            .get(concerned.trailing_zeros() as usize)
            .copied()
            .unwrap_or(0);
        Point {
            verdict: says(denied, VERDICT_DENY) | says(audited, VERDICT_AUDIT),
            site,
        }
    }

    fn path(&self, path: &PathView, start: u32, collect: impl Fn(u64, u64, u32) -> u64) -> u64 {
        let mut collected = 0;
        let mut state = start;
        // A state and the name behind it whose globs wait: the walk has taken the default.
        let mut held: Option<(u32, &[u8])> = None;
        for depth in 0..=path.names.len() {
            if path.filesystems.iter().any(|root| root.depth == depth)
                && let Some((before, name)) = held.take()
            {
                state = self.step(before, name);
            }
            for root in path.filesystems.iter().filter(|root| root.depth == depth) {
                let mut side = state;
                for name in &root.above {
                    side = self.step(side, name);
                    collected = self.enter(side, collected, &collect);
                }
                let symbol = filesystem_symbol(self.key, root.magic);
                if let Some(end) = filesystem_step(self, side, self.state(side), symbol) {
                    collected = self.enter(end, collected, &collect);
                }
            }
            let Some(name) = path.names.get(depth) else { break };
            let symbol = name_hash(self.key, name);
            if let Some((before, name)) = held.take()
                && self.may_have(symbol)
            {
                state = self.step(before, name);
            }
            if self.state(state).flags & STATE_LATE_GLOBS == 0 {
                state = self.step(state, name);
            } else {
                held = Some((state, name));
                state = next(self, state, self.state(state), symbol, || None);
            }
            collected = self.enter(state, collected, &collect);
            if held.is_none() && self.state(state).flags & STATE_SINK != 0 {
                return collected;
            }
        }
        let last = self.state(state);
        collect(collected, last.root, last.root_site)
    }

    fn enter(&self, state: u32, collected: u64, collect: &impl Fn(u64, u64, u32) -> u64) -> u64 {
        let record = self.state(state);
        if record.flags & STATE_EMITS == 0 {
            return collected;
        }
        collect(collected, record.now, record.now_site)
    }

    fn step(&self, state: u32, name: &[u8]) -> u32 {
        next(self, state, self.state(state), name_hash(self.key, name), || {
            let class = glob::run(&self.artefact.component_globs, name);
            u32::try_from(class)
                .ok()
                .filter(|class| *class != 0)
                .map(|class| class_symbol(self.key, class))
        })
    }

    fn state(&self, state: u32) -> &State {
        &self.artefact.states[state as usize]
    }
}

fn mapped_halves(address: IpAddr) -> (u64, u64) {
    halves(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    })
}

/// Ors the verdicts; the site is that of the first denying rule, else of the first auditing one.
fn add(said: &mut Point, point: Point) {
    let denies = point.verdict & VERDICT_DENY != 0 && said.verdict & VERDICT_DENY == 0;
    if denies || said.site == 0 {
        said.site = point.site;
    }
    said.verdict |= point.verdict;
}

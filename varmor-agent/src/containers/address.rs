//! The addresses of a pod: those of the network namespace of its processes. Read from there, they need no runtime and
//! hold for pods in the node's network as well.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Of the scope field of `/proc/net/if_inet6` (`IPV6_ADDR_*` in `include/net/ipv6.h`): reachable from elsewhere.
const GLOBAL: &str = "00";

/// The addresses in the network namespace of a process that others can reach: neither loopback nor link-local ones.
///
/// # Errors
/// The process has ended.
pub fn addresses_of(process: u32) -> io::Result<Vec<IpAddr>> {
    let v4 = read(&format!("/proc/{process}/net/fib_trie"))?;
    let v6 = read(&format!("/proc/{process}/net/if_inet6"))?;
    // A namespace without any route has an empty file, a process that is gone has no folder.
    fs::metadata(format!("/proc/{process}/net"))?;
    Ok(local_v4(&v4)
        .map(IpAddr::V4)
        .chain(local_v6(&v6).map(IpAddr::V6))
        .collect())
}

/// Empty for a protocol that this kernel does not speak.
fn read(path: &str) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

/// Leaves of the kernel's routing tables (`fib_trie_seq_show` in `net/ipv4/fib_trie.c`): an address in one line, what
/// it is in the next ones.
fn local_v4(text: &str) -> impl Iterator<Item = Ipv4Addr> {
    let mut leaf = None;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<Ipv4Addr>().ok();
            return None;
        }
        leaf.filter(|address| line == "/32 host LOCAL" && !address.is_loopback() && !address.is_link_local())
    })
}

/// `fd000000000000000000000000000005 02 40 00 80 eth0`: address, interface, prefix, scope, flags, name.
fn local_v6(text: &str) -> impl Iterator<Item = Ipv6Addr> {
    text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let bits = u128::from_str_radix(words.next()?, 16).ok()?;
        (words.nth(2)? == GLOBAL).then(|| bits.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_found_among_routes() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     +-- 10.0.0.0/24 2 0 2\n        \
                    |-- 10.0.0.0\n           /24 link UNICAST\nLocal:\n  +-- 0.0.0.0/0 3 0 5\n        |-- 10.0.0.5\n           \
                    /32 host LOCAL\n        |-- 10.0.0.255\n           /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n     \
                    |-- 169.254.20.10\n        /32 host LOCAL\n     |-- 127.0.0.0\n        /8 host LOCAL\n";
        let found: Vec<Ipv4Addr> = local_v4(trie).collect();
        assert_eq!(found, [Ipv4Addr::new(10, 0, 0, 5)]);
    }

    #[test]
    fn only_addresses_of_global_scope_are_the_pods() {
        let text = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fe80000000000000f8163efffe000005 02 40 20 80     eth0\n\
                    fd000000000000000000000000000005 02 40 00 80     eth0\nnonsense\n";
        let found: Vec<Ipv6Addr> = local_v6(text).collect();
        assert_eq!(found, ["fd00::5".parse::<Ipv6Addr>().unwrap()]);
    }

    #[test]
    fn a_process_that_is_gone_has_no_addresses() {
        assert!(addresses_of(std::process::id()).is_ok());
        assert!(addresses_of(u32::MAX).is_err());
    }
}

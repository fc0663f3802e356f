//! N: destinations, sockets and servers.

use std::{
    fs,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
};

use nix::libc;

use super::{
    case::{Case, Done, Failure, Step, Under, broken, setup},
    identity::inherit,
    place::ROOT,
    policies::{INGRESS, RULES, SOCKETS},
    raw::{self, Submission},
};

const INET: i32 = libc::AF_INET;
const INET6: i32 = libc::AF_INET6;
const STREAM: i32 = libc::SOCK_STREAM;
const DATAGRAM: i32 = libc::SOCK_DGRAM;
const FAST_OPEN: i32 = libc::MSG_FASTOPEN;
const MPTCP: i32 = 262;
const DENIED: &str = "10.1.2.3:80";
const DENIED_UDP: &str = "10.1.2.3:85";
const MAPPED: &str = "[::ffff:10.1.2.3]:80";

pub(super) fn cases() -> Vec<Case> {
    let rules = Under(RULES, ROOT.networked());
    vec![
        fast_open(),
        datagrams(),
        Case::new(
            "N-3",
            "reach a denied IPv4 address as an IPv6 address",
            disguises(rules),
        ),
        protocols(),
        servers(),
        Case::skipped(
            "N-8",
            "rules about names in DNS",
            "the feature does not exist here: no rule looks into packets",
        ),
        Case::new(
            "N-10",
            "address rules exist, and unix sockets are no TCP",
            vec![
                rules.plain("connect to a denied address", || connect(DENIED)),
                rules.benign("connect to another address", || connect("10.7.7.7:80")),
                rules.benign("connect to another port", || connect("10.1.2.3:91")),
                Under(SOCKETS, ROOT.networked())
                    .plain("make a TCP socket", || make(INET, STREAM, libc::IPPROTO_TCP)),
                Under(SOCKETS, ROOT.networked()).benign("use a unix stream", unix_stream),
            ],
        ),
    ]
}

fn fast_open() -> Case {
    let rules = Under(RULES, ROOT.networked());
    Case::new(
        "N-1",
        "connect by TCP fast open",
        vec![
            rules.plain("connect", || connect(DENIED)),
            rules.attack("sendto", || fast(INET, 0, DENIED)),
            rules.attack("sendmsg", || {
                let socket = socket(INET, STREAM, 0)?;
                Ok(raw::sendmsg(socket, b"x", &address(DENIED)?, &[], FAST_OPEN)?)
            }),
            rules.attack("sendmmsg", || {
                Ok(raw::sendmmsg(
                    socket(INET, STREAM, 0)?,
                    &address(DENIED)?,
                    FAST_OPEN,
                )?)
            }),
            rules.attack("sendto of an IPv6 socket", || fast(INET6, 0, MAPPED)),
            rules.attack("io_uring sendmsg", || {
                uring_send(&socket(INET, STREAM, 0)?, DENIED, FAST_OPEN)
            }),
            rules.attack("io_uring connect", || uring_connect(DENIED)),
            rules.attack("connect of an MPTCP socket", || {
                Ok(raw::connect(socket(INET, STREAM, MPTCP)?, &address(DENIED)?)?)
            }),
            rules.attack("sendto of an MPTCP socket", || fast(INET, MPTCP, DENIED)),
            rules.benign("sendto of another address", || fast(INET, 0, "10.7.7.7:80")),
        ],
    )
}

fn datagrams() -> Case {
    let rules = Under(RULES, ROOT.networked());
    let sockets = Under(SOCKETS, ROOT.networked());
    Case::new(
        "N-2",
        "send datagrams and raw packets without connecting",
        vec![
            rules.plain("connect a UDP socket", || {
                Ok(raw::connect(socket(INET, DATAGRAM, 0)?, &address(DENIED_UDP)?)?)
            }),
            rules.attack("sendto", || {
                send(&socket(INET, DATAGRAM, 0)?, &address(DENIED_UDP)?)
            }),
            rules.attack("sendmsg", || {
                Ok(raw::sendmsg(
                    socket(INET, DATAGRAM, 0)?,
                    b"x",
                    &address(DENIED_UDP)?,
                    &[],
                    0,
                )?)
            }),
            rules.attack("sendmmsg", || {
                Ok(raw::sendmmsg(
                    socket(INET, DATAGRAM, 0)?,
                    &address(DENIED_UDP)?,
                    0,
                )?)
            }),
            rules.attack("sendto with AF_UNSPEC", || {
                let mut to = address(DENIED_UDP)?;
                to[..2].fill(0);
                send(&socket(INET, DATAGRAM, 0)?, &to)
            }),
            rules.attack("sendto an IPv4 address from an IPv6 socket", || {
                send(&socket(INET6, DATAGRAM, 0)?, &address(DENIED_UDP)?)
            }),
            rules.attack("sendmsg with UDP_SEGMENT", || {
                // struct cmsghdr: length, level, type; then the size of a segment.
                let mut control = [0; 24];
                control[0] = 18;
                control[8] = 17;
                control[12] = 103;
                control[16] = 1;
                Ok(raw::sendmsg(
                    socket(INET, DATAGRAM, 0)?,
                    b"xy",
                    &address(DENIED_UDP)?,
                    &control,
                    0,
                )?)
            }),
            rules.attack("io_uring sendmsg", || {
                uring_send(&socket(INET, DATAGRAM, 0)?, DENIED_UDP, 0)
            }),
            rules.attack("a raw packet with its own header", || {
                let socket = socket(INET, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
                send_packet(&socket)
            }),
            rules.attack("UDP-Lite", || {
                send(&socket(INET, DATAGRAM, 136)?, &address(DENIED_UDP)?)
            }),
            rules.benign("sendto another address", || {
                send(&socket(INET, DATAGRAM, 0)?, &address("10.7.7.7:85")?)
            }),
            sockets.plain("make a packet socket", || {
                make(libc::AF_PACKET, libc::SOCK_RAW, 0)
            }),
            sockets.attack("a packet socket of datagrams", || {
                make(libc::AF_PACKET, DATAGRAM, 0)
            }),
        ],
    )
    .note("what a packet socket sends has no destination that a hook could see; the rule is about the socket")
}

fn disguises(rules: Under) -> Vec<Step> {
    vec![
        rules.plain("connect to the IPv4 address", || connect(DENIED)),
        rules.attack("connect to the mapped address", || connect(MAPPED)),
        rules.attack("sendto the mapped address", || {
            send(&socket(INET6, DATAGRAM, 0)?, &address("[::ffff:10.1.2.3]:85")?)
        }),
        rules.attack("fast open to the mapped address", || fast(INET6, 0, MAPPED)),
        rules.attack("connect to an address of a denied network, mapped", || {
            connect("[::ffff:10.9.8.7]:91")
        }),
        rules.attack("sendto one of it", || {
            send(&socket(INET6, DATAGRAM, 0)?, &address("[::ffff:10.9.8.7]:85")?)
        }),
        rules.attack("connect to the metadata service, mapped", || {
            connect("[::ffff:169.254.169.254]:80")
        }),
        rules.attack("connect through NAT64", || connect("[64:ff9b::a01:203]:80")),
        rules.attack("connect through 6to4", || connect("[2002:a01:203::1]:80")),
        rules.attack("connect to the loopback as the unspecified address", || {
            connect("0.0.0.0:81")
        }),
        rules.attack("the same as an IPv6 address", || connect("[::]:81")),
        rules.benign("connect to another mapped address", || {
            connect("[::ffff:10.7.7.7]:80")
        }),
    ]
}

fn protocols() -> Case {
    let sockets = Under(SOCKETS, ROOT.networked());
    Case::new(
        "N-4",
        "make a denied socket by protocol 0 and by its relatives",
        vec![
            sockets.plain("TCP", || make(INET, STREAM, libc::IPPROTO_TCP)),
            sockets.plain("UDP", || make(INET, DATAGRAM, libc::IPPROTO_UDP)),
            sockets.attack("a stream with protocol 0", || make(INET, STREAM, 0)),
            sockets.attack("datagrams with protocol 0", || make(INET, DATAGRAM, 0)),
            sockets.attack("an IPv6 stream with protocol 0", || make(INET6, STREAM, 0)),
            sockets.attack("flags beside the type", || {
                make(INET, STREAM | libc::SOCK_CLOEXEC, 0)
            }),
            sockets.attack("MPTCP", || make(INET, STREAM, MPTCP)),
            sockets.attack("UDP-Lite", || make(INET, DATAGRAM, 136)),
            sockets.attack("ICMP by a raw socket", || {
                make(INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)
            }),
            sockets.attack("ICMP by a ping socket", || {
                make(INET, DATAGRAM, libc::IPPROTO_ICMP)
            }),
            sockets.attack("ICMPv6 by a ping socket", || {
                make(INET6, DATAGRAM, libc::IPPROTO_ICMPV6)
            }),
            sockets.benign("a unix socket", unix_stream),
            sockets.benign("a netlink socket", || make(libc::AF_NETLINK, libc::SOCK_RAW, 0)),
        ],
    )
}

fn servers() -> Case {
    let ingress = Under(INGRESS, ROOT.networked());
    Case::new(
        "N-6",
        "serve although it is denied",
        vec![
            ingress.plain("bind to a denied port", || listen("127.0.0.1:7001")),
            ingress.attack("bind to every address", || listen("0.0.0.0:6001")),
            ingress.attack("bind to every IPv6 address", || listen("[::]:6001")),
            ingress.attack("bind to the mapped address", || listen("[::ffff:127.0.0.1]:7001")),
            ingress.attack("listen without binding", || {
                let socket = socket(INET, STREAM, 0)?;
                Ok(rustix::net::listen(&socket, 1)?)
            }),
            ingress.attack("bind a UDP socket", || {
                UdpSocket::bind("127.0.0.1:7001")?;
                Ok(())
            }),
            ingress.attack("bind by io_uring", || {
                let to = address("127.0.0.1:7001")?;
                let socket = socket(INET, STREAM, 0)?;
                raw::uring(&Submission {
                    opcode: 56,
                    fd: Some(socket.as_raw_fd()),
                    address: Some(&to),
                    offset: to.len() as u64,
                    ..Submission::default()
                })?;
                Ok(())
            }),
            ingress
                .attack("accept on an inherited listener", || {
                    let listener = TcpListener::from(raw::inherited(100)?);
                    setup("do not wait", listener.set_nonblocking(true))?;
                    match listener.accept() {
                        // Nobody has called: the kernel would have let us take the call.
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
                        other => Ok(other.map(drop)?),
                    }
                })
                .after(|| inherit(TcpListener::bind("127.0.0.1:7002")?)),
            ingress.benign("bind to another port", || listen("127.0.0.1:6001")),
        ],
    )
}

/// A destination as the kernel wants it.
pub(super) fn address(text: &str) -> Result<Vec<u8>, Failure> {
    let parsed: SocketAddr = text.parse().map_err(|error| broken(format!("{text}: {error}")))?;
    let port = parsed.port().to_be_bytes();
    Ok(match parsed.ip() {
        IpAddr::V4(ip) => [&[2, 0], &port[..], &ip.octets(), &[0; 8]].concat(),
        IpAddr::V6(ip) => [&[10, 0], &port[..], &[0; 4], &ip.octets(), &[0; 4]].concat(),
    })
}

/// A socket that belongs to the preparation of an attempt.
pub(super) fn socket(domain: i32, kind: i32, protocol: i32) -> Result<OwnedFd, Failure> {
    match raw::socket(domain, kind, protocol) {
        // MPTCP can be missing or switched off.
        Err(nix::errno::Errno::EINVAL | nix::errno::Errno::ENOPROTOOPT) => {
            Err(super::case::missing(format!("protocol {protocol}")))
        }
        other => setup("make the socket", other),
    }
}

/// Makes a socket: here that is the attempt.
fn make(domain: i32, kind: i32, protocol: i32) -> Done {
    match raw::socket(domain, kind, protocol) {
        Err(nix::errno::Errno::EINVAL | nix::errno::Errno::ENOPROTOOPT) => {
            Err(super::case::missing(format!("protocol {protocol}")))
        }
        other => Ok(other.map(drop)?),
    }
}

pub(super) fn connect(to: &str) -> Done {
    let to = address(to)?;
    Ok(raw::connect(socket(i32::from(to[0]), STREAM, 0)?, &to)?)
}

/// Sends with TCP fast open: the connection begins without `connect`.
pub(super) fn fast(domain: i32, protocol: i32, to: &str) -> Done {
    Ok(raw::sendto(
        socket(domain, STREAM, protocol)?,
        b"x",
        &address(to)?,
        FAST_OPEN,
    )?)
}

fn send(socket: &OwnedFd, to: &[u8]) -> Done {
    Ok(raw::sendto(socket, b"x", to, 0)?)
}

fn send_packet(socket: &OwnedFd) -> Done {
    let mut packet = [0; 28];
    packet[0] = 0x45;
    packet[3] = 28;
    packet[8] = 64;
    packet[9] = 17;
    packet[12..16].copy_from_slice(&[127, 0, 0, 1]);
    packet[16..20].copy_from_slice(&[10, 1, 2, 3]);
    packet[22..26].copy_from_slice(&[0, 85, 0, 8]);
    // Raw sockets have no ports: the rule for every port of a network is the one that is asked.
    let mut to = address("10.9.8.7:0")?;
    to[4..8].copy_from_slice(&[10, 9, 8, 7]);
    Ok(raw::sendto(socket, &packet, &to, 0)?)
}

fn uring_send(socket: &impl AsFd, to: &str, flags: i32) -> Done {
    let to = address(to)?;
    raw::uring(&Submission {
        opcode: 9,
        fd: Some(socket.as_fd().as_raw_fd()),
        message: Some((b"x", &to)),
        length: 1,
        flags: flags.cast_unsigned(),
        ..Submission::default()
    })?;
    Ok(())
}

fn uring_connect(to: &str) -> Done {
    let to = address(to)?;
    let socket = socket(INET, STREAM, 0)?;
    raw::uring(&Submission {
        opcode: 16,
        fd: Some(socket.as_raw_fd()),
        address: Some(&to),
        offset: to.len() as u64,
        ..Submission::default()
    })?;
    Ok(())
}

fn listen(at: &str) -> Done {
    let at = address(at)?;
    let socket = socket(i32::from(at[0]), STREAM, 0)?;
    raw::bind(&socket, &at)?;
    Ok(rustix::net::listen(&socket, 1)?)
}

fn unix_stream() -> Done {
    let path = "/tmp/stream";
    let listener = UnixListener::bind(path)?;
    UnixStream::connect(path)?;
    drop(listener);
    Ok(fs::remove_file(path)?)
}

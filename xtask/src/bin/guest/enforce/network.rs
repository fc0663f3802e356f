//! Attempts to reach destinations, to make sockets and to serve.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    num::NonZeroU32,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{Backlog, MsgFlags, SockaddrIn, SockaddrStorage, accept, bind, listen, sendto},
};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

use super::{
    attempt::Attempt,
    policies::{NO_PROTOCOL, NO_SERVER, RULES},
    stage::INHERITED,
};
use crate::attack::Failure;

const TIMEOUT: Duration = Duration::from_secs(3);
/// Protocol numbers.
const ICMP: u32 = 1;
const TCP: u32 = 6;
const SCTP: u32 = 132;
const UDPLITE: u32 = 136;
const MPTCP: u32 = 262;
/// 10.9.8.7 behind a translator, and in its 6to4 network.
const TRANSLATED: [&str; 3] = [
    "[64:ff9b::a09:807]:91",
    "[64:ff9b:1::a09:807]:91",
    "[2002:a09:807::1]:91",
];

pub(super) fn attempts() -> Vec<Attempt> {
    [destinations(), sockets(), servers()]
        .into_iter()
        .flatten()
        .collect()
}

fn destinations() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, RULES, run);
    let benign = |name, run| Attempt::benign(name, RULES, run);
    vec![
        attack("connect to an address and port", || connect("10.1.2.3:80")),
        attack("connect within a port range", || connect("10.1.2.3:85")),
        attack("connect to the last port of a range", || connect("10.1.2.3:90")),
        attack("connect through the mapped address", || {
            connect("[::ffff:10.1.2.3]:80")
        }),
        attack("connect to an address of a network", || connect("10.9.8.7:91")),
        attack("connect to an address of an IPv6 network", || {
            connect("[fd00:aa::1]:80")
        }),
        attack("connect through NAT64", || connect(TRANSLATED[0])),
        attack("connect through NAT64 of a site", || connect(TRANSLATED[1])),
        attack("connect through 6to4", || connect(TRANSLATED[2])),
        attack("connect to the unspecified address for the loopback", || {
            connect("0.0.0.0:81")
        }),
        attack("connect to the unspecified IPv6 address for the loopback", || {
            connect_from("[::ffff:127.0.0.1]:0", "[::]:81")
        }),
        attack("connect to the unspecified address from the denied one", || {
            connect_from("10.1.2.3:0", "0.0.0.0:80")
        }),
        attack("send a datagram without connecting", || {
            datagram("0.0.0.0:0", "10.1.2.3:85")
        }),
        attack("send a datagram to the mapped address", || {
            datagram("[::]:0", "[::ffff:10.1.2.3]:85")
        }),
        attack("send a datagram through NAT64", || {
            datagram("[::]:0", TRANSLATED[0])
        }),
        attack("connect by TCP fast open", fast_open),
        attack("connect by multipath TCP", || {
            let made = make(AddressFamily::INET, SocketType::STREAM, MPTCP)?;
            Ok(nix::sys::socket::connect(
                made.as_raw_fd(),
                &SockaddrIn::new(10, 1, 2, 3, 80),
            )?)
        })
        .unless(|| missing(SocketType::STREAM, MPTCP)),
        benign("connect to another port", || connect("10.1.2.3:91")),
        benign("connect to another address", || connect("127.0.0.1:80")),
        benign("connect to an address beside the network", || {
            connect("10.8.0.1:91")
        }),
        benign("connect to another IPv6 network", || connect("[fd00:bb::1]:80")),
        benign("connect to the IPv6 network by another port", || {
            connect("[fd00:aa::1]:91")
        }),
        benign("connect over IPv6", || connect("[::1]:80")),
        benign("connect from an allowed address to the unspecified one", || {
            connect_from("10.8.0.1:0", "0.0.0.0:80")
        }),
        benign("send a datagram to another address", || {
            datagram("0.0.0.0:0", "10.8.0.1:85")
        }),
    ]
}

fn sockets() -> Vec<Attempt> {
    const INET: AddressFamily = AddressFamily::INET;
    const INET6: AddressFamily = AddressFamily::INET6;
    const DGRAM: SocketType = SocketType::DGRAM;
    const RAW: SocketType = SocketType::RAW;
    const SEQPACKET: SocketType = SocketType::SEQPACKET;
    const STREAM: SocketType = SocketType::STREAM;
    let attack = |name, run| Attempt::attack(name, NO_PROTOCOL, run);
    let benign = |name, run| Attempt::benign(name, NO_PROTOCOL, run);
    vec![
        Attempt::attack("make a packet socket", RULES, || {
            open(AddressFamily::PACKET, RAW, 0)
        }),
        Attempt::attack("make an ICMP socket", RULES, || open(INET, RAW, ICMP)),
        Attempt::benign("make a TCP socket", RULES, || open(INET, STREAM, 0)),
        attack("make a TCP socket by its protocol", || open(INET, STREAM, TCP)),
        attack("make a TCP socket by protocol 0", || open(INET, STREAM, 0)),
        attack("make a TCP socket over IPv6 by protocol 0", || {
            open(INET6, STREAM, 0)
        }),
        attack("make a UDP socket by protocol 0", || open(INET, DGRAM, 0)),
        attack("make a multipath TCP socket", || open(INET6, STREAM, MPTCP))
            .unless(|| missing(STREAM, MPTCP)),
        attack("make a UDP-Lite socket", || open(INET, DGRAM, UDPLITE)).unless(|| missing(DGRAM, UDPLITE)),
        benign("make an SCTP socket where only TCP and UDP are denied", || {
            open(INET, SEQPACKET, SCTP)
        })
        .unless(|| missing(SEQPACKET, SCTP)),
        benign("make an ICMP socket where only TCP and UDP are denied", || {
            open(INET, RAW, ICMP)
        }),
        benign("make a unix socket where TCP is denied", || {
            open(AddressFamily::UNIX, STREAM, 0)
        }),
    ]
}

fn servers() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, RULES, run);
    let benign = |name, run| Attempt::benign(name, RULES, run);
    vec![
        attack("bind to a denied local address", || serve("10.1.2.3:7005")),
        attack("bind to its mapped address", || serve("[::ffff:10.1.2.3]:7005")),
        attack("bind to every address, the denied one among them", || {
            serve("0.0.0.0:7010")
        }),
        attack("bind to every IPv6 address", || serve("[::]:7010")),
        attack("bind a datagram socket", || {
            UdpSocket::bind("10.9.8.7:7500")?;
            Ok(())
        }),
        benign("bind to another port", || serve("10.1.2.3:7011")),
        benign("bind to another address", || serve("127.0.0.1:7005")),
        benign("bind to every address on another port", || serve("0.0.0.0:7100")),
        benign("bind a datagram socket to any port", || {
            UdpSocket::bind("0.0.0.0:0")?;
            Ok(())
        }),
        Attempt::attack("bind where no server may be", NO_SERVER, || serve("127.0.0.1:0")),
        Attempt::attack("listen without binding", NO_SERVER, || {
            let made = make(AddressFamily::INET, SocketType::STREAM, 0)?;
            Ok(listen(&made, Backlog::new(1)?)?)
        }),
        Attempt::attack("listen without binding over IPv6", NO_SERVER, || {
            let made = make(AddressFamily::INET6, SocketType::STREAM, 0)?;
            Ok(listen(&made, Backlog::new(1)?)?)
        }),
        Attempt::attack("accept on an inherited socket", NO_SERVER, || {
            let number = fs::read_to_string(INHERITED)?;
            let number = number
                .parse()
                .map_err(|error| Failure::Broken(format!("{number}: {error}")))?;
            let _client = TcpStream::connect("127.0.0.1:7600")?;
            accept(number)?;
            Ok(())
        }),
        Attempt::attack("bind an SCTP socket", NO_SERVER, || {
            let made = make(AddressFamily::INET, SocketType::SEQPACKET, SCTP)?;
            Ok(bind(made.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 7700))?)
        })
        .unless(|| missing(SocketType::SEQPACKET, SCTP)),
        Attempt::benign("connect where no server may be", NO_SERVER, || {
            connect("127.0.0.1:80")
        }),
        Attempt::benign(
            "listen on a unix socket where no server may be",
            NO_SERVER,
            || {
                let path = "/socks/open/attempt.sock";
                drop(std::os::unix::net::UnixListener::bind(path)?);
                Ok(fs::remove_file(path)?)
            },
        ),
    ]
}

fn make(family: AddressFamily, kind: SocketType, protocol: u32) -> Result<OwnedFd, Errno> {
    let protocol = NonZeroU32::new(protocol).map(Protocol::from_raw);
    socket_with(family, kind, SocketFlags::CLOEXEC, protocol)
        .map_err(|error| Errno::from_raw(error.raw_os_error()))
}

fn open(family: AddressFamily, kind: SocketType, protocol: u32) -> Result<(), Failure> {
    make(family, kind, protocol)?;
    Ok(())
}

fn missing(kind: SocketType, protocol: u32) -> Option<String> {
    let made = make(AddressFamily::INET, kind, protocol);
    made.err()
        .map(|error| format!("this kernel has no sockets of protocol {protocol}: {error}"))
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    text.parse()
        .map_err(|error| Failure::Broken(format!("{text}: {error}")))
}

fn connect(to: &str) -> Result<(), Failure> {
    TcpStream::connect_timeout(&address(to)?, TIMEOUT)?;
    Ok(())
}

fn connect_from(from: &str, to: &str) -> Result<(), Failure> {
    let (from, to) = (address(from)?, address(to)?);
    let family = if from.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let made = make(family, SocketType::STREAM, 0)?;
    bind(made.as_raw_fd(), &SockaddrStorage::from(from))?;
    Ok(nix::sys::socket::connect(
        made.as_raw_fd(),
        &SockaddrStorage::from(to),
    )?)
}

fn datagram(from: &str, to: &str) -> Result<(), Failure> {
    UdpSocket::bind(from)?.send_to(b"x", to)?;
    Ok(())
}

fn serve(at: &str) -> Result<(), Failure> {
    TcpListener::bind(at)?;
    Ok(())
}

fn fast_open() -> Result<(), Failure> {
    let made = make(AddressFamily::INET, SocketType::STREAM, 0)?;
    let address = SockaddrIn::new(10, 1, 2, 3, 80);
    let flags = MsgFlags::from_bits_retain(libc::MSG_FASTOPEN);
    sendto(made.as_raw_fd(), b"x", &address, flags)?;
    Ok(())
}

//! Attempts to reach destinations and to make sockets.

use std::{
    net::{SocketAddr, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    time::Duration,
};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket,
};

use super::{attempt::Attempt, policies::RULES};
use crate::attack::Failure;

const TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, RULES, run);
    let benign = |name, run| Attempt::benign(name, RULES, run);
    vec![
        attack("connect to an address and port", || connect("10.1.2.3:80")),
        attack("connect within a port range", || connect("10.1.2.3:85")),
        attack("connect through the mapped address", || {
            connect("[::ffff:10.1.2.3]:80")
        }),
        attack("connect to an address of a network", || connect("10.9.8.7:91")),
        attack("connect to the unspecified address for the loopback", || {
            connect("0.0.0.0:81")
        }),
        attack("send a datagram without connecting", || {
            UdpSocket::bind("0.0.0.0:0")?.send_to(b"x", "10.1.2.3:85")?;
            Ok(())
        }),
        attack("send a datagram to the mapped address", || {
            UdpSocket::bind("[::]:0")?.send_to(b"x", "[::ffff:10.1.2.3]:85")?;
            Ok(())
        }),
        attack("connect by TCP fast open", fast_open),
        attack("make a packet socket", || {
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None)?;
            Ok(())
        }),
        attack("make an ICMP socket", || {
            socket(
                AddressFamily::Inet,
                SockType::Raw,
                SockFlag::empty(),
                SockProtocol::Icmp,
            )?;
            Ok(())
        }),
        benign("connect to another port", || connect("10.1.2.3:91")),
        benign("connect to another address", || connect("127.0.0.1:80")),
        benign("connect over IPv6", || connect("[::1]:80")),
        benign("make a TCP socket", || {
            socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None)?;
            Ok(())
        }),
    ]
}

fn connect(address: &str) -> Result<(), Failure> {
    let address: SocketAddr = address
        .parse()
        .map_err(|error| Failure::Broken(format!("{address}: {error}")))?;
    TcpStream::connect_timeout(&address, TIMEOUT)?;
    Ok(())
}

fn fast_open() -> Result<(), Failure> {
    let made = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None)?;
    let address = SockaddrIn::new(10, 1, 2, 3, 80);
    let flags = MsgFlags::from_bits_retain(nix::libc::MSG_FASTOPEN);
    sendto(made.as_raw_fd(), b"x", &address, flags)?;
    Ok(())
}

//! Attempts to talk to servers on unix sockets.

use std::{
    env,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixStream},
    },
};

use nix::sched::{CloneFlags, unshare};

use super::{attempt::Attempt, policies::RULES, stage::ABSTRACT};
use crate::attack::Failure;

pub(super) fn attempts() -> Vec<Attempt> {
    let attack = |name, run| Attempt::attack(name, RULES, run);
    let benign = |name, run| Attempt::benign(name, RULES, run);
    vec![
        attack("connect to a unix socket that may not be written", || {
            stream("/socks/denied/stream.sock")
        }),
        attack("connect to it by a relative path", || {
            env::set_current_dir("/socks/denied")?;
            stream("stream.sock")
        }),
        attack("connect to it through a symbolic link", || {
            stream("/socks/open/link.sock")
        }),
        attack("connect to it through a bind mount", || {
            stream("/socks/open/mounted.sock")
        }),
        attack("connect to a server outside through a denied bind mount", || {
            unshare(CloneFlags::CLONE_NEWNS)?;
            stream("/socks/mounted.sock")
        }),
        benign("connect to a server outside by another bind mount", || {
            unshare(CloneFlags::CLONE_NEWNS)?;
            stream("/socks/free.sock")
        }),
        attack("send to a unix datagram socket", || {
            UnixDatagram::unbound()?.send_to(b"x", "/socks/denied/dgram.sock")?;
            Ok(())
        }),
        attack("connect a unix datagram socket", || {
            Ok(UnixDatagram::unbound()?.connect("/socks/denied/dgram.sock")?)
        }),
        benign("connect to a unix socket", || stream("/socks/open/stream.sock")),
        benign("connect to a unix socket that may not be read", || {
            stream("/socks/unread.sock")
        }),
        benign("connect to an abstract unix socket", || {
            UnixStream::connect_addr(&SocketAddr::from_abstract_name(ABSTRACT)?)?;
            Ok(())
        }),
        benign("make a pair of unix sockets", || {
            let (one, other) = UnixDatagram::pair()?;
            one.send(b"x")?;
            other.recv(&mut [0; 1])?;
            Ok(())
        }),
        benign("send to another unix datagram socket", || {
            UnixDatagram::unbound()?.send_to(b"x", "/socks/open/dgram.sock")?;
            Ok(())
        }),
    ]
}

fn stream(path: &str) -> Result<(), Failure> {
    UnixStream::connect(path)?;
    Ok(())
}

//! The measured operations, by name.

use std::{
    ffi::CString,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::{
    event::{EventfdFlags, eventfd},
    fs::{Mode, OFlags},
    net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType},
};

use super::{
    raw,
    stage::{DEEP, OVERLAY, SHALLOW, TOP, VOLUME},
    ubench,
};

/// One repetition.
pub(super) type Operation = Box<dyn FnMut() -> io::Result<()>>;

/// Makes what the operation needs; nothing of it is measured.
pub(super) fn prepare(name: &str) -> Result<Operation> {
    let deep = |name: &str| path(&format!("{DEEP}/{name}"));
    Ok(match name {
        "open-1" => open(path(&format!("{TOP}/file.txt"))),
        "open-3" => open(path(&format!("{SHALLOW}/file.txt"))),
        "open-9" => open(deep("file.txt")),
        "open-9-overlay" => open(path(&format!("{OVERLAY}/file.txt"))),
        "open-9-volume" => open(path(&format!("{VOLUME}/file.txt"))),
        "create-unlink" => create_and_unlink(deep("new.txt")),
        "stat" => {
            let file = deep("file.txt");
            Box::new(move || Ok(rustix::fs::stat(&file).map(drop)?))
        }
        "rename" => rename(deep("one.txt"), deep("two.txt"))?,
        "mkdir-rmdir" => {
            let folder = deep("folder");
            Box::new(move || {
                rustix::fs::mkdir(&folder, Mode::RWXU)?;
                Ok(rustix::fs::rmdir(&folder)?)
            })
        }
        "chmod" => {
            let file = deep("mode.txt");
            drop(create(&file)?);
            Box::new(move || Ok(rustix::fs::chmod(&file, Mode::RUSR | Mode::WUSR)?))
        }
        "socket" => Box::new(|| {
            drop(rustix::net::socket(
                AddressFamily::INET,
                SocketType::STREAM,
                None,
            )?);
            Ok(())
        }),
        "connect-v4" => connect(IpAddr::V4(Ipv4Addr::LOCALHOST))?,
        "connect-v6" => connect(IpAddr::V6(Ipv6Addr::LOCALHOST))?,
        "connect-unix" => connect_unix(&format!("{DEEP}/socket"))?,
        "sendto" => send()?,
        "fork" => Box::new(|| raw::fork_and_wait(None)),
        "exec" => {
            let program = deep("true");
            Box::new(move || raw::fork_and_wait(Some((&program, c"true"))))
        }
        "mmap" => map(&deep("file.txt"), false)?,
        "mmap-exec" => map(&deep("file.txt"), true)?,
        "eventfd" => {
            let counter = eventfd(0, EventfdFlags::CLOEXEC)?;
            Box::new(move || Ok(rustix::io::write(&counter, &1_u64.to_ne_bytes()).map(drop)?))
        }
        other => ubench::prepare(other)?,
    })
}

fn path(text: &str) -> CString {
    CString::new(text).expect("paths of the stage have no zero byte")
}

fn create(file: &CString) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(file, flags, Mode::RUSR | Mode::WUSR)?)
}

fn open(file: CString) -> Operation {
    Box::new(move || {
        drop(rustix::fs::open(
            &file,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?);
        Ok(())
    })
}

fn create_and_unlink(file: CString) -> Operation {
    Box::new(move || {
        drop(create(&file)?);
        Ok(rustix::fs::unlink(&file)?)
    })
}

/// There and, the next time, back.
fn rename(mut from: CString, mut to: CString) -> Result<Operation> {
    let _ = rustix::fs::unlink(&to);
    drop(create(&from)?);
    Ok(Box::new(move || {
        rustix::fs::rename(&from, &to)?;
        std::mem::swap(&mut from, &mut to);
        Ok(())
    }))
}

/// Connects a datagram socket again and again: no peer, no queue.
fn connect(address: IpAddr) -> Result<Operation> {
    const PORT: u16 = 7101;
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = rustix::net::socket(family, SocketType::DGRAM, None)?;
    let address = SocketAddr::new(address, PORT);
    Ok(Box::new(move || Ok(rustix::net::connect(&socket, &address)?)))
}

fn connect_unix(name: &str) -> Result<Operation> {
    let _ = rustix::fs::unlink(name);
    let address = SocketAddrUnix::new(name)?;
    let datagram = || rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None);
    let (listener, socket) = (datagram()?, datagram()?);
    rustix::net::bind(&listener, &address).with_context(|| format!("bind {name}"))?;
    Ok(Box::new(move || {
        // Keeps the listener open as long as the operation.
        let _ = &listener;
        Ok(rustix::net::connect(&socket, &address)?)
    }))
}

/// Each datagram is taken out of the queue again, so that every round finds it empty.
fn send() -> Result<Operation> {
    const PORT: u16 = 7102;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let receiver = UdpSocket::bind(address).context("bind the receiver")?;
    receiver.set_read_timeout(Some(Duration::from_secs(1)))?;
    let sender = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(Box::new(move || {
        rustix::net::sendto(&sender, b"datagram", SendFlags::empty(), &address)?;
        let mut datagram = [0; 8];
        let (_, length) = rustix::net::recv(&receiver, datagram.as_mut_slice(), RecvFlags::empty())?;
        if length == datagram.len() {
            Ok(())
        } else {
            Err(io::Error::other("the datagram did not arrive"))
        }
    }))
}

fn map(file: &CString, executable: bool) -> Result<Operation> {
    let file = rustix::fs::open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Box::new(move || raw::map_and_unmap(file.as_fd(), executable)))
}

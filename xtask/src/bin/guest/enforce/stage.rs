//! The files, mounts and listeners that the attempts need.

use std::{
    fs,
    io::Read,
    net::{TcpListener, UdpSocket},
    os::{
        fd::IntoRawFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::{PermissionsExt, symlink},
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    path::Path,
    process::Command,
    thread,
};

use anyhow::{Context, Result, ensure};
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    mount::{MsFlags, mount},
};

/// A name that no dentry holds inline.
pub(super) const LONG_NAME: &str =
    "a-name-of-more-than-sixty-bytes-which-no-dentry-of-any-kernel-keeps-inline.key";
/// Folders below /prot, one in the other.
pub(super) const DEEP: usize = 70;

/// Holds the number of a listening socket that the attempts inherit.
pub(super) const INHERITED: &str = "/tmp/inherited";
/// Name of an abstract unix socket.
pub(super) const ABSTRACT: &str = "varmor-open";

const NOTHING: Option<&str> = None;

pub(super) fn prepare() -> Result<()> {
    for folder in [
        "/prot/sub",
        "/prot/empty",
        "/globs/one",
        "/exact",
        "/readonly/sub",
        "/prog",
        "/links",
        "/links/short",
        "/links/covered",
        "/links/twice",
        "/open",
        "/scratch",
        "/hp",
        "/bk",
        "/ovl",
        "/tmp/lo",
        "/tmp/up",
        "/tmp/wk",
        "/moved",
        "/stack",
        "/disk",
        "/mnt/vol",
        "/socks/denied",
        "/socks/open",
        "/socks/server",
    ] {
        fs::create_dir_all(folder)?;
    }
    for file in [
        "/prot/secret",
        "/prot/victim",
        "/prot/sub/secret",
        "/globs/a.key",
        "/globs/a.txt",
        "/globs/one/bx.pem",
        "/globs/one/dx.pem",
        "/exact/file",
        "/exact/file-2",
        "/readonly/file",
        "/open/file",
        "/tmp/lo/file",
        "/tmp/lo/copied-0",
        "/tmp/lo/copied-1",
        "/tmp/lo/copied-2",
        &format!("/globs/{LONG_NAME}"),
        &format!("/globs/{LONG_NAME}.txt"),
    ] {
        fs::write(file, "content")?;
    }
    let deep = format!("/prot/{}", "d/".repeat(DEEP));
    fs::create_dir_all(&deep)?;
    fs::write(format!("{deep}secret"), "content")?;
    symlink("/prot/secret", "/open/link")?;
    symlink("/prog/tool", "/links/tool")?;
    for (source, program) in [
        ("/proc/self/exe", "/prog/tool"),
        ("/proc/self/exe", "/prog/other"),
        ("/bin/busybox", "/links/busybox"),
        ("/bin/busybox", "/links/short/h"),
    ] {
        fs::copy(source, program).with_context(|| format!("copy {source} to {program}"))?;
        fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
    }
    symlink("busybox", "/links/sh")?;
    symlink("busybox", "/links/true")?;
    symlink("h", "/links/short/sh")?;
    // As the kubelet mounts single files (`subPath`).
    for (place, times) in [
        ("/links/covered/sh", 1),
        ("/links/covered/tool", 1),
        ("/links/twice/tool", 2),
    ] {
        fs::write(place, "")?;
        for _ in 0..times {
            mount(Some("/prog/other"), place, NOTHING, MsFlags::MS_BIND, NOTHING)
                .with_context(|| format!("mount a program over {place}"))?;
        }
    }
    fs::write("/links/script", "#!/prog/tool --version\n")?;
    fs::set_permissions("/links/script", fs::Permissions::from_mode(0o755))?;
    mounts_and_addresses()
}

/// Second views of files, and the addresses that the servers have.
fn mounts_and_addresses() -> Result<()> {
    mount(Some("proc"), "/hp", Some("proc"), MsFlags::empty(), NOTHING)?;
    mount(
        Some("/proc/sys/kernel"),
        "/bk",
        NOTHING,
        MsFlags::MS_BIND,
        NOTHING,
    )?;
    mount(
        Some("tmpfs"),
        "/scratch",
        Some("tmpfs"),
        MsFlags::empty(),
        NOTHING,
    )?;
    let layers = "lowerdir=/tmp/lo,upperdir=/tmp/up,workdir=/tmp/wk";
    mount(
        Some("overlay"),
        "/ovl",
        Some("overlay"),
        MsFlags::empty(),
        Some(layers),
    )?;
    mount(
        Some("tmpfs"),
        "/mnt/vol",
        Some("tmpfs"),
        MsFlags::empty(),
        NOTHING,
    )?;
    disk().context("make a disk")?;
    for address in [
        "10.1.2.3/32",
        "10.9.8.7/32",
        "10.8.0.1/32",
        "fd00:aa::1/128",
        "fd00:bb::1/128",
        // 10.9.8.7 behind NAT64, and its 6to4 network.
        "64:ff9b::a09:807/128",
        "64:ff9b:1::a09:807/128",
        "2002:a09:807::1/128",
    ] {
        let status = Command::new("/bin/busybox")
            .args(["ip", "addr", "add", address, "dev", "lo"])
            .status()?;
        ensure!(status.success(), "add {address} to lo");
    }
    unix_servers()?;
    listen()
}

/// A file as the disk `/dev/loop0`, with a filesystem at /disk, and a node of it with a name of its own.
fn disk() -> Result<()> {
    crate::disk::attach()?;
    let number = nix::sys::stat::stat("/dev/loop0")?.st_rdev;
    let (kind, mode) = (nix::sys::stat::SFlag::S_IFBLK, nix::sys::stat::Mode::S_IRUSR);
    nix::sys::stat::mknod("/open/innocent", kind, mode, number)?;
    for folder in ["/disk/ro", "/disk/free"] {
        fs::create_dir_all(folder)?;
        fs::write(format!("{folder}/file"), "content")?;
    }
    Ok(())
}

/// Servers on unix sockets; one is known under a second path by a bind mount, as the socket of a container runtime is
/// in a container.
fn unix_servers() -> Result<()> {
    for path in [
        "/socks/denied/stream.sock",
        "/socks/open/stream.sock",
        "/socks/unread.sock",
        "/socks/server/stream.sock",
        "/socks/server/other.sock",
    ] {
        serve(UnixListener::bind(path)?);
    }
    serve(UnixListener::bind_addr(&SocketAddr::from_abstract_name(
        ABSTRACT,
    )?)?);
    for path in ["/socks/denied/dgram.sock", "/socks/open/dgram.sock"] {
        let socket = UnixDatagram::bind(path)?;
        thread::spawn(move || while socket.recv(&mut [0; 16]).is_ok() {});
    }
    symlink("/socks/denied/stream.sock", "/socks/open/link.sock")?;
    for (source, target) in [
        ("/socks/server/stream.sock", "/socks/mounted.sock"),
        ("/socks/server/other.sock", "/socks/free.sock"),
        ("/socks/denied/stream.sock", "/socks/open/mounted.sock"),
    ] {
        fs::write(target, "")?;
        mount(Some(source), target, NOTHING, MsFlags::MS_BIND, NOTHING)?;
    }
    Ok(())
}

fn serve(listener: UnixListener) {
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut connection = connection;
            let _ = connection.read(&mut [0; 16]);
        }
    });
}

/// Listens on every address, so that an attempt that is not refused succeeds.
fn listen() -> Result<()> {
    for port in [80, 81, 85, 90, 91] {
        let listener = TcpListener::bind(("::", port)).with_context(|| format!("listen on port {port}"))?;
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let mut connection = connection;
                let _ = connection.read(&mut [0; 16]);
            }
        });
    }
    // For the attempts, which inherit the descriptor.
    let inherited = TcpListener::bind("127.0.0.1:7600")?;
    fcntl(&inherited, FcntlArg::F_SETFD(FdFlag::empty()))?;
    fs::write(INHERITED, inherited.into_raw_fd().to_string())?;
    let socket = UdpSocket::bind("[::]:85")?;
    thread::spawn(move || while socket.recv_from(&mut [0; 16]).is_ok() {});
    ensure!(
        Path::new("/proc/sys/net/ipv4/tcp_fastopen").exists(),
        "the kernel has no TCP fast open"
    );
    fs::write("/proc/sys/net/ipv4/tcp_fastopen", "1")?;
    Ok(())
}

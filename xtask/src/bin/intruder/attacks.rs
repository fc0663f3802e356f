//! What an attacker does who runs code inside a service. Each works on a machine without a policy, and leaves no trace
//! that the next one would meet.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{Error, Result, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    process::Command,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::{
        ptrace,
        socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket},
        stat::{Mode, SFlag, makedev, mknod},
    },
    unistd::{Pid, gethostname, sethostname},
};

pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) run: fn() -> Result<()>,
}

pub(super) const ATTACKS: &[Attack] = &[
    attack("read-shadow", || fs::read("/etc/shadow").map(drop)),
    attack("write-etc", || {
        fs::write("/etc/intruder", "x")?;
        fs::remove_file("/etc/intruder")
    }),
    attack("deface", || change("/var/www/html/index.html")),
    attack("wipe-log", || {
        fs::rename("/var/log/nginx/error.log", "/var/log/nginx/gone")?;
        fs::rename("/var/log/nginx/gone", "/var/log/nginx/error.log")
    }),
    attack("drop-and-run", || {
        // Not closed by the loader's own rules: the file is new, and so is its name.
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o755)
            .open("/tmp/true")?;
        file.write_all(&fs::read("/bin/busybox")?)?;
        drop(file);
        done(&mut Command::new("/tmp/true"))?;
        fs::remove_file("/tmp/true")
    }),
    attack("shell", || done(Command::new("/bin/sh").args(["-c", "exit 0"]))),
    attack("connect-out", || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, 4444)).map(drop)
    }),
    attack("new-port", || {
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, 4445)).map(drop)
    }),
    attack("udp-out", || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.send_to(b"x", (Ipv4Addr::LOCALHOST, 53)).map(drop)
    }),
    attack("raw-socket", || {
        let flags = SockFlag::empty();
        Ok(socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp).map(drop)?)
    }),
    attack("trace-process", || {
        Ok(ptrace::seize(victim()?, ptrace::Options::empty())?)
    }),
    attack("read-environment", || {
        fs::read(format!("/proc/{}/environ", victim()?)).map(drop)
    }),
    attack("mount", || {
        mount(
            Some("tmpfs"),
            "/mnt",
            Some("tmpfs"),
            MsFlags::empty(),
            None::<&str>,
        )?;
        Ok(umount2("/mnt", MntFlags::MNT_DETACH)?)
    }),
    attack("set-id", || {
        let mode = fs::metadata("/bin/busybox")?.mode();
        fs::set_permissions("/bin/busybox", Permissions::from_mode(mode | 0o4000))?;
        fs::set_permissions("/bin/busybox", Permissions::from_mode(mode))
    }),
    attack("new-namespace", || Ok(unshare(CloneFlags::CLONE_NEWNS)?)),
    attack("make-device", || {
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        mknod("/tmp/memory", SFlag::S_IFCHR, mode, makedev(1, 1))?;
        fs::remove_file("/tmp/memory")
    }),
    attack("core-pattern", || change("/proc/sys/kernel/core_pattern")),
    attack("host-name", || Ok(sethostname(gethostname()?)?)),
];

const fn attack(name: &'static str, run: fn() -> Result<()>) -> Attack {
    Attack { name, run }
}

/// Writes a file as it is.
fn change(path: &str) -> Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let content = fs::read(path)?;
    file.write_all(&content)
}

fn done(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::other(status.to_string()))
    }
}

/// A process that the tests have started for this.
fn victim() -> Result<Pid> {
    let number = std::env::var("VICTIM").ok().and_then(|text| text.parse().ok());
    number.map(Pid::from_raw).ok_or_else(|| Error::other("no VICTIM"))
}

//! Generated operations.

use std::net::SocketAddr;

use nix::libc;

use super::{
    operation::{Act, Operation},
    rng::Rng,
    stage::{FOLDERS, KNOWN, MOUNTED, NAMES, OPERATOR, PROGRAMS},
};

pub(super) const ADDRESSES_V4: [&str; 11] = [
    "10.1.2.3",
    "10.1.2.4",
    "10.9.8.7",
    "127.0.0.1",
    "127.0.0.9",
    "169.254.169.254",
    "100.96.0.96",
    "100.100.100.200",
    "192.0.0.192",
    "192.0.2.77",
    "0.0.0.0",
];
pub(super) const ADDRESSES_V6: [&str; 8] = [
    "fd00:aa::1",
    "fd00:bb::5",
    "fd00:ec2::254",
    "::1",
    "64:ff9b::a09:807",
    "2002:a09:807::1",
    "::ffff:10.9.8.7",
    "::",
];
pub(super) const PORTS: [u16; 9] = [1, 53, 80, 81, 443, 7000, 7005, 8080, 65535];
/// Numbers of domain, type and protocol that kernels of the matrix know.
const SOCKETS: [(i32, i32, i32); 13] = [
    (1, 1, 0),
    (1, 2, 0),
    (1, 5, 0),
    (2, 1, 0),
    (2, 1, 6),
    (2, 2, 0),
    (2, 2, 17),
    (2, 3, 1),
    (2, 3, 255),
    (10, 1, 0),
    (10, 2, 17),
    (16, 3, 0),
    (17, 2, 0),
];
const CAPABILITIES: [&str; 16] = [
    "sys_admin",
    "sys_chroot",
    "sys_nice",
    "setuid",
    "setgid",
    "setpcap",
    "sys_time",
    "sys_resource",
    "sys_module",
    "sys_boot",
    "dac_override",
    "fowner",
    "chown",
    "net_raw",
    "net_bind_service",
    "sys_admin",
];
const ENDINGS: [&str; 5] = [".key", ".txt", "", ".log", ".pem"];
const RAW: i32 = 3;
const PACKET: i32 = 17;

/// A batch; `outside` is a process that no policy is about.
pub(super) fn operations(rng: &mut Rng, count: usize, outside: i32) -> Vec<Operation> {
    (0..count).map(|number| operation(rng, number, outside)).collect()
}

fn operation(rng: &mut Rng, number: usize, outside: i32) -> Operation {
    match rng.below(100) {
        0..35 => open(rng),
        35..41 => create(&fresh(rng, number)),
        41..45 => one("unlink", fresh(rng, number), |path| Act::Unlink { path }),
        45..48 => one("mkdir", fresh(rng, number), |path| Act::Mkdir { path }),
        48..51 => one("rmdir", fresh(rng, number), |path| Act::Rmdir { path }),
        51..57 => {
            let (from, to) = (fresh(rng, number), format!("{}.new", fresh(rng, number)));
            let asks = vec![format!("rename {from} -> {to}")];
            let act = if rng.chance(60) {
                Act::Rename { from, to }
            } else {
                Act::Link { from, to }
            };
            Operation { act, asks }
        }
        57..59 => one("create", fresh(rng, number), |path| Act::Symlink { path }),
        59..62 => one("chmod", file(rng), |path| Act::Chmod { path }),
        62..64 => one("chown", file(rng), |path| Act::Chown { path }),
        64..67 => one("truncate", file(rng), |path| Act::Truncate { path }),
        67..73 => one("exec", (*rng.pick(&PROGRAMS)).to_owned(), |path| Act::Exec {
            path,
        }),
        73..80 => {
            let to = address(rng);
            connect(to, rng.chance(30))
        }
        80..82 => {
            let to = address(rng);
            Operation {
                act: Act::Send { to },
                asks: vec![socket_of(to, false), format!("connect {to}")],
            }
        }
        82..87 => {
            let at = address(rng);
            bind(at, rng.chance(30))
        }
        87..90 => socket(*rng.pick(&SOCKETS)),
        90..93 => mount(rng),
        93..94 => umount(MOUNTED),
        94..97 => capable(rng.pick::<&str>(&CAPABILITIES)),
        97..99 => peer(rng.chance(50), rng.chance(50).then_some(outside)),
        _ => Operation {
            act: Act::UserNamespace,
            asks: vec!["userns".to_owned()],
        },
    }
}

fn one(verb: &str, path: String, act: impl FnOnce(String) -> Act) -> Operation {
    let asks = vec![format!("{verb} {path}")];
    Operation { act: act(path), asks }
}

fn file(rng: &mut Rng) -> String {
    format!("{}/{}", rng.pick(&FOLDERS), rng.pick(&NAMES))
}

/// A name of its own, which the batch makes or takes away.
fn fresh(rng: &mut Rng, number: usize) -> String {
    let stem = rng.pick(&["a", "v", "new", "x"]);
    format!("{}/{stem}{number}{}", rng.pick(&FOLDERS), rng.pick(&ENDINGS))
}

fn open(rng: &mut Rng) -> Operation {
    if rng.chance(12) {
        let path = *rng.pick(&KNOWN);
        return opening(path, libc::O_RDONLY);
    }
    if rng.chance(6) {
        return opening(rng.pick::<&str>(&FOLDERS), libc::O_RDONLY | libc::O_DIRECTORY);
    }
    let flags = *rng.pick(&[
        libc::O_RDONLY,
        libc::O_RDONLY,
        libc::O_WRONLY,
        libc::O_RDWR,
        libc::O_WRONLY | libc::O_APPEND,
        libc::O_RDWR | libc::O_APPEND,
        libc::O_WRONLY | libc::O_TRUNC,
        libc::O_WRONLY | libc::O_APPEND | libc::O_TRUNC,
    ]);
    opening(&file(rng), flags)
}

/// Opening what is there.
pub(super) fn opening(path: &str, flags: i32) -> Operation {
    let mode = flags & libc::O_ACCMODE;
    let mut letters = String::new();
    if mode != libc::O_WRONLY {
        letters.push('r');
    }
    if mode != libc::O_RDONLY {
        letters.push(if flags & libc::O_APPEND == 0 { 'w' } else { 'a' });
    }
    let mut asks = vec![format!("open {letters} {path}")];
    if flags & libc::O_TRUNC != 0 {
        asks.push(format!("truncate {path}"));
    }
    Operation {
        act: Act::Open {
            path: path.to_owned(),
            flags,
        },
        asks,
    }
}

fn create(path: &str) -> Operation {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    let mut operation = opening(path, flags);
    operation.asks.push(format!("create {path}"));
    operation
}

fn address(rng: &mut Rng) -> SocketAddr {
    let ip = if rng.chance(60) {
        *rng.pick(&ADDRESSES_V4)
    } else {
        *rng.pick(&ADDRESSES_V6)
    };
    SocketAddr::new(ip.parse().expect("the table has addresses"), *rng.pick(&PORTS))
}

fn socket_of(address: SocketAddr, stream: bool) -> String {
    let domain = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let kind = if stream {
        libc::SOCK_STREAM
    } else {
        libc::SOCK_DGRAM
    };
    format!("socket {domain} {kind} 0")
}

pub(super) fn connect(to: SocketAddr, stream: bool) -> Operation {
    Operation {
        act: Act::Connect { to, stream },
        asks: vec![socket_of(to, stream), format!("connect {to}")],
    }
}

pub(super) fn bind(at: SocketAddr, stream: bool) -> Operation {
    let mut asks = vec![socket_of(at, stream), format!("bind {at}")];
    if at.port() < 1024 && at.port() != 0 {
        asks.push("capable net_bind_service".to_owned());
    }
    Operation {
        act: Act::Bind { at, stream },
        asks,
    }
}

pub(super) fn socket((domain, kind, protocol): (i32, i32, i32)) -> Operation {
    let mut asks = vec![format!("socket {domain} {kind} {protocol}")];
    if domain == PACKET || kind == RAW && matches!(domain, libc::AF_INET | libc::AF_INET6) {
        asks.push("capable net_raw".to_owned());
    }
    Operation {
        act: Act::Socket {
            domain,
            kind,
            protocol,
        },
        asks,
    }
}

fn mount(rng: &mut Rng) -> Operation {
    const RDONLY: u64 = libc::MS_RDONLY;
    let sources = [
        "/agree/tree/data",
        "/agree/tree/keys",
        "/agree/mounted",
        "/agree/bin",
    ];
    match rng.below(5) {
        0 => mounting("tmpfs", Some("tmpfs"), 0),
        1 => mounting("tmpfs", Some("tmpfs"), RDONLY),
        2 => mounting("proc", Some("proc"), 0),
        3 => mounting("none", None, libc::MS_REMOUNT | RDONLY),
        _ => mounting(rng.pick::<&str>(&sources), None, libc::MS_BIND),
    }
}

/// At `stage::FREE`, or of `stage::MOUNTED`.
pub(super) fn mounting(source: &str, fstype: Option<&str>, flags: u64) -> Operation {
    let kind = fstype.map(|name| format!(" type={name}")).unwrap_or_default();
    let mut asks = vec![
        "capable sys_admin".to_owned(),
        format!("mount {source}{kind} flags={flags:#x}"),
    ];
    if flags & (libc::MS_REMOUNT | libc::MS_PRIVATE) == 0 {
        asks.push(format!("rmdir {}", super::stage::FREE));
    }
    Operation {
        act: Act::Mount {
            source: source.to_owned(),
            fstype: fstype.map(str::to_owned),
            flags,
        },
        asks,
    }
}

pub(super) fn umount(path: &str) -> Operation {
    Operation {
        act: Act::Umount {
            path: path.to_owned(),
        },
        asks: vec![
            "capable sys_admin".to_owned(),
            format!("umount {path}"),
            format!("rmdir {path}"),
        ],
    }
}

pub(super) fn capable(name: &str) -> Operation {
    let mut asks = vec![format!("capable {name}")];
    match name {
        "net_raw" => asks.push("socket 2 3 1".to_owned()),
        "net_bind_service" => asks.extend(["socket 2 2 0", "bind 127.0.0.1:99"].map(str::to_owned)),
        "dac_override" | "fowner" | "chown" => asks.push(format!("open w {}", super::stage::NOBODYS)),
        _ => {}
    }
    Operation {
        act: Act::Capable {
            name: name.to_owned(),
        },
        asks,
    }
}

pub(super) fn peer(attach: bool, outside: Option<i32>) -> Operation {
    let words: &[&str] = match (attach, outside) {
        // Who attaches can read the program.
        (true, None) => &["trace inside", "traceby inside"],
        (false, None) => &["read inside", "readby inside"],
        (true, Some(_)) => &["trace outside"],
        (false, Some(_)) => &["read outside"],
    };
    let mut asks: Vec<String> = words.iter().map(|words| format!("ptrace {words}")).collect();
    if attach {
        let program = if outside.is_some() {
            "/bin/busybox"
        } else {
            OPERATOR
        };
        asks.push(format!("open r {program}"));
    }
    Operation {
        act: Act::Ptrace { attach, outside },
        asks,
    }
}

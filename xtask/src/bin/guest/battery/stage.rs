//! The files and addresses that the steps need.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use anyhow::{Context, Result};

/// Addresses on `lo` of networked places: denied ones, their IPv6 disguises, and one that nothing denies.
pub(super) const ADDRESSES: &[&str] = &[
    "10.1.2.3/32",
    "10.9.8.7/32",
    "10.7.7.7/32",
    "169.254.169.254/32",
    "64:ff9b::a01:203/128",
    "2002:a01:203::1/128",
];
/// Levels below a protected folder.
pub(super) const DEPTHS: [usize; 3] = [25, 31, 64];
/// The libraries and the dynamic program that the lab puts beside this one.
pub(super) const DYNAMIC: &str = "/dynamic";
pub(super) const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// A program of 132 bytes that ends with [`super::raw::PROOF`], for use as an interpreter: any program that needs
/// more would stumble over the headers of the program that named it.
const TINY: [u8; 12] = [0xbf, 42, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];

/// Once per guest: what every place sees through its overlay.
pub(super) fn prepare() -> Result<()> {
    for folder in [
        "/ct",
        "/vol",
        "/field",
        "/prot/sub",
        "/ro/sub",
        "/ro/empty",
        "/exact",
        "/rdeny",
        "/prog",
        "/shells",
        "/tools",
        "/vault/sub",
        "/stack",
        "/hp",
        "/lib64",
        "/etc",
    ] {
        fs::create_dir_all(folder).with_context(|| format!("create {folder}"))?;
    }
    fs::set_permissions("/field", PermissionsExt::from_mode(0o1777))?;
    for file in [
        "/prot/secret",
        "/prot/sub/secret",
        "/ro/file",
        "/ro/sub/file",
        "/exact/file",
        "/exact/file-2",
        "/exact/file.d",
        "/vault/file",
        "/field/file",
        "/etc/shadow",
    ] {
        write(file)?;
    }
    for depth in DEPTHS {
        let folder = format!("/prot/{}", format!("d{depth}/").repeat(depth));
        fs::create_dir_all(&folder)?;
        write(&format!("{folder}secret"))?;
    }
    let own = "/varmor-guest";
    for (from, to) in [
        (own, "/prog/tool"),
        (own, "/tools/other"),
        (own, "/tools/web"),
        (own, "/tools/curl"),
        (own, "/rdeny/tool"),
        ("/bin/busybox", "/shells/sh"),
    ] {
        program(to, &fs::read(from).with_context(|| format!("read {from}"))?)?;
    }
    program("/prog/interp", &elf(None))?;
    program("/tools/interp", &elf(None))?;
    program("/tools/by-denied", &elf(Some("/prog/interp")))?;
    program("/tools/by-other", &elf(Some("/tools/interp")))?;
    script("/tools/script", "/shells/sh")?;
    script("/tools/nested", "/tools/script")?;
    if Path::new(DYNAMIC).exists() {
        for (from, to) in [
            ("dash", "/prog/dynamic"),
            ("dash", "/tools/dynamic"),
            ("libtinfo.so.6", "/prog/library.so"),
            ("libtinfo.so.6", "/tools/library.so"),
            ("ld-linux-x86-64.so.2", LOADER),
        ] {
            program(to, &fs::read(format!("{DYNAMIC}/{from}"))?)?;
        }
        // Where the loader looks for it.
        fs::create_dir_all("/lib/x86_64-linux-gnu")?;
        fs::copy(format!("{DYNAMIC}/libc.so.6"), "/lib/x86_64-linux-gnu/libc.so.6")?;
        fs::set_permissions("/prog/dynamic", PermissionsExt::from_mode(0o755))?;
    }
    symlink("/prog/tool", "/tools/link").context("link to the denied program")
}

/// Once per place: a volume, which is empty for everybody else.
pub(super) fn volume() -> Result<()> {
    for folder in ["/vol/prot/sub", "/vol/deep/er/prot", "/vol/ro/sub", "/vol/field"] {
        fs::create_dir_all(folder)?;
    }
    for file in [
        "/vol/prot/secret",
        "/vol/prot/sub/secret",
        "/vol/deep/er/prot/secret",
        "/vol/ro/file",
        "/vol/field/file",
    ] {
        write(file)?;
    }
    Ok(())
}

fn write(path: &str) -> Result<()> {
    fs::write(path, "content").with_context(|| format!("write {path}"))
}

fn program(path: &str, content: &[u8]) -> Result<()> {
    fs::write(path, content).with_context(|| format!("write {path}"))?;
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).with_context(|| format!("change {path}"))
}

fn script(path: &str, interpreter: &str) -> Result<()> {
    program(path, format!("#!{interpreter}\nexit 42\n").as_bytes())
}

/// A position-independent ELF program; with an interpreter, its own code never runs.
fn elf(interpreter: Option<&str>) -> Vec<u8> {
    const HEADER: u64 = 64;
    const SEGMENT: u64 = 56;
    let segments: u64 = if interpreter.is_some() { 2 } else { 1 };
    let start = HEADER + segments * SEGMENT;
    let name = interpreter
        .map(|name| [name.as_bytes(), b"\0"].concat())
        .unwrap_or_default();
    let entry = start + name.len() as u64;
    let size = entry + TINY.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // ET_DYN, x86-64.
    file.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    for word in [entry, HEADER, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0]);
    file.extend([u8::try_from(segments).unwrap_or(1), 0, 64, 0, 0, 0, 0, 0]);
    let mut segment = |kind: u8, flags: u8, offset: u64, length: u64, align: u64| {
        file.extend([kind, 0, 0, 0, flags, 0, 0, 0]);
        for word in [offset, offset, offset, length, length, align] {
            file.extend(word.to_le_bytes());
        }
    };
    if interpreter.is_some() {
        segment(3, 4, start, name.len() as u64, 1);
    }
    // Writable, because older kernels clear the rest of an interpreter's last page.
    segment(1, 7, 0, size, 0x1000);
    file.extend(name);
    file.extend(TINY);
    file
}

#[cfg(test)]
mod tests {
    use super::elf;

    #[test]
    fn programs_have_the_sizes_that_their_headers_say() {
        assert_eq!(elf(None).len(), 64 + 56 + 12);
        assert_eq!(elf(Some("/i")).len(), 64 + 2 * 56 + 3 + 12);
    }
}

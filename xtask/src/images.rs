//! `image`: the container images of the product as OCI archives, each with the list of what is in it.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};

use crate::{
    build::{self, Built, Profile},
    oci::{self, About, Layer, read, sha256},
    process, progress, sbom, tools,
    vm::rootfs,
    workspace,
};

/// What images are named in this machine's archives; a chart is told where somebody has put them.
const PREFIX: &str = "localhost/varmor";
/// Everybody's own: the controller reads and writes nothing of its node.
const CONTROLLER_USER: &str = "10001:10001";
const PARSER: &str = "usr/sbin/apparmor_parser";
const LOADER: &str = "lib64/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// What profiles include, and the features that the parser compiles for.
const APPARMOR_FOLDERS: [&str; 3] = ["abi", "abstractions", "tunables"];
/// Debian packages of which files are in the agent's image.
const PARSER_PACKAGES: [&str; 2] = ["apparmor", "libc6"];

#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn command(_: &Args) -> Result<ExitCode> {
    tools::need(tools::IMAGES)?;
    let built = build::build(Profile::Release)?;
    for archive in progress::timed("images", || write(&built))? {
        let size = std::fs::metadata(&archive).map_or(0, |about| about.len());
        println!(
            "{} {} KiB sha256:{}",
            archive.display(),
            size / 1024,
            sha256(&archive)?
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The name by which a node knows an image of the product.
pub(crate) fn name(program: &str) -> String {
    format!("{PREFIX}/{program}:{}", env!("CARGO_PKG_VERSION"))
}

/// Writes the archives of the product.
pub(crate) fn write(built: &Built) -> Result<Vec<PathBuf>> {
    tools::need(tools::IMAGES)?;
    let folder = workspace::target().join("images");
    let mut archives = Vec::new();
    for (program, user, layer) in [
        ("varmor-controller", CONTROLLER_USER, controller(built)?),
        ("varmor-agent", "0:0", agent(built)?),
    ] {
        let archive = folder.join(format!("{program}.tar"));
        let about = About {
            name: &name(program),
            title: program,
            version: env!("CARGO_PKG_VERSION"),
            entrypoint: &[&format!("/usr/bin/{program}")],
            user,
        };
        oci::write(&archive, &about, layer)?;
        let packages: &[&str] = if program == "varmor-agent" {
            &PARSER_PACKAGES
        } else {
            &[]
        };
        let list = sbom::of(program, &debian(packages)?)?;
        workspace::write_file(&folder.join(format!("{program}.spdx.json")), list)?;
        archives.push(archive);
    }
    Ok(archives)
}

/// The image whose container holds the namespaces of a pod of the lab.
pub(crate) fn pause(guest: &Path) -> Result<PathBuf> {
    let archive = workspace::target().join("cluster/images/pause.tar");
    let mut layer = Layer::new();
    layer.file("pause", 0o755, &read(guest)?)?;
    let about = About {
        name: &format!("{PREFIX}/pause:1"),
        title: "pause",
        version: "1",
        entrypoint: &["/pause", "wait"],
        user: "65534:65534",
    };
    oci::write(&archive, &about, layer)?;
    Ok(archive)
}

/// Nothing but the program, which is static.
fn controller(built: &Built) -> Result<Layer> {
    let mut layer = base()?;
    layer.file(
        "usr/bin/varmor-controller",
        0o755,
        &read(&built.program("varmor-controller"))?,
    )?;
    Ok(layer)
}

/// The agent, the command line tool, and the parser that compiles AppArmor profiles.
fn agent(built: &Built) -> Result<Layer> {
    let tree = rootfs::tree()?;
    let mut layer = base()?;
    for program in ["varmor-agent", "varmor"] {
        layer.file(
            &format!("usr/bin/{program}"),
            0o755,
            &read(&built.program(program))?,
        )?;
    }
    layer.file(PARSER, 0o755, &read(&tree.join(PARSER))?)?;
    for folder in ["lib64", "usr/lib", LIBRARIES] {
        layer.folder(folder, 0o755)?;
    }
    layer.file(LOADER, 0o755, &read(&tree.join(LOADER))?)?;
    for library in libraries(&tree)? {
        let path = format!("{LIBRARIES}/{library}");
        layer.file(&path, 0o644, &read(&tree.join(&path))?)?;
    }
    layer.folder("etc/apparmor", 0o755)?;
    layer.file("etc/apparmor/parser.conf", 0o644, b"")?;
    layer.folder("etc/apparmor.d", 0o755)?;
    for folder in APPARMOR_FOLDERS {
        let path = format!("etc/apparmor.d/{folder}");
        layer.tree(&tree.join(&path), &path)?;
    }
    layer.link("sbin", "usr/sbin")?;
    for folder in ["run", "var", "var/cache", "var/log", "proc", "sys", "dev"] {
        layer.folder(folder, 0o755)?;
    }
    Ok(layer)
}

/// What every image has.
fn base() -> Result<Layer> {
    let mut layer = Layer::new();
    for folder in ["etc", "usr", "usr/bin", "usr/sbin"] {
        layer.folder(folder, 0o755)?;
    }
    layer.folder("tmp", 0o1777)?;
    layer.file(
        "etc/passwd",
        0o644,
        b"root:x:0:0:root:/:/nologin\nvarmor:x:10001:10001:varmor:/:/nologin\n",
    )?;
    layer.file("etc/group", 0o644, b"root:x:0:\nvarmor:x:10001:\n")?;
    Ok(layer)
}

/// The libraries that the parser loads, as its own loader finds them.
fn libraries(tree: &Path) -> Result<Vec<String>> {
    let loader = tree.join(LOADER);
    let text = process::output(
        &loader.to_string_lossy(),
        [
            "--library-path".as_ref(),
            tree.join(LIBRARIES).as_os_str(),
            "--list".as_ref(),
            tree.join(PARSER).as_os_str(),
        ],
    )?;
    let names = library_names(&text);
    if names.is_empty() {
        bail!("the loader of the guests' Debian found no libraries of {PARSER}: {text}");
    }
    Ok(names)
}

/// The names in lines such as `libc.so.6 => /somewhere/libc.so.6 (0x...)`.
fn library_names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| line.trim().split_once(" => "))
        .map(|(name, _)| name.to_owned())
        .filter(|name| !name.starts_with('/'))
        .collect();
    names.sort();
    names
}

/// Names and versions of Debian packages in the guests' Debian.
fn debian(packages: &[&str]) -> Result<Vec<(String, String)>> {
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let file = rootfs::tree()?.join("var/lib/dpkg/status");
    let text = String::from_utf8_lossy(&read(&file)?).into_owned();
    packages
        .iter()
        .map(|package| {
            let stanza = text
                .split("\n\n")
                .find(|stanza| stanza.lines().next() == Some(&format!("Package: {package}")));
            let version =
                stanza.and_then(|stanza| stanza.lines().find_map(|line| line.strip_prefix("Version: ")));
            let version = version.with_context(|| format!("{} names no {package}", file.display()))?;
            Ok(((*package).to_owned(), version.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::library_names;

    #[test]
    fn loader_itself_and_kernel_object_are_no_libraries() {
        let text =
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /t/libc.so.6 (0x2)\n\t/lib64/ld.so => /t/ld.so (0x3)\n";
        assert_eq!(library_names(text), ["libc.so.6"]);
    }
}

//! E: running a denied program by its other names.

use std::{
    fs::{self, File},
    io::Write,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{PermissionsExt, symlink},
    },
    process::{Command, Stdio},
};

use nix::{
    mount::{MsFlags, mount},
    unistd::{chdir, setsid},
};
use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, memfd_create, openat};

use super::{
    case::{Case, Done, Failure, Under, broken, missing, setup},
    identity::read,
    place::ROOT,
    policies::{ALLOW_LIST, RULES, TARGETS},
    raw::{self, Mapping, PROOF},
    stage::{DYNAMIC, LOADER},
};

const AT_EMPTY_PATH: i32 = 0x1000;
const TOOL: &[&str] = &["battery", "--proof"];

pub(super) fn cases() -> Vec<Case> {
    let rules = Under(RULES, ROOT);
    vec![
        Case::new(
            "E-1",
            "run a denied shell by a relative path",
            vec![
                rules.plain("/shells/sh", || proves(shell("/shells/sh"))),
                rules.attack("./sh", || {
                    chdir("/shells")?;
                    proves(shell("./sh"))
                }),
                rules.attack("shells/sh", || {
                    chdir("/")?;
                    proves(shell("shells/sh"))
                }),
                rules.attack("execveat(folder, \"sh\")", || {
                    let folder = setup("open", File::open("/shells"))?;
                    raw::in_child(|| Err(raw::execveat(folder, c"sh", &[c"sh", c"-c", c"exit 42"], 0).into()))
                }),
                rules.benign("run another program", || proves(guest("/tools/other"))),
            ],
        ),
        scripts(),
        descriptors(),
        other_names(),
        loader(),
        Case::new(
            "E-6",
            "name it as the interpreter of an ELF program",
            vec![
                rules.plain("run it", || proves(Command::new("/prog/interp"))),
                rules.attack("run a program that names it", || {
                    proves(Command::new("/tools/by-denied"))
                }),
                rules.benign("run one that names another", || {
                    proves(Command::new("/tools/by-other"))
                }),
            ],
        ),
        unlisted(),
        targets(),
        Case::skipped(
            "E-11",
            "change the arguments while they are judged",
            "the feature does not exist here: no rule looks at arguments",
        ),
    ]
}

fn scripts() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        "E-2",
        "run it as the interpreter of a script",
        vec![
            rules.plain("/shells/sh", || proves(shell("/shells/sh"))),
            rules.attack("a script", || proves(Command::new("/tools/script"))),
            rules.attack("a script whose interpreter is a script", || {
                proves(Command::new("/tools/nested"))
            }),
            rules
                .attack("binfmt_misc", || proves(Command::new("/tools/odd")))
                .after(register_format),
        ],
    )
}

fn descriptors() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        "E-3",
        "run it by a descriptor",
        vec![
            rules.plain("/prog/tool", || proves(guest("/prog/tool"))),
            rules.attack("execveat(fd, AT_EMPTY_PATH)", || {
                by_fd(setup("open", File::open("/prog/tool"))?.into())
            }),
            rules.attack("the same by an O_PATH descriptor", || {
                by_fd(setup(
                    "open",
                    openat(CWD, "/prog/tool", OFlags::PATH, Mode::empty()),
                )?)
            }),
            rules.attack("/proc/self/fd/N", || {
                let file = setup("open", openat(CWD, "/prog/tool", OFlags::PATH, Mode::empty()))?;
                proves(guest(&format!("/proc/self/fd/{}", file.as_raw_fd())))
            }),
            rules.attack("an unlinked file", || {
                let file = setup("open", openat(CWD, "/prog/tool", OFlags::PATH, Mode::empty()))?;
                setup("unlink", fs::remove_file("/prog/tool"))?;
                by_fd(file)
            }),
        ],
    )
}

fn unlisted() -> Case {
    let listed = Under(ALLOW_LIST, ROOT);
    Case::new(
        "E-9",
        "run a memory file although only listed programs may run",
        vec![
            listed.plain("run a program that is not listed", || proves(guest("/tools/web"))),
            listed.attack("memfd_create and fexecve", memory_file),
            listed.attack("a file dropped on a writable folder", dropped),
            listed.attack("an unlinked file", || {
                setup("copy", copy("/varmor-guest", "/field/unlinked"))?;
                let file = setup(
                    "open",
                    openat(CWD, "/field/unlinked", OFlags::PATH, Mode::empty()),
                )?;
                setup("unlink", fs::remove_file("/field/unlinked"))?;
                by_fd(file)
            }),
            listed.benign("run a listed program", || proves(guest("/tools/other"))),
        ],
    )
}

fn targets() -> Case {
    Case::new(
        "E-10",
        "leave the rules of an executable by other parents",
        vec![
            Under(TARGETS, ROOT).plain("read a denied file as the named program", || as_web(&["--reads"])),
            Under(TARGETS, ROOT).attack("through a child in a session of its own", || {
                as_web(&["--reads", "--detached"])
            }),
            Under(TARGETS, ROOT).attack("through another program that it starts", || {
                as_web(&["--reads", "--through", "/tools/other"])
            }),
            Under(TARGETS, ROOT).benign("read it as another program", || read("/etc/shadow")),
        ],
    )
}

fn other_names() -> Case {
    let rules = Under(RULES, ROOT);
    let listed = Under(ALLOW_LIST, ROOT);
    Case::new(
        "E-4",
        "run it through a symbolic link, a hard link, after a rename, as a copy",
        vec![
            rules.plain("/prog/tool", || proves(guest("/prog/tool"))),
            rules.attack("a symbolic link that was there", || proves(guest("/tools/link"))),
            rules.attack("a new symbolic link", || {
                setup("link", symlink("/prog/tool", "/field/link"))?;
                proves(guest("/field/link"))
            }),
            rules.attack("a hard link", || {
                fs::hard_link("/prog/tool", "/field/hard")?;
                proves(guest("/field/hard"))
            }),
            rules.attack("another name", || {
                fs::rename("/prog/tool", "/field/renamed")?;
                proves(guest("/field/renamed"))
            }),
            rules
                .attack("another name for its folder", || {
                    fs::rename("/prog", "/field/prog")?;
                    proves(guest("/field/prog/tool"))
                })
                .after(|| recreate("/prog")),
            listed.plain("an unlisted program", || proves(guest("/tools/web"))),
            listed.attack("a copy", dropped),
        ],
    )
    .note("a list of what is denied cannot know a copy; the copy is refused by a list of what is allowed")
}

fn loader() -> Case {
    let rules = Under(RULES, ROOT);
    Case::new(
        "E-5",
        "have the dynamic loader run it",
        vec![
            rules.plain("run it", || {
                with_loader(&["/prog/dynamic", "-c", "exit 42"], false)
            }),
            rules.attack("through the loader", || {
                with_loader(&["/prog/dynamic", "-c", "exit 42"], true)
            }),
            rules.attack("through the loader with mode 0644", || {
                setup(
                    "chmod",
                    fs::set_permissions("/prog/dynamic", PermissionsExt::from_mode(0o644)),
                )?;
                with_loader(&["/prog/dynamic", "-c", "exit 42"], true)
            }),
            rules.attack("preload a denied object", || preloads("/prog/library.so")),
            rules.attack("map it executable, as dlopen does", || {
                Ok(raw::map_file(
                    setup("open", File::open("/prog/library.so"))?,
                    Mapping::Executable,
                )?)
            }),
            rules.attack("map it and make it executable later", || {
                let file = setup("open", File::open("/prog/library.so"))?;
                Ok(raw::map_file(file, Mapping::ExecutableLater)?)
            }),
            rules.benign("run another program through the loader", || {
                with_loader(&["/tools/dynamic", "-c", "exit 42"], true)
            }),
            rules.benign("preload another object", || preloads("/tools/library.so")),
        ],
    )
}

/// A shell under any name.
pub(super) fn shell(path: &str) -> Command {
    let mut command = Command::new(path);
    command.args(["-c", "exit 42"]);
    command
}

/// A copy of this program.
pub(super) fn guest(path: &str) -> Command {
    let mut command = Command::new(path);
    command.args(TOOL);
    command
}

/// The program runs if and only if it ends with the proof.
pub(super) fn proves(mut command: Command) -> Done {
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(PROOF) => Ok(()),
        None => Err(Failure::Refused(output.status.to_string())),
        Some(_)
            if ["not permitted", "denied", "failed to map segment"]
                .iter()
                .any(|text| errors.contains(text)) =>
        {
            Err(Failure::Refused(errors))
        }
        Some(_) => Err(broken(format!("{}: {errors}", output.status))),
    }
}

fn by_fd(file: OwnedFd) -> Done {
    let arguments = [c"tool", c"battery", c"--proof"];
    raw::in_child(|| Err(raw::execveat(file, c"", &arguments, AT_EMPTY_PATH).into()))
}

fn copy(from: &str, to: &str) -> Done {
    fs::copy(from, to)?;
    Ok(fs::set_permissions(to, PermissionsExt::from_mode(0o755))?)
}

/// A folder of the lower layer cannot be renamed; one that was made at run time can.
pub(super) fn recreate(folder: &str) -> Done {
    let old = format!("{folder}-old");
    fs::create_dir(&old)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(
                entry.path(),
                format!("{old}/{}", entry.file_name().to_string_lossy()),
            )?;
        }
    }
    fs::remove_dir_all(folder)?;
    Ok(fs::rename(old, folder)?)
}

fn dropped() -> Done {
    setup("copy", copy("/varmor-guest", "/field/dropped"))?;
    proves(guest("/field/dropped"))
}

fn memory_file() -> Done {
    let content = setup("read", fs::read("/varmor-guest"))?;
    let file = setup("memfd_create", memfd_create("innocent", MemfdFlags::empty()))?;
    let mut file = File::from(file);
    setup("fill", file.write_all(&content))?;
    by_fd(file.into())
}

fn register_format() -> Done {
    let folder = "/proc/sys/fs/binfmt_misc";
    mount(
        Some("binfmt"),
        folder,
        Some("binfmt_misc"),
        MsFlags::empty(),
        None::<&str>,
    )
    .map_err(|errno| missing(format!("binfmt_misc: {errno}")))?;
    fs::write(format!("{folder}/register"), ":battery:M::battery!::/shells/sh:")?;
    fs::write("/tools/odd", "battery!\nexit 42\n")?;
    Ok(fs::set_permissions(
        "/tools/odd",
        PermissionsExt::from_mode(0o755),
    )?)
}

fn dynamic() -> Done {
    match fs::symlink_metadata(DYNAMIC) {
        Ok(_) => Ok(()),
        Err(_) => Err(missing("the lab put no dynamic program into this guest")),
    }
}

fn with_loader(words: &[&str], loader: bool) -> Done {
    dynamic()?;
    let all: Vec<&str> = if loader {
        [&[LOADER], words].concat()
    } else {
        words.to_vec()
    };
    let mut command = Command::new(all[0]);
    command.args(&all[1..]);
    proves(command)
}

/// The loader goes on without what it cannot preload; the program looks for it in its own memory.
fn preloads(object: &str) -> Done {
    dynamic()?;
    let script = format!(
        "while read line; do case $line in *r-xp*{object}*) exit 42;; esac; done < /proc/self/maps; exit 9"
    );
    let status = Command::new("/tools/dynamic")
        .args(["-c", &script])
        .env("LD_PRELOAD", object)
        .stderr(Stdio::null())
        .status();
    match setup("run", status)?.code() {
        Some(PROOF) => Ok(()),
        Some(9) => Err(Failure::Refused("the loader went on without it".to_owned())),
        code => Err(broken(format!("the program ended with {code:?}"))),
    }
}

fn as_web(arguments: &[&str]) -> Done {
    let mut command = Command::new("/tools/web");
    command.arg("battery").args(arguments);
    match setup("run", command.stdin(Stdio::null()).status())?.code() {
        Some(PROOF) => Ok(()),
        Some(9) => Err(Failure::Refused("in the program".to_owned())),
        code => Err(broken(format!("the program ended with {code:?}"))),
    }
}

/// What `/tools/web` does: reads the denied file, itself or by a descendant; the exit code tells.
pub(super) fn reads(detached: bool, through: Option<&str>) -> Done {
    if detached {
        return raw::in_child(|| {
            setsid()?;
            raw::in_child(|| read("/etc/shadow"))
        });
    }
    let Some(through) = through else {
        return read("/etc/shadow");
    };
    let mut command = Command::new(through);
    command.args(["battery", "--reads"]);
    match setup("run", command.status())?.code() {
        Some(PROOF) => Ok(()),
        Some(9) => Err(Failure::Refused("there".to_owned())),
        code => Err(broken(format!("it ended with {code:?}"))),
    }
}

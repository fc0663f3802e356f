//! Operations that start programs: a shell has many ways in.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use super::{Failure, Operation};

/// The exit code that only our own shell command gives.
const PROOF: i32 = 42;
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

pub(super) const OPERATIONS: &[Operation] = &[
    Operation::attack("shell", "run /bin/sh", || {
        proves(Command::new("/bin/sh").args(["-c", "exit 42"]))
    }),
    Operation::attack("shell-relative", "run ./sh from /bin", || {
        proves(Command::new("./sh").args(["-c", "exit 42"]).current_dir("/bin"))
    }),
    Operation::attack("shell-script", "run a script that starts with #!/bin/sh", script),
    Operation::attack(
        "shell-symlink",
        "run bash through a link with another name",
        symlink,
    ),
    Operation::attack("shell-loader", "have the dynamic loader run dash", || {
        proves(Command::new(LOADER).args(["/usr/bin/dash", "-c", "exit 42"]))
    }),
    Operation::benign("run-program", "run a program and read its output", || {
        let output = Command::new("/usr/bin/id").arg("-u").output()?;
        if output.stdout == b"0\n" {
            Ok(())
        } else {
            Err(Failure::Broken("id printed something else".to_owned()))
        }
    }),
    Operation::benign(
        "run-dynamic",
        "have the dynamic loader list a program's libraries",
        || {
            let output = Command::new(LOADER)
                .args(["--list", "/usr/lib/x86_64-linux-gnu/libtinfo.so.6"])
                .output()?;
            if output.status.success() {
                Ok(())
            } else {
                Err(Failure::Broken("the loader failed".to_owned()))
            }
        },
    ),
];

fn proves(command: &mut Command) -> Result<(), Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(PROOF) => Ok(()),
        // The loader runs and is refused the program's code; it does not always say why.
        Some(126 | 127)
            if ["not permitted", "denied", "failed to map segment"]
                .iter()
                .any(|text| errors.contains(text)) =>
        {
            Err(Failure::Refused(errors))
        }
        _ => Err(Failure::Broken(format!("{}: {errors}", output.status))),
    }
}

fn script() -> Result<(), Failure> {
    let path = "/tmp/evil.sh";
    let write = || {
        fs::write(path, "#!/bin/sh\nexit 42\n")?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))
    };
    write().map_err(|error| Failure::Broken(format!("write {path}: {error}")))?;
    let result = proves(&mut Command::new(path));
    fs::remove_file(path).map_err(|error| Failure::Broken(format!("remove {path}: {error}")))?;
    result
}

fn symlink() -> Result<(), Failure> {
    let path = "/tmp/calculator";
    let broken = |error: std::io::Error| Failure::Broken(format!("link {path}: {error}"));
    if fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path).map_err(broken)?;
    }
    std::os::unix::fs::symlink("/usr/bin/bash", path).map_err(broken)?;
    let result = proves(Command::new(path).args(["-c", "exit 42"]));
    fs::remove_file(path).map_err(broken)?;
    result
}

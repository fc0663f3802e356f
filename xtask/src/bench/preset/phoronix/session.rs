//! Calls of the suite, one for each system: in namespaces without a network, where its settings hide the user's.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::{home, profile, read};
use crate::{
    bench::{
        composite::Composite,
        intake::Intake,
        kept::Kept,
        native::{self, PATH, Room},
        preset::{Scale, programs::suite::Suite},
        protocol::{Line, Plan},
        record::Folder,
        report::Report,
    },
    process, workspace,
};

/// As root the suite reads its settings in `/etc`, whatever its home is, and makes folders in `/var/cache` and `/usr/share`.
const CALL: &str = "home=$1
shift
mount -t proc none /proc
mount -t tmpfs none \"$home/etc\"
cp -a /etc/. \"$home/etc\"
cp \"$home/user-config.xml\" \"$home/etc/phoronix-test-suite.xml\"
mount --bind \"$home/etc\" /etc
mount -t tmpfs none /var/cache
if [ ! -d /usr/share/phoronix-test-suite ]; then
    mount --bind /usr/share /usr/share
    mount -o remount,bind,ro /usr/share
fi
exec \"$@\"
";
/// Of one call: a question that nobody answers is no reason to wait for ever.
const LIMIT: [&str; 3] = ["timeout", "--kill-after=10", "4h"];

/// The suite with our profiles installed.
pub(in crate::bench::preset) struct Session<'a> {
    program: &'a Path,
    room: &'a Room,
    suites: &'a [&'static Suite],
    scale: Scale,
    home: workspace::Scratch,
    /// What the suite has said and saved, in the folder of the run.
    records: PathBuf,
}

impl<'a> Session<'a> {
    pub(in crate::bench::preset) fn new(
        program: &'a Path,
        room: &'a Room,
        suites: &'a [&'static Suite],
        scale: Scale,
        folder: &Folder,
    ) -> Result<Self> {
        let session = Self {
            program,
            room,
            suites,
            scale,
            home: workspace::Scratch::new("bench-pts")?,
            records: folder.path().join("pts"),
        };
        workspace::make_dir(&session.records)?;
        home::write(session.home.path(), room.path(), suites, scale)?;
        session.call("install", "batch-install", &[])?;
        Ok(session)
    }

    /// Every system of the plan that this machine can bring about, in its order; of the others, what is in the way.
    pub(in crate::bench::preset) fn measure(&self, plan: &Plan, kept: &Kept) -> Result<Report> {
        if let Some(report) = kept.report(None)? {
            eprintln!("[bench pts: measured before]");
            return Ok(report);
        }
        let mut intake = Intake::new(None, Some(kept.begin()?));
        self.room.release().clone_into(&mut intake.report.release);
        let obstacles = self.room.obstacles(plan)?;
        let name = kept.name();
        let mut measured = Vec::new();
        for system in &plan.systems {
            if let Some(line) = obstacle(&obstacles, &system.name) {
                hear(&mut intake, &line)?;
                continue;
            }
            eprintln!("[bench pts: {}]", system.name);
            workspace::write_file(&self.home.path().join(home::SYSTEM), &system.name)?;
            let environment = [
                ("TEST_RESULTS_NAME", name.as_str()),
                ("TEST_RESULTS_IDENTIFIER", &system.name),
                ("TEST_RESULTS_DESCRIPTION", "varmor bench"),
            ];
            self.call(&name, "batch-run", &environment)?;
            measured.push(&system.name);
        }
        let composite = self.saved(&name)?;
        for system in measured {
            for line in read::lines(&composite, self.suites, self.scale, system) {
                hear(&mut intake, &line)?;
            }
        }
        intake.report.check()?;
        intake.end(true)
    }

    /// What the suite says goes into a file; that a test has failed, only its results tell.
    fn call(&self, log: &str, verb: &str, environment: &[(&str, &str)]) -> Result<()> {
        let path = self.log(log);
        let file = File::options()
            .append(true)
            .create(true)
            .open(&path)
            .with_context(|| format!("open {}", path.display()))?;
        let home = self.home.path();
        let mut command = self.room.enter(CALL);
        command
            .arg(home)
            .args(LIMIT)
            .arg(self.program)
            .arg(verb)
            .args(self.suites.iter().map(|suite| profile(suite)))
            .env("PATH", path_with(&env::var("PATH").unwrap_or_default()))
            .envs(env::var_os("PHP_BIN").map(|php| ("PHP_BIN", php)))
            .envs(home::environment(home))
            .envs(environment.iter().copied())
            .stdout(file.try_clone()?)
            .stderr(file);
        if let Some(folder) = self.program.parent() {
            command.current_dir(folder);
        }
        let status = command.status().context("run unshare (of util-linux)")?;
        native::leave_cgroup();
        if !status.success() {
            bail!(
                "{} {verb}: {status}: {}",
                self.program.display(),
                process::tail(&path, 5)
            );
        }
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.records.join(format!("{name}.log"))
    }

    /// The result file of that name, which stays in the folder of the run.
    fn saved(&self, name: &str) -> Result<Composite> {
        let file = self
            .home
            .path()
            .join(home::RESULTS)
            .join(name)
            .join("composite.xml");
        let text = fs::read_to_string(&file).with_context(|| {
            let said = process::tail(&self.log(name), 5);
            format!("read what the Phoronix Test Suite has saved; it said: {said}")
        })?;
        workspace::write_file(&self.records.join(format!("{name}.xml")), &text)?;
        Composite::read(&text).with_context(|| format!("understand {}", file.display()))
    }
}

fn hear(intake: &mut Intake, line: &Line) -> Result<()> {
    let text = serde_json::to_string(line)? + "\n";
    intake.hear(text.as_bytes());
    Ok(())
}

/// What the measuring program said when it was to bring the system about.
fn obstacle(obstacles: &Report, system: &str) -> Option<Line> {
    let mut problems = obstacles.problems().iter();
    let text = problems.find_map(|problem| problem.strip_prefix(system)?.strip_prefix(": "))?;
    Some(Line::Problem {
        system: system.to_owned(),
        operation: None,
        text: text.to_owned(),
    })
}

/// The user's, where PHP is found, and where `mount` and `chroot` are.
fn path_with(user: &str) -> String {
    if user.is_empty() {
        PATH.to_owned()
    } else {
        format!("{user}:{PATH}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obstacle_of_one_system_is_none_of_another() {
        let mut obstacles = Report::new(None);
        obstacles.take(Line::Problem {
            system: "EnhanceProtect-BPF".to_owned(),
            operation: None,
            text: "this kernel has no BPF LSM".to_owned(),
        });
        assert_eq!(
            obstacle(&obstacles, "EnhanceProtect-BPF"),
            Some(Line::Problem {
                system: "EnhanceProtect-BPF".to_owned(),
                operation: None,
                text: "this kernel has no BPF LSM".to_owned(),
            })
        );
        assert_eq!(obstacle(&obstacles, "EnhanceProtect"), None);
        assert_eq!(obstacle(&obstacles, "nothing"), None);
    }

    #[test]
    fn users_path_comes_first() {
        assert_eq!(path_with(""), PATH);
        assert_eq!(path_with("/opt/php/bin"), format!("/opt/php/bin:{PATH}"));
    }

    #[test]
    fn settings_that_root_would_read_are_those_of_the_home() {
        let copied = format!(
            "\"$home/{}\" \"$home/etc/phoronix-test-suite.xml\"",
            home::SETTINGS
        );
        assert!(CALL.contains(&copied));
    }
}

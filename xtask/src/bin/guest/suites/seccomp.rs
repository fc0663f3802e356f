//! The Seccomp enforcer under `varmor run`: a command is refused what the policy refuses, and nothing else.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};

use super::{Case, Verdict};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a_policy_for_seccomp_alone_refuses_its_call_and_no_other",
        run: one_filter,
    },
    Case {
        name: "the_filters_of_two_policies_hold_together",
        run: two_filters,
    },
    Case {
        name: "a_filter_that_refuses_filters_is_loaded_after_the_others",
        run: filters_that_refuse_filters,
    },
    Case {
        name: "a_list_without_exec_starts_nothing",
        run: no_exec,
    },
];

const VARMOR: &str = "/varmor";
const NO_SET_ID: &str = "{enforcer: Seccomp, mode: EnhanceProtect, enhanceProtect: {privileged: true, \
    attackProtectionRules: [{rules: [disable-chmod-s-bit]}]}}";
const NO_FOLDERS: &str = "{enforcer: Seccomp, mode: EnhanceProtect, enhanceProtect: {privileged: true, \
    syscallRawRules: [{names: [mkdir, mkdirat], action: SCMP_ACT_ERRNO, errnoRet: 13}]}}";
const NO_FILTERS: &str = "{enforcer: Seccomp, mode: EnhanceProtect, enhanceProtect: {privileged: true, \
    syscallRawRules: [{names: [seccomp], action: SCMP_ACT_ERRNO}]}}";
/// Everything that the shell's work below needs is allowed, executing is not.
const NO_EXEC: &str = "{enforcer: Seccomp, mode: DefenseInDepth, defenseInDepth: {seccomp: {profileType: Custom, \
    customProfile: '{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [{\"names\": [\"execve\", \"execveat\"], \
    \"action\": \"SCMP_ACT_ERRNO\"}]}'}}}";

/// A folder for one case.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("seccomp-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        fs::write(path.join("file"), "content")?;
        Ok(Self(path))
    }

    /// What becomes of a shell command under these policies, or free without any.
    fn shell(&self, policies: &[&str], text: &str) -> Result<Output> {
        let shell = ["/bin/sh", "-c", text];
        let mut command = if policies.is_empty() {
            Command::new(shell[0])
        } else {
            let documents = policies.iter().enumerate().map(|(number, policy)| {
                format!(
                    "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: p{number}}}\nspec:\n  \
                     target: {{kind: Pod, name: x}}\n  policy: {policy}\n"
                )
            });
            let file = self.0.join("policy.yaml");
            fs::write(&file, documents.collect::<Vec<_>>().join("---\n"))?;
            let mut run = Command::new(VARMOR);
            run.args(["run", "--policy"]).arg(file).args(["--", shell[0]]);
            run
        };
        command
            .args(&shell[1..])
            .current_dir(&self.0)
            .output()
            .context("start the command")
    }

    /// The commands work without the policies and under them.
    fn works(&self, policies: &[&str], text: &str) -> Result<()> {
        for policies in [&[], policies] {
            let output = self.shell(policies, text)?;
            ensure!(output.status.success(), "`{text}` under {policies:?}: {output:?}");
        }
        Ok(())
    }

    /// The command works without the policies and is refused with these words under them.
    fn is_refused(&self, policies: &[&str], text: &str, words: &str) -> Result<()> {
        let free = self.shell(&[], text)?;
        ensure!(free.status.success(), "`{text}` without a policy: {free:?}");
        let output = self.shell(policies, text)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            !output.status.success() && said.contains(words),
            "`{text}` under {policies:?}: {output:?}"
        );
        Ok(())
    }

    /// The `field` of `/proc/self/status` of a command under these policies.
    fn status(&self, policies: &[&str], field: &str) -> Result<String> {
        let output = self.shell(policies, "cat /proc/self/status")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(found
            .with_context(|| format!("no {field} in {output:?}"))?
            .trim()
            .to_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Best effort: the guest goes with it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn one_filter() -> Result<Verdict> {
    let folder = Folder::new()?;
    folder.is_refused(&[NO_SET_ID], "chmod 4755 file", "not permitted")?;
    // A process of a process, too.
    folder.is_refused(&[NO_SET_ID], "sh -c 'chmod 4755 file; exit $?'", "not permitted")?;
    folder.works(&[NO_SET_ID], "chmod 755 file")?;
    folder.works(&[NO_SET_ID], "rm -rf made && mkdir made")?;
    let loaded = |policies: &[&str]| -> Result<u32> {
        Ok(folder.status(policies, "Seccomp_filters")?.parse::<u32>()?)
    };
    let (free, under) = (loaded(&[])?, loaded(&[NO_SET_ID])?);
    ensure!(under == free + 1, "{free} filters became {under}");
    // Root can load filters without it, and set-user-id programs would not work any more.
    let privileges = folder.status(&[NO_SET_ID], "NoNewPrivs")?;
    ensure!(
        privileges == folder.status(&[], "NoNewPrivs")?,
        "no_new_privs became {privileges}"
    );
    let left = fs::read_dir("/run/varmor")
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("varmor-run-"));
    ensure!(!left, "a run left its folder behind");
    Ok(Verdict::Passed)
}

fn two_filters() -> Result<Verdict> {
    let folder = Folder::new()?;
    let both = [NO_SET_ID, NO_FOLDERS];
    folder.is_refused(&both, "chmod 4755 file", "not permitted")?;
    folder.is_refused(&both, "rm -rf made && mkdir made", "ermission denied")?;
    folder.works(&both, "chmod 755 file && rm -rf made")?;
    Ok(Verdict::Passed)
}

fn filters_that_refuse_filters() -> Result<Verdict> {
    let folder = Folder::new()?;
    // Whatever the order of the policies is.
    for policies in [[NO_FILTERS, NO_SET_ID], [NO_SET_ID, NO_FILTERS]] {
        folder.is_refused(&policies, "chmod 4755 file", "not permitted")?;
        folder.works(&policies, "chmod 755 file")?;
    }
    // The kernel takes no filter after the first of these, so the command does not run at all.
    let another = NO_FILTERS.replace("[seccomp]", "[seccomp, mkdir]");
    let output = folder.shell(&[NO_FILTERS, &another], "echo it runs")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        !output.status.success() && output.stdout.is_empty() && said.contains("load the filter"),
        "{output:?}"
    );
    Ok(Verdict::Passed)
}

fn no_exec() -> Result<Verdict> {
    let folder = Folder::new()?;
    let output = folder.shell(&[NO_EXEC], "echo it runs")?;
    ensure!(
        output.status.code() == Some(126) && output.stdout.is_empty(),
        "{output:?}"
    );
    Ok(Verdict::Passed)
}

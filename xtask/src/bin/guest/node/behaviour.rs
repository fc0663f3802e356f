//! A policy that records: what its container does becomes a model, also when the agent is killed in between.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    Scale,
    lab::{self, Claims, Node, POLICIES, SHADOW},
};
use crate::demo::survive::replace;

const APP: &str = "node-behaviour";
const PROFILE: &str = "varmor-cluster-varmor-node-behaviour";
const FOLDER: &str = "/var/lib/varmor/models";
/// Read after the agent was killed.
const SECOND: &str = "/etc/group";
/// Never read while it was recorded.
const NEVER: &str = "/etc/passwd";

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    let folder = Path::new(FOLDER).join(PROFILE);
    let policy = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: {APP}}}\nspec:\n  target: \
         {{kind: Pod, selector: {{matchLabels: {{app: {APP}}}}}}}\n  policy: {{enforcer: BPF, mode: BehaviorModeling, \
         modelingOptions: {{duration: 3}}}}\n"
    );
    replace(&PathBuf::from(POLICIES).join(format!("{APP}.yaml")), &policy)?;
    lab::wait("the policy is in the kernel", || {
        Ok(lab::profiles()?.iter().any(|profile| profile == PROFILE))
    })?;
    lab::sleeper(APP, APP)?;
    let before = lab::inside(APP, &["attack", SHADOW, "0"])?;
    lab::wait("what was done is on disk", || {
        contains(&folder.join("events.jsonl"), SHADOW)
    })?;
    // With SIGKILL.
    drop(node);
    let node = Node::again(scale)?;
    lab::inside(APP, &["attack", SECOND, "0"])?;
    let model = folder.join("model.yaml");
    ensure!(
        !model.exists(),
        "the recording was over before the container did anything again"
    );
    lab::wait("the time is over", || Ok(model.exists()))?;
    lab::wait("a policy whose recording is over is in force", || {
        Ok(lab::only_policy()?["enforced"] == "current")
    })?;
    let after = lab::inside(APP, &["attack", SHADOW, "0"])?;
    claims.claim(
        "a recorded container is refused nothing, and what it did before and after the agent was killed is in the model",
        (|| {
            for counts in [&before, &after] {
                ensure!(lab::number(counts, "/allowed")? > 0, "refused: {counts}");
            }
            for path in [SHADOW, SECOND] {
                ensure!(contains(&model, path)?, "the model has no {path}");
            }
            ensure!(contains(&model, "openat")?, "the model has no system calls");
            ensure!(!folder.join("events.jsonl").exists(), "the recording is still there");
            ensure!(node.agent.is_alive(), "the agent is dead");
            Ok(format!("{} bytes", fs::metadata(&model)?.len()))
        })(),
    );
    claims.claim(
        "a model serves a policy in the same folder",
        (|| {
            let policy = format!(
                "{}---\napiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: {APP}}}\nspec:\n  \
                 target: {{kind: Pod, selector: {{matchLabels: {{app: {APP}}}}}}}\n  policy: {{enforcer: BPF, mode: \
                 DefenseInDepth, defenseInDepth: {{bpf: {{profileType: BehaviorModel}}}}}}\n",
                fs::read_to_string(&model).context("read the model")?
            );
            replace(&PathBuf::from(POLICIES).join(format!("{APP}.yaml")), &policy)?;
            lab::wait("what was never done is refused", || {
                let counts = lab::inside(APP, &["attack", NEVER, "0"])?;
                Ok(lab::number(&counts, "/allowed")? == 0)
            })?;
            let counts = lab::inside(APP, &["attack", SHADOW, "0"])?;
            ensure!(lab::number(&counts, "/allowed")? > 0, "what was recorded is refused: {counts}");
            Ok(String::new())
        })(),
    );
    lab::remove(APP);
    Ok(())
}

fn contains(file: &Path, text: &str) -> Result<bool> {
    match fs::read_to_string(file) {
        Ok(content) => Ok(content.contains(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("read {}", file.display())),
    }
}

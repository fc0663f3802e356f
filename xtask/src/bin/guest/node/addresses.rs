//! A rule about the pod's own address: which one that is depends on the network of the container, and may change.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};

use super::{
    Scale,
    lab::{self, Claims, Node, POLICIES},
};
use crate::demo::survive::replace;

const APP: &str = "node-addresses";
/// Of the machine's network, in which the container is.
const FIRST: &str = "10.9.9.9";
const LATER: &str = "10.9.9.10";
/// Belongs to nobody here.
const FOREIGN: &str = "10.9.9.11";
const LOOPBACK: &str = "127.0.0.1";

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    add(FIRST)?;
    let _node = Node::start(scale)?;
    let policy = format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: {APP}}}\nspec:\n  target: \
         {{kind: Pod, selector: {{matchLabels: {{app: {APP}}}}}}}\n  policy:\n    enforcer: BPF\n    mode: EnhanceProtect\n    \
         enhanceProtect: {{bpfRawRules: {{network: {{egress: {{toDestinations: [{{qualifiers: [deny], ip: pod-self}}]}}}}}}}}\n"
    );
    replace(&PathBuf::from(POLICIES).join(format!("{APP}.yaml")), &policy)?;
    lab::wait("the policy is enforced", || {
        Ok(lab::profiles()?.iter().any(|profile| profile.ends_with(APP)))
    })?;
    lab::sleeper(APP, APP)?;
    claims.claim(
        "a rule about the pod's own address refuses that address, and no other",
        (|| {
            ensure!(is_refused(FIRST)?, "its own address is not refused");
            for other in [LATER, FOREIGN, LOOPBACK] {
                ensure!(!is_refused(other)?, "{other} is refused");
            }
            // Several addresses have a name of their own; the machine may have more than this one.
            let name = format!("{APP}@");
            let profiles = lab::profiles()?;
            ensure!(
                profiles.iter().any(|profile| profile.contains(&name)),
                "{profiles:?}"
            );
            Ok(String::new())
        })(),
    );
    claims.claim(
        "an address that comes later is the pod's own as well",
        (|| {
            add(LATER)?;
            lab::wait("the new address is refused", || is_refused(LATER))?;
            ensure!(is_refused(FIRST)?, "the first one is not refused any more");
            ensure!(!is_refused(FOREIGN)?, "{FOREIGN} is refused");
            Ok(String::new())
        })(),
    );
    lab::remove(APP);
    Ok(())
}

fn add(address: &str) -> Result<()> {
    let status = Command::new("ip")
        .args(["address", "replace", &format!("{address}/32"), "dev", "lo"])
        .status()
        .context("run ip")?;
    ensure!(status.success(), "ip address replace {address}: {status}");
    Ok(())
}

fn is_refused(address: &str) -> Result<bool> {
    let counts = lab::inside(APP, &["connect", address])?;
    Ok(lab::number(&counts, "/denied")? > 0)
}

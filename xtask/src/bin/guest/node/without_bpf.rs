//! A kernel that cannot run the BPF enforcer: its policies are refused with the reason, and nothing pretends otherwise.

use anyhow::{Result, ensure};

use super::{
    Scale,
    lab::{self, Claims, Node},
};

const APP: &str = "node-bpf";

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    lab::write(APP, "disable-access-shadow")?;
    let refused = || -> Result<String> {
        let mut message = String::new();
        lab::wait("the policy is refused", || {
            ensure!(node.agent.is_alive(), "the agent is dead: {}", Node::log()?);
            let object = lab::only_policy()?;
            object["message"]
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut message);
            Ok(object["enforced"] == "refused")
        })?;
        ensure!(message.contains("bpf"), "the reason is `{message}`");
        Ok(message)
    };
    claims.claim(
        "without BPF LSM a policy for it is refused with the reason",
        refused(),
    );
    Ok(())
}

//! From the behaviour of a workload to a policy that allows nothing else.

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::{
    super::service::until,
    example::{Example, LOADED, changed},
    session::Session,
};

const NAMESPACE: &str = "lab-recorded";
const WORKLOAD: &str = "deployment/recorded";
const POLICY: &str = "varmorpolicy/recorded";

pub(super) fn recorded_and_enforced(session: &Session) -> Result<()> {
    let example = Example::read("recorded", NAMESPACE)?;
    session.namespace(NAMESPACE)?;
    session.kubectl.apply(&example.policy)?;
    session.kubectl.apply(&example.others)?;
    session.ready(NAMESPACE, "app=recorded")?;
    let profile = until("the recording is complete", LOADED, || {
        // Whenever the node is ready to record it.
        session.works(NAMESPACE, WORKLOAD, &["cat", "/etc/hostname"])?;
        let Some(policy) = session.object(&[POLICY, "--namespace", NAMESPACE])? else {
            bail!("there is no {POLICY}");
        };
        let profile = policy["status"]["profileName"].as_str().unwrap_or_default();
        match policy["status"]["phase"].as_str() {
            Some("Completed") => {
                let said = policy["status"]["conditions"].to_string();
                ensure!(
                    said.contains("ArmorProfileModel"),
                    "it does not name the model: {said}"
                );
                Ok(Some(profile.to_owned()))
            }
            Some("Error") => bail!("{}", policy["status"]),
            _ => Ok(None),
        }
    })?;
    has_what_was_done(session, &profile)?;
    session.works(NAMESPACE, WORKLOAD, &["cat", "/etc/passwd"])?;

    let learned = json!({"spec": {"policy": {"mode": "DefenseInDepth", "modelingOptions": null,
        "defenseInDepth": {"bpf": {"profileType": "BehaviorModel"}}}}});
    changed(session, POLICY, NAMESPACE, &learned)?;
    session.works(NAMESPACE, WORKLOAD, &["cat", "/etc/hostname"])?;
    session.is_denied(NAMESPACE, WORKLOAD, &["cat", "/etc/passwd"])?;
    session.is_denied(NAMESPACE, WORKLOAD, &["cp", "/etc/hostname", "/etc/planted"])?;
    session.leave(NAMESPACE)
}

fn has_what_was_done(session: &Session, profile: &str) -> Result<()> {
    let name = format!("armorprofilemodel/{profile}");
    let Some(model) = session.object(&[&name, "--namespace", NAMESPACE])? else {
        bail!("there is no {name}");
    };
    let files = model["data"]["dynamicResult"]["bpf"]["files"].to_string();
    ensure!(
        files.contains("/etc/hostname"),
        "the model does not have it: {files}"
    );
    ensure!(
        !files.contains("/etc/passwd"),
        "the model has what nobody did: {files}"
    );
    let status = &model["status"];
    ensure!(status["ready"] == true, "the model is not ready: {status}");
    Ok(())
}

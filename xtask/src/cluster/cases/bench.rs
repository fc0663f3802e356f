//! Pods for measurements: each with a policy of its own or with none, all there at once.

use anyhow::{Result, bail, ensure};

use super::{
    chart, cluster, example,
    session::{IMAGE, Session},
};

/// Of the pods: policies have to name it.
pub(crate) const NAMESPACE: &str = "lab-bench";
const LABEL: &str = "role=bench";
/// In the lab's image.
const PROGRAM: &str = "/usr/bin/varmor-guest";

/// A pod of a measurement.
pub(crate) struct Pod {
    pub(crate) name: String,
    /// The policy whose target it is; it has the pod's name.
    pub(crate) policy: Option<String>,
    /// Its `AppArmor` profile comes from the policy. Without one, it has none.
    pub(crate) is_confined: bool,
}

/// Installs the chart where it is not there yet, and starts the pods, each once its policy is in force.
pub(crate) fn start(session: &Session, pods: &[Pod]) -> Result<()> {
    cluster::nodes_are_ready(session)?;
    let controller = ["deployment/varmor-manager", "--namespace", chart::NAMESPACE];
    if session.object(&controller)?.is_none() {
        chart::installs(session)?;
    }
    chart::is_ready(session)?;
    session.namespace(NAMESPACE)?;
    for policy in pods.iter().filter_map(|pod| pod.policy.as_deref()) {
        session.kubectl.apply(policy)?;
    }
    for pod in pods.iter().filter(|pod| pod.policy.is_some()) {
        example::in_force(session, &format!("varmorpolicy/{}", pod.name), NAMESPACE)?;
    }
    for pod in pods {
        session.kubectl.apply(&manifest(pod))?;
    }
    session.ready(NAMESPACE, LABEL)
}

/// Runs the measuring program in a pod and returns what it printed.
pub(crate) fn measure(session: &Session, pod: &str, words: &[&str]) -> Result<String> {
    let said = session.exec(NAMESPACE, pod, &[&[PROGRAM], words].concat())?;
    if !said.success {
        bail!("{pod}: {}", said.all());
    }
    Ok(said.output)
}

/// What holds a pod, from inside: the name of its `AppArmor` profile, and the mode of its seccomp filter.
pub(crate) fn proof(session: &Session, pod: &str) -> Result<String> {
    let profile = session.works(NAMESPACE, pod, &["cat", "/proc/self/attr/current"])?;
    let status = session.works(NAMESPACE, pod, &["cat", "/proc/self/status"])?;
    let seccomp = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))
        .map_or("?", str::trim);
    ensure!(!profile.trim().is_empty(), "{pod} tells no AppArmor profile");
    Ok(format!("AppArmor {}, seccomp mode {seccomp}", profile.trim()))
}

/// `uname -r` of the node.
pub(crate) fn release(session: &Session) -> Result<String> {
    let path = "jsonpath={.items[0].status.nodeInfo.kernelVersion}";
    session.kubectl.get(&["get", "nodes", "--output", path])
}

/// Removes the pods and their policies.
pub(crate) fn end(session: &Session) -> Result<()> {
    session.leave(NAMESPACE)
}

fn manifest(pod: &Pod) -> String {
    let name = &pod.name;
    let apparmor = if pod.is_confined {
        ""
    } else {
        "  securityContext: {appArmorProfile: {type: Unconfined}}\n"
    };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: {NAMESPACE}\n  labels: {{role: bench, app: {name}, \
         sandbox.varmor.org/enable: 'true'}}\nspec:\n  terminationGracePeriodSeconds: 0\n{apparmor}  containers:\n  - name: main\n    image: {IMAGE}\n    \
         imagePullPolicy: Never\n    command: [sleep, '1000000']\n"
    )
}

#[cfg(test)]
mod tests {
    use super::{Pod, manifest};

    #[test]
    fn only_pods_of_apparmor_policies_get_a_profile() {
        let pod = |is_confined| Pod {
            name: "enhance-bpf".to_owned(),
            policy: None,
            is_confined,
        };
        assert!(
            manifest(&pod(false)).contains("spec:\n  terminationGracePeriodSeconds: 0\n  securityContext: {")
        );
        assert!(!manifest(&pod(true)).contains("securityContext"));
    }
}

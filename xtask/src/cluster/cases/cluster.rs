//! The cluster itself: before anything of varmor is in it.

use anyhow::{Result, bail, ensure};

use super::{
    super::{lab::node_is_ready, service::until},
    session::{IMAGE, PATIENCE, Session},
};

const NAMESPACE: &str = "lab-plain";

pub(super) fn nodes_are_ready(session: &Session) -> Result<()> {
    for node in &session.nodes {
        until(&format!("{node} is Ready"), PATIENCE, || {
            node_is_ready(&session.kubectl, node).map(|ready| ready.then_some(()))
        })?;
    }
    Ok(())
}

pub(super) fn pod_runs(session: &Session) -> Result<()> {
    session.namespace(NAMESPACE)?;
    session
        .kubectl
        .apply(&pod("plain", "echo started; exec sleep 1000000"))?;
    session.ready(NAMESPACE, "app=plain")?;
    let said = session.works(NAMESPACE, "plain", &["id", "-u"])?;
    ensure!(said.trim() == "0", "`id -u` printed {said:?}");
    let log = session
        .kubectl
        .get(&["logs", "--namespace", NAMESPACE, "plain"])?;
    ensure!(log.trim() == "started", "the log of the pod is {log:?}");
    Ok(())
}

pub(super) fn service_is_reached(session: &Session) -> Result<()> {
    // A web server of the image: busybox has one.
    let server = pod(
        "server",
        "echo content > /tmp/page; exec busybox httpd -f -p 8080 -h /tmp",
    );
    session.kubectl.apply(&server)?;
    session.kubectl.apply(&format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: server, namespace: {NAMESPACE}}}\n\
         spec:\n  selector: {{app: server}}\n  ports: [{{port: 80, targetPort: 8080}}]\n"
    ))?;
    session.ready(NAMESPACE, "app=server")?;
    let url = format!("http://server.{NAMESPACE}.svc/page");
    until("the Service answers", PATIENCE, || {
        let said = session.exec(NAMESPACE, "plain", &["wget", "-q", "-O", "-", &url])?;
        if said.success && said.output.trim() == "content" {
            return Ok(Some(()));
        }
        bail!("{}", said.all())
    })?;
    let port = "exec 3<>/dev/tcp/kubernetes.default.svc/443 && echo open";
    let said = session.works(NAMESPACE, "plain", &["bash", "-c", port])?;
    ensure!(
        said.trim() == "open",
        "the API server is not reached from a pod: {said:?}"
    );
    session.leave(NAMESPACE)
}

/// A pod of the lab's image that runs a line of shell.
fn pod(name: &str, line: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {NAMESPACE}, labels: {{app: {name}}}}}\n\
         spec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  - name: main\n    image: {IMAGE}\n\
         \x20   imagePullPolicy: Never\n    command: [sh, -c, '{line}']\n"
    )
}

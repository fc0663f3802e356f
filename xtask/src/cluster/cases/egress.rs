//! Rules about Services, whose pods come and go.

use anyhow::{Result, bail, ensure};

use super::{
    super::service::until,
    example::Example,
    session::{IMAGE, PATIENCE, Session},
};

const NAMESPACE: &str = "lab-to-services";
const WHAT: &str = "deployment/to-services";

pub(super) fn to_services(session: &Session) -> Result<()> {
    let example = Example::read("to-services", NAMESPACE)?;
    example.apply(session)?;
    session.ready(NAMESPACE, "app=to-services")?;
    let cluster_ip = session.kubectl.get(&[
        "get",
        "service",
        "forbidden",
        "--namespace",
        NAMESPACE,
        "--output",
        "jsonpath={.spec.clusterIP}",
    ])?;
    let first = server(session, "first")?;
    let second = server(session, "second")?;
    // Only the first belongs to the Service.
    label(session, "first", "app=forbidden")?;
    refused(session, &first)?;
    refused(session, &cluster_ip)?;
    reached(session, &second)?;
    // Now only the second does.
    label(session, "second", "app=forbidden")?;
    label(session, "first", "app-")?;
    refused(session, &second)?;
    reached(session, &first)?;
    session
        .kubectl
        .get(&["delete", "service", "forbidden", "--namespace", NAMESPACE])?;
    reached(session, &second)?;
    session.leave(NAMESPACE)
}

/// Starts a web server and returns its address.
fn server(session: &Session, name: &str) -> Result<String> {
    session.kubectl.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {NAMESPACE}, labels: {{server: {name}}}}}\n\
         spec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  - name: main\n    image: {IMAGE}\n\
         \x20   imagePullPolicy: Never\n    command: [busybox, httpd, -f, -p, '8080']\n"
    ))?;
    session.ready(NAMESPACE, &format!("server={name}"))?;
    let address = session.kubectl.get(&[
        "get",
        "pod",
        name,
        "--namespace",
        NAMESPACE,
        "--output",
        "jsonpath={.status.podIP}",
    ])?;
    ensure!(!address.is_empty(), "the pod {name} has no address");
    Ok(address)
}

fn label(session: &Session, pod: &str, label: &str) -> Result<()> {
    session.kubectl.get(&[
        "label",
        "pod",
        pod,
        label,
        "--overwrite",
        "--namespace",
        NAMESPACE,
    ])?;
    Ok(())
}

fn connect(session: &Session, address: &str) -> Result<(bool, String)> {
    let port = if address.starts_with("10.96.") { 80 } else { 8080 };
    let line = format!("exec 3<>/dev/tcp/{address}/{port}");
    let said = session.exec(NAMESPACE, WHAT, &["busybox", "timeout", "5", "bash", "-c", &line]);
    said.map(|said| (said.success, said.all()))
}

fn refused(session: &Session, address: &str) -> Result<()> {
    until(&format!("a connection to {address} is refused"), PATIENCE, || {
        let (worked, said) = connect(session, address)?;
        let by_policy = said.contains("Operation not permitted") || said.contains("Permission denied");
        if worked || !by_policy {
            bail!("it worked: {worked}; {said}");
        }
        Ok(Some(()))
    })
}

fn reached(session: &Session, address: &str) -> Result<()> {
    until(&format!("a connection to {address} works"), PATIENCE, || {
        let (worked, said) = connect(session, address)?;
        if !worked {
            bail!("{said}");
        }
        Ok(Some(()))
    })
}

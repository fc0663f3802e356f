//! Rules about addresses that only a cluster knows: of Services, whose pods come and go, and of the pod itself.

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
    let place = (NAMESPACE, WHAT);
    refused(session, place, &first)?;
    refused(session, place, &cluster_ip)?;
    reached(session, place, &second)?;
    // Now only the second does.
    label(session, "second", "app=forbidden")?;
    label(session, "first", "app-")?;
    refused(session, place, &second)?;
    reached(session, place, &first)?;
    session
        .kubectl
        .get(&["delete", "service", "forbidden", "--namespace", NAMESPACE])?;
    reached(session, place, &second)?;
    session.leave(NAMESPACE)
}

pub(super) fn pod_self(session: &Session) -> Result<()> {
    const NAMESPACE: &str = "lab-pod-self";
    Example::read("pod-self", NAMESPACE)?.apply(session)?;
    session.ready(NAMESPACE, "app=pod-self")?;
    let pods = session.kubectl.get(&[
        "get",
        "pods",
        "--namespace",
        NAMESPACE,
        "--output",
        r#"jsonpath={range .items[*]}pod/{.metadata.name} {.status.podIP}{"\n"}{end}"#,
    ])?;
    let pods: Vec<(&str, &str)> = pods.lines().filter_map(|line| line.split_once(' ')).collect();
    let [(one, at_one), (other, at_other)] = pods[..] else {
        bail!("two pods with addresses were expected: {pods:?}");
    };
    for (pod, own, foreign) in [(one, at_one, at_other), (other, at_other, at_one)] {
        refused(session, (NAMESPACE, pod), own)?;
        reached(session, (NAMESPACE, pod), foreign)?;
        reached(session, (NAMESPACE, pod), "127.0.0.1")?;
    }
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

/// From a place (namespace and `kind/name`) to an address.
fn connect(session: &Session, (namespace, from): (&str, &str), address: &str) -> Result<(bool, String)> {
    let port = if address.starts_with("10.96.") { 80 } else { 8080 };
    let line = format!("exec 3<>/dev/tcp/{address}/{port}");
    let said = session.exec(namespace, from, &["busybox", "timeout", "5", "bash", "-c", &line]);
    said.map(|said| (said.success, said.all()))
}

fn refused(session: &Session, from: (&str, &str), address: &str) -> Result<()> {
    until(&format!("a connection to {address} is refused"), PATIENCE, || {
        let (worked, said) = connect(session, from, address)?;
        let by_policy = said.contains("Operation not permitted") || said.contains("Permission denied");
        if worked || !by_policy {
            bail!("it worked: {worked}; {said}");
        }
        Ok(Some(()))
    })
}

fn reached(session: &Session, from: (&str, &str), address: &str) -> Result<()> {
    until(&format!("a connection to {address} works"), PATIENCE, || {
        let (worked, said) = connect(session, from, address)?;
        if !worked {
            bail!("{said}");
        }
        Ok(Some(()))
    })
}

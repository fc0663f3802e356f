//! AppArmor and Seccomp, which a pod gets when it is made, alone and with BPF.

use anyhow::{Result, bail, ensure};

use super::{
    super::service::until,
    example::Example,
    session::{PATIENCE, Session},
    workloads::{is_free, is_protected},
};

const MAKE_EXECUTABLE: &[&str] = &["busybox", "chmod", "+x", "/tmp/copy"];

fn start(session: &Session, name: &str, namespace: &str, label: &str) -> Result<()> {
    Example::read(name, namespace)?.apply(session)?;
    session.ready(namespace, &format!("app={label}"))
}

pub(super) fn apparmor(session: &Session) -> Result<()> {
    let (namespace, what) = ("lab-apparmor", "deployment/deployment-apparmor");
    start(session, "deployment-apparmor", namespace, "deployment-apparmor")?;
    is_confined(session, namespace, what)?;
    is_protected(session, namespace, what)?;
    session.leave(namespace)
}

/// The kernel says so itself, and the profile is ours.
fn is_confined(session: &Session, namespace: &str, what: &str) -> Result<()> {
    let said = session.works(namespace, what, &["cat", "/proc/self/attr/current"])?;
    ensure!(
        said.starts_with("varmor-") && said.contains("(enforce)"),
        "{namespace}/{what} runs under {said:?}"
    );
    Ok(())
}

pub(super) fn seccomp(session: &Session) -> Result<()> {
    let (namespace, what) = ("lab-seccomp", "deployment/deployment-seccomp");
    start(session, "deployment-seccomp", namespace, "deployment-seccomp")?;
    session.works(namespace, what, &["cp", "/etc/group", "/tmp/copy"])?;
    session.is_denied(namespace, what, MAKE_EXECUTABLE)?;
    session.works(namespace, what, &["busybox", "chmod", "600", "/tmp/copy"])?;
    session.leave(namespace)
}

pub(super) fn all_three(session: &Session) -> Result<()> {
    let (namespace, what) = ("lab-all", "deployment/deployment-all");
    start(
        session,
        "deployment-apparmor-bpf-seccomp",
        namespace,
        "deployment-all",
    )?;
    is_confined(session, namespace, what)?;
    is_protected(session, namespace, what)?;
    session.is_denied(namespace, what, MAKE_EXECUTABLE)?;
    session.leave(namespace)
}

pub(super) fn update_existing(session: &Session) -> Result<()> {
    let (namespace, what) = ("lab-update", "deployment/update-existing");
    let example = Example::read("update-existing", namespace)?;
    session.namespace(namespace)?;
    session.kubectl.apply(&example.others)?;
    session.ready(namespace, "app=update-existing")?;
    is_free(session, namespace, what)?;
    session.kubectl.apply(&example.policy)?;
    example.in_force(session)?;
    until("the pods are replaced and confined", PATIENCE, || {
        session.rolled_out(namespace, what)?;
        is_confined(session, namespace, what).map(Some)
    })?;
    is_protected(session, namespace, what)?;
    // Without the policy the workload is as it was: no profile that is gone keeps a pod from starting.
    session.kubectl.get(&[
        "delete",
        "varmorpolicy/update-existing",
        "--namespace",
        namespace,
        "--timeout=120s",
    ])?;
    until("the pods are replaced and free", PATIENCE, || {
        session.rolled_out(namespace, what)?;
        let said = session.works(namespace, what, &["cat", "/proc/self/attr/current"])?;
        if said.starts_with("varmor-") {
            bail!("it runs under {said:?}");
        }
        is_free(session, namespace, what).map(Some)
    })?;
    session.leave(namespace)
}

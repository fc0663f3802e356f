//! etcd, the API server, the controller manager and the scheduler, on the loopback of this machine.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};

use super::{
    binaries::Binaries,
    credentials,
    kubectl::Kubectl,
    place::{self, Ports},
    relay::Relay,
    service::{Service, until},
};
use crate::{progress::Progress, workspace};

/// Addresses of Services.
const SERVICES: &str = "10.96.0.0/16";
/// Addresses of pods; each node has a part of it.
pub(super) const PODS: &str = "10.244.0.0/16";
const START: Duration = Duration::from_secs(90);

/// The processes, in the order in which they end: the last that started first.
pub(super) struct ControlPlane {
    services: Vec<Service>,
    _relay: Relay,
}

impl ControlPlane {
    pub(super) fn start(
        binaries: &Binaries,
        etcd: &Path,
        ports: &Ports,
        nodes: &[String],
        progress: &mut Progress,
    ) -> Result<Self> {
        progress.step("keys and tokens", || credentials::write(nodes))?;
        let mut plane = Self::with_store(etcd, ports)?;
        progress.step("API server", || {
            plane.start_api_server(binaries, ports, nodes, &[])
        })?;
        progress.step("controller manager and scheduler", || {
            let services = &mut plane.services;
            services.insert(
                0,
                Service::start(
                    "controller-manager",
                    &binaries.program("kube-controller-manager"),
                    &controller_manager_arguments(ports),
                )?,
            );
            services.insert(
                0,
                Service::start(
                    "scheduler",
                    &binaries.program("kube-scheduler"),
                    &scheduler_arguments(ports),
                )?,
            );
            let kubectl = Kubectl::admin(binaries);
            until("the account that pods run as", START, || {
                plane.check()?;
                let found = kubectl.run(&["get", "serviceaccount", "default", "--namespace", "default"])?;
                Ok(found.success.then_some(()))
            })
        })?;
        Ok(plane)
    }

    /// The API server and its store alone: whoever makes an object decides what becomes of it.
    pub(super) fn start_bare(binaries: &Binaries, etcd: &Path, ports: &Ports) -> Result<Self> {
        credentials::write(&[])?;
        let mut plane = Self::with_store(etcd, ports)?;
        // Nobody makes the accounts and tokens that this plugin asks for.
        let more = ["--disable-admission-plugins=ServiceAccount".to_owned()];
        plane.start_api_server(binaries, ports, &[], &more)?;
        Ok(plane)
    }

    fn with_store(etcd: &Path, ports: &Ports) -> Result<Self> {
        let relay = Relay::start(ports.door)?;
        Ok(Self {
            services: vec![Service::start("etcd", etcd, &etcd_arguments(ports))?],
            _relay: relay,
        })
    }

    /// An error if one of the processes is not there any more.
    pub(super) fn check(&mut self) -> Result<()> {
        self.services.iter_mut().try_for_each(Service::check)
    }

    fn start_api_server(
        &mut self,
        binaries: &Binaries,
        ports: &Ports,
        nodes: &[String],
        more: &[String],
    ) -> Result<()> {
        let selection = egress_selection(&place::socket());
        workspace::write_file(&place::data("egress.yaml"), selection)?;
        let program = binaries.program("kube-apiserver");
        self.services.insert(
            0,
            Service::start(
                "apiserver",
                &program,
                &[&api_server_arguments(ports), more].concat(),
            )?,
        );
        let certificate = place::data("certificates").join("apiserver.crt");
        until("the API server's certificate", START, || {
            self.check()?;
            Ok(certificate.is_file().then_some(()))
        })?;
        credentials::write_kubeconfigs(ports.api, nodes, &certificate)?;
        let kubectl = Kubectl::admin(binaries);
        until("the API server", START, || {
            self.check()?;
            let ready = kubectl.run(&["get", "--raw", "/readyz"])?;
            Ok(ready.success.then_some(()))
        })
        .context("the API server does not say that it is ready; see target/xtask/logs/cluster-apiserver.log")
    }
}

fn etcd_arguments(ports: &Ports) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    [
        format!("--data-dir={}", place::data("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ]
    .into()
}

fn api_server_arguments(ports: &Ports) -> Vec<String> {
    let secret = |name: &str| place::secrets().join(name).display().to_string();
    [
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.api),
        // Pods reach the API by the Service `kubernetes`, which leads here.
        format!("--advertise-address={}", place::HOST_IN_GUEST),
        format!("--cert-dir={}", place::data("certificates").display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", secret("service-account.pub")),
        format!(
            "--service-account-signing-key-file={}",
            secret("service-account.key")
        ),
        format!("--token-auth-file={}", secret("tokens.csv")),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--anonymous-auth=false".to_owned(),
        format!("--service-cluster-ip-range={SERVICES}"),
        "--allow-privileged=true".to_owned(),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!("--kubelet-client-certificate={}", secret("kubelet-client.crt")),
        format!("--kubelet-client-key={}", secret("kubelet-client.key")),
        format!(
            "--egress-selector-config-file={}",
            place::data("egress.yaml").display()
        ),
    ]
    .into()
}

/// The API server has no route to nodes, pods and Services: it asks at a socket, which leads to the first node's door.
fn egress_selection(socket: &Path) -> String {
    format!(
        "apiVersion: apiserver.k8s.io/v1beta1\n\
         kind: EgressSelectorConfiguration\n\
         egressSelections:\n\
         - name: cluster\n\
         \x20 connection:\n\
         \x20   proxyProtocol: HTTPConnect\n\
         \x20   transport:\n\
         \x20     uds:\n\
         \x20       udsName: {}\n",
        socket.display()
    )
}

fn controller_manager_arguments(ports: &Ports) -> Vec<String> {
    [
        format!(
            "--kubeconfig={}",
            place::kubeconfig("controller-manager").display()
        ),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.controller_manager),
        format!("--cert-dir={}", place::data("controller-manager").display()),
        format!(
            "--service-account-private-key-file={}",
            place::secrets().join("service-account.key").display()
        ),
        format!(
            "--root-ca-file={}",
            place::data("certificates").join("apiserver.crt").display()
        ),
        "--use-service-account-credentials=true".to_owned(),
        "--leader-elect=false".to_owned(),
        format!("--cluster-cidr={PODS}"),
        // A node that was turned off is noticed within the patience of a test.
        "--node-monitor-grace-period=30s".to_owned(),
    ]
    .into()
}

fn scheduler_arguments(ports: &Ports) -> Vec<String> {
    [
        format!("--kubeconfig={}", place::kubeconfig("scheduler").display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.scheduler),
        format!("--cert-dir={}", place::data("scheduler").display()),
        "--leader-elect=false".to_owned(),
    ]
    .into()
}

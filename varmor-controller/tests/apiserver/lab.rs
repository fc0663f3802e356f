//! A real API server on the loopback, with the controller beside it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use varmor_common::policy::{ArmorProfile, VarmorClusterPolicy, VarmorPolicy};
use varmor_controller::context::{Context, Settings};
use varmor_controller::metrics::Metrics;
use varmor_controller::{https, report, run};

/// On a machine that does a lot else.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Lab {
    pub(crate) client: Client,
    pub(crate) config: Config,
    pub(crate) reports: SocketAddr,
    controller: Vec<JoinHandle<()>>,
    apiserver: Option<Process>,
    _etcd: Process,
    binary: PathBuf,
    /// Of etcd and of the API server.
    ports: (u16, u16),
    folder: tempfile::TempDir,
}

/// Ends with the lab.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Lab {
    pub(crate) async fn start() -> Self {
        let variable = |name: &str| {
            let value = std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set"));
            PathBuf::from(value)
        };
        let (binaries, etcd) = (variable("VARMOR_KUBE_BIN"), variable("VARMOR_ETCD"));
        let folder = tempfile::tempdir().unwrap();
        let (store, peer, port) = (free_port(), free_port(), free_port());
        let etcd = start_etcd(&etcd, folder.path(), store, peer);
        let binary = binaries.join("kube-apiserver");
        let apiserver = start_apiserver(&binary, folder.path(), store, port);
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
        config.accept_invalid_certs = true;
        config.auth_info.token = Some("admin-token".to_owned().into());
        let client = Client::try_from(config.clone()).unwrap();
        let mut lab = Self {
            client,
            config,
            reports: ([127, 0, 0, 1], 0).into(),
            controller: Vec::new(),
            apiserver: Some(apiserver),
            _etcd: etcd,
            binary,
            ports: (store, port),
            folder,
        };
        lab.wait_for_apiserver().await;
        lab.install().await;
        lab.start_controller().await;
        lab
    }

    pub(crate) async fn start_controller(&mut self) {
        let settings = Settings {
            namespace: "varmor".to_owned(),
            pod_name: "manager-0".to_owned(),
            agent_service_account: "varmor-agent".to_owned(),
            agent_selector: "app=varmor-agent".to_owned(),
            match_label: "sandbox.varmor.org/enable=true".to_owned(),
            workers: 4,
        };
        let context = Context::new(self.client.clone(), settings, Arc::new(Metrics::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.reports = listener.local_addr().unwrap();
        let router = report::router(context.clone());
        self.controller = vec![
            tokio::spawn(async move { https::serve_plain_on(listener, router).await.unwrap() }),
            tokio::spawn(
                async move { panic!("the controller ended: {:?}", Box::pin(run::work(&context)).await) },
            ),
        ];
    }

    pub(crate) fn stop_apiserver(&mut self) {
        drop(self.apiserver.take());
    }

    /// The same server at the same place, with what its store has.
    pub(crate) async fn start_apiserver_again(&mut self) {
        let (store, port) = self.ports;
        self.apiserver = Some(start_apiserver(&self.binary, self.folder.path(), store, port));
        self.wait_for_apiserver().await;
    }

    pub(crate) async fn stop_controller(&mut self) {
        for task in std::mem::take(&mut self.controller) {
            task.abort();
            task.await.ok();
        }
    }

    pub(crate) fn api(&self, kind: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, kind),
            None => Api::all_with(self.client.clone(), kind),
        }
    }

    pub(crate) fn policies(&self, namespace: &str) -> Api<DynamicObject> {
        self.api(&policy(), Some(namespace))
    }

    pub(crate) fn profiles(&self, namespace: &str) -> Api<DynamicObject> {
        self.api(&ApiResource::erase::<ArmorProfile>(&()), Some(namespace))
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let kind = core("Namespace", "namespaces");
        self.create(&self.api(&kind, None), json!({"metadata": {"name": name}}))
            .await;
    }

    pub(crate) async fn create(&self, api: &Api<DynamicObject>, object: Value) -> DynamicObject {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    /// Creates an object that the API server refuses until it has taken in what changed.
    pub(crate) async fn create_in_time(&self, api: &Api<DynamicObject>, object: &DynamicObject) {
        let started = Instant::now();
        while let Err(error) = api.create(&PostParams::default(), object).await {
            assert!(started.elapsed() < PATIENCE, "not in time: {error}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub(crate) async fn merge(&self, api: &Api<DynamicObject>, name: &str, patch: Value) -> DynamicObject {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap()
    }

    pub(crate) async fn delete(&self, api: &Api<DynamicObject>, name: &str) {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until the object exists and is so.
    pub(crate) async fn until(
        &self,
        what: &str,
        api: &Api<DynamicObject>,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let started = Instant::now();
        loop {
            let found = api.get_opt(name).await.unwrap().map(|object| json!(object));
            match found {
                Some(object) if is_so(&object) => return object,
                found if started.elapsed() > PATIENCE => panic!("not in time: {what}; there is {found:#?}"),
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    pub(crate) async fn until_gone(&self, what: &str, api: &Api<DynamicObject>, name: &str) {
        let started = Instant::now();
        while let Some(found) = api.get_opt(name).await.unwrap() {
            assert!(
                started.elapsed() < PATIENCE,
                "not in time: {what}; there is {found:#?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn wait_for_apiserver(&self) {
        let started = Instant::now();
        let namespaces = self.api(&core("Namespace", "namespaces"), None);
        while let Err(error) = namespaces.get("kube-system").await {
            let log = std::fs::read_to_string(self.folder.path().join("apiserver.log")).unwrap_or_default();
            let end: Vec<&str> = log.lines().rev().take(5).collect();
            assert!(
                started.elapsed() < PATIENCE * 3,
                "the API server does not start: {error}; {end:#?}"
            );
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    async fn install(&self) {
        let folder = self.folder.path().join("crds");
        varmor_controller::crds::write(&folder).unwrap();
        let kind = crd();
        for file in std::fs::read_dir(&folder).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let object: Value = serde_saphyr::from_str(&text).unwrap();
            self.create(&self.api(&kind, None), object).await;
        }
        for name in ["varmor", "demo"] {
            self.namespace(name).await;
        }
        let started = Instant::now();
        for kind in [
            policy(),
            ApiResource::erase::<VarmorClusterPolicy>(&()),
            ApiResource::erase::<ArmorProfile>(&()),
        ] {
            while self
                .api(&kind, None)
                .list(&ListParams::default().limit(1))
                .await
                .is_err()
            {
                assert!(started.elapsed() < PATIENCE, "{} is not served", kind.kind);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

pub(crate) fn policy() -> ApiResource {
    ApiResource::erase::<VarmorPolicy>(&())
}

pub(crate) fn crd() -> ApiResource {
    named(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )
}

pub(crate) fn core(kind: &str, plural: &str) -> ApiResource {
    named("", "v1", kind, plural)
}

pub(crate) fn named(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&kube::core::GroupVersionKind::gvk(group, version, kind), plural)
}

/// A valid policy object of either kind.
pub(crate) fn object(kind: &str, name: &str, enforcer: &str) -> Value {
    json!({"apiVersion": "crd.varmor.org/v1beta1", "kind": kind, "metadata": {"name": name, "labels": {"team": "a"}},
        "spec": {"target": {"kind": "Deployment", "name": "web"}, "policy": {"enforcer": enforcer,
            "mode": "EnhanceProtect", "enhanceProtect": {"hardeningRules": ["disallow-mount"]}}}})
}

/// Status of a condition of a policy.
pub(crate) fn condition<'o>(object: &'o Value, kind: &str) -> (&'o str, &'o str, &'o str) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|one| one["type"] == kind);
    let text = |field: &str| found.and_then(|one| one[field].as_str()).unwrap_or_default();
    (text("status"), text("reason"), text("message"))
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn start_etcd(binary: &Path, folder: &Path, client: u16, peer: u16) -> Process {
    let (client, peer) = (
        format!("http://127.0.0.1:{client}"),
        format!("http://127.0.0.1:{peer}"),
    );
    let mut command = Command::new(binary);
    command
        .args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("default={peer}")])
        .arg("--data-dir")
        .arg(folder.join("etcd"));
    spawn(command, &folder.join("etcd.log"))
}

fn start_apiserver(binary: &Path, folder: &Path, etcd: u16, port: u16) -> Process {
    let (private, public) = (folder.join("key.pem"), folder.join("key.pub"));
    if !private.is_file() {
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&private, key.serialize_pem()).unwrap();
        std::fs::write(&public, key.public_key_pem()).unwrap();
    }
    let tokens = folder.join("tokens.csv");
    std::fs::write(&tokens, "admin-token,admin,admin,\"system:masters\"\n").unwrap();
    let with = |flag: &str, value: &Path| format!("--{flag}={}", value.display());
    let mut command = Command::new(binary);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
        .args([
            "--bind-address=127.0.0.1",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
        ])
        .arg(format!("--secure-port={port}"))
        .args([
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
        ])
        // No controller makes the accounts that it asks for.
        .arg("--disable-admission-plugins=ServiceAccount")
        .arg(with("service-account-key-file", &public))
        .arg(with("service-account-signing-key-file", &private))
        .arg(with("token-auth-file", &tokens))
        .arg(with("cert-dir", &folder.join("certificates")));
    spawn(command, &folder.join("apiserver.log"))
}

fn spawn(mut command: Command, log: &Path) -> Process {
    let file = std::fs::File::create(log).unwrap();
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file);
    let name = command.get_program().to_owned();
    Process(
        command
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", name.display())),
    )
}

//! A node: a guest with containerd, the kubelet, the service proxy and a name server.

use std::{
    fs::File,
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::{
    binaries::Binaries,
    place::{self, Ports},
};
use crate::{
    kernel::Series,
    process,
    vm::{Cable, Forward, Guest, Share},
    workspace,
};

/// Where a node's door listens.
const DOOR: u16 = 8132;
/// A cluster may be up for a working day.
const LIFE: Duration = Duration::from_hours(24);

/// What every node of a cluster is made of.
#[derive(Clone)]
pub(super) struct Recipe {
    pub(super) kernel: Series,
    /// How many nodes there are.
    pub(super) count: u8,
    pub(super) memory: u32,
    pub(super) ports: Ports,
    /// The lab's program inside guests.
    pub(super) guest_program: PathBuf,
    /// Archives of images that a node has from the start.
    pub(super) images: Vec<PathBuf>,
}

/// A guest that runs; it ends when the value is dropped, or with the lab.
pub(super) struct Node {
    name: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// The name of the node with this number; the first is 1.
pub(super) fn name(number: u8) -> String {
    format!("node-{number}")
}

impl Node {
    pub(super) fn start(recipe: &Recipe, binaries: &Binaries, number: u8) -> Result<Self> {
        let name = name(number);
        let mut guest = Guest::new(recipe.kernel, ["sh", "/cluster/run.sh"]);
        guest.rootfs = true;
        guest.memory = recipe.memory;
        guest.timeout = LIFE;
        if number == 1 {
            guest.forwards = vec![Forward {
                host: recipe.ports.door,
                guest: DOOR,
            }];
        }
        let [first, second] = recipe.ports.cable;
        let (own, peer) = if number == 1 {
            (first, second)
        } else {
            (second, first)
        };
        guest.cable = (recipe.count > 1).then_some(Cable { own, peer });
        guest.shares = shares(recipe, binaries, number)?;
        let stop = Arc::clone(&guest.stop);
        let log = workspace::log_file(&format!("cluster-{name}"));
        let mut output = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let thread = thread::Builder::new()
            .name(name.clone())
            .spawn(move || {
                let outcome = guest.run(&mut |bytes| {
                    // A full disk is no reason to end the node.
                    let _ = output.write_all(bytes);
                })?;
                bail!("its kubelet ended with exit code {}", outcome.code)
            })
            .context("start a thread for a node")?;
        Ok(Self {
            name,
            stop,
            thread: Some(thread),
        })
    }

    /// An error if it is not there any more.
    pub(super) fn check(&mut self) -> Result<()> {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        let log = workspace::log_file(&format!("cluster-{}", self.name));
        let why = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => format!("{error:#}"),
            _ => "its thread died".to_owned(),
        };
        bail!(
            "{} ended: {why}; the end of {}:\n{}",
            self.name,
            log.display(),
            process::tail(&log, 15)
        )
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The files of one node.
fn shares(recipe: &Recipe, binaries: &Binaries, number: u8) -> Result<Vec<Share>> {
    let name = name(number);
    let folder = place::data(&name);
    let single = recipe.count == 1;
    let address = if single {
        "10.0.2.15".to_owned()
    } else {
        format!("192.168.77.{number}")
    };
    let peer = 3 - number.min(2);
    let texts = [
        ("cluster/run.sh", include_str!("node/run.sh").to_owned()),
        (
            "cluster/settings",
            format!("NODE={name}\nADDRESS={address}\nPEER=192.168.77.{peer}\nPEER_PODS=10.244.{peer}.0/24\n"),
        ),
        (
            "cluster/kubelet.yaml",
            format!(
                "{}clusterDNS: [10.244.{number}.1]\n",
                include_str!("node/kubelet.yaml")
            ),
        ),
        ("cluster/proxy.yaml", include_str!("node/proxy.yaml").to_owned()),
        ("cluster/Corefile", include_str!("node/Corefile").to_owned()),
        ("cluster/resolv.conf", String::new()),
        (
            "etc/containerd/config.toml",
            include_str!("node/containerd.toml").to_owned(),
        ),
        (
            "etc/cni/net.d/10-lab.conflist",
            serde_json::to_string_pretty(&network(number)).context("print the network")?,
        ),
    ];
    let mut shares = Vec::new();
    for (path, text) in texts {
        let file = folder.join(path);
        workspace::write_file(&file, text)?;
        shares.push(Share::new(file, format!("/{path}")));
    }
    for program in ["kubelet", "kube-proxy", "coredns"] {
        shares.push(Share::new(
            binaries.program(program),
            format!("/cluster/bin/{program}"),
        ));
    }
    shares.push(Share::new(&recipe.guest_program, "/cluster/bin/varmor-guest"));
    for (user, path) in [
        (name.clone(), "kubelet"),
        (format!("dns-{name}"), "dns"),
        ("proxy".to_owned(), "proxy"),
    ] {
        shares.push(Share::new(
            place::kubeconfig(&user),
            format!("/cluster/{path}.kubeconfig"),
        ));
    }
    shares.push(Share::new(place::secrets().join("ca.crt"), "/cluster/ca.crt"));
    for image in &recipe.images {
        let file = image
            .file_name()
            .context("an image has no name")?
            .to_string_lossy();
        shares.push(Share::new(image, format!("/cluster/images/{file}")));
    }
    Ok(shares)
}

/// The network of pods: a bridge of this node, and the way out by the node's own address.
fn network(number: u8) -> serde_json::Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "lab",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": format!("10.244.{number}.0/24") }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    })
}

//! A whole cluster: it exists as long as the value does.

use std::{thread, time::Duration};

use anyhow::{Context, Result};

use super::{
    binaries::{self, Binaries},
    control_plane::ControlPlane,
    etcd,
    kubectl::Kubectl,
    node::{self, Node, Recipe},
    place::{self, Ports, Process, State},
    service::until,
};
use crate::{
    build::{self, Profile},
    image, images,
    kernel::Series,
    progress::Progress,
    tools, workspace,
};

/// A guest boots, imports its images and starts its first pods with an emulated processor.
const NODE_READY: Duration = Duration::from_mins(6);

/// What a cluster is asked to be.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Options {
    /// Nodes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(super) nodes: u8,
    /// The kernel of the nodes
    #[arg(long, default_value = "6.12")]
    pub(super) kernel: Series,
    /// Memory of each node in MiB
    #[arg(long, default_value_t = 4096)]
    pub(super) mem: u32,
    /// What is in the images.
    #[arg(skip = Profile::Release)]
    profile: Profile,
}

impl Options {
    /// The cluster as it is by default, with what the suites run in guests: nothing is compiled for it alone.
    pub(super) fn of_suite() -> Self {
        Self {
            profile: Profile::Lab,
            ..Self::default()
        }
    }

    pub(crate) fn kernel_name(self) -> &'static str {
        self.kernel.name()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
            kernel: Series::V6_12,
            mem: 4096,
            profile: Profile::Release,
        }
    }
}

/// Programs and images that a cluster is made of.
pub(super) struct Parts {
    pub(super) binaries: Binaries,
    etcd: std::path::PathBuf,
    guest_program: std::path::PathBuf,
    images: Vec<std::path::PathBuf>,
}

/// Builds and fetches what a cluster needs.
pub(super) fn prepare(options: Options) -> Result<Parts> {
    for group in [
        tools::PROGRAMS,
        tools::GUEST,
        tools::CONTAINER_GUEST,
        tools::CLUSTER,
    ] {
        tools::need(group)?;
    }
    let mut progress = Progress::new("parts of the cluster", 4);
    let binaries = progress.step("programs of Kubernetes", binaries::ready)?;
    let etcd = progress.step("etcd", etcd::ready)?;
    let built = progress.step("programs of varmor", || build::build(options.profile))?;
    let guest_program = built.program("varmor-guest");
    let images = progress.step("images", || {
        let demo = place::folder().join("images/demo.tar");
        image::write(&demo, &guest_program)?;
        let mut all = images::write(&built)?;
        all.push(images::pause(&guest_program)?);
        all.push(demo);
        Ok(all)
    })?;
    progress.finish();
    Ok(Parts {
        binaries,
        etcd,
        guest_program,
        images,
    })
}

/// Everything that runs. Nodes end before the processes that they talk to.
pub(super) struct Lab {
    nodes: Vec<Node>,
    control: ControlPlane,
    recipe: Recipe,
    binaries: Binaries,
}

impl Lab {
    /// Starts a cluster and waits until its nodes are ready.
    pub(super) fn start(options: Options, made_of: Parts) -> Result<Self> {
        place::clear()?;
        let ports = Ports::free()?;
        let recipe = Recipe {
            kernel: options.kernel,
            count: options.nodes,
            memory: options.mem,
            ports,
            guest_program: made_of.guest_program,
            images: made_of.images,
        };
        let names: Vec<String> = (1..=options.nodes).map(node::name).collect();
        let mut progress = Progress::new("cluster", 4 + 2 * names.len());
        workspace::make_dir(&place::data(""))?;
        let control = ControlPlane::start(&made_of.binaries, &made_of.etcd, &ports, &names, &mut progress)?;
        let mut lab = Self {
            nodes: Vec::new(),
            control,
            recipe,
            binaries: made_of.binaries,
        };
        for number in 1..=options.nodes {
            let name = node::name(number);
            progress.step(&format!("start {name} with kernel {}", options.kernel), || {
                lab.nodes.push(Node::start(&lab.recipe, &lab.binaries, number)?);
                Ok(())
            })?;
        }
        for name in &names {
            progress.step(&format!("{name} is Ready"), || lab.wait_for(name))?;
        }
        progress.step("write down that it runs", || {
            State {
                holder: Process::own()?,
                ports,
                nodes: names.clone(),
            }
            .write()
        })?;
        progress.finish();
        Ok(lab)
    }

    /// Looks after the cluster for ever: an end of any part is an error.
    pub(super) fn hold(&mut self) -> Result<()> {
        loop {
            self.look()?;
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Looks once: at what should run, and whether somebody wants a node turned off and on.
    pub(super) fn look(&mut self) -> Result<()> {
        self.control.check()?;
        for index in 0..self.nodes.len() {
            let request = place::reboot_request(self.nodes[index].name());
            if request.exists() {
                let number = u8::try_from(index + 1).context("count the nodes")?;
                // Two guests cannot share the ports, so the old one ends first.
                drop(self.nodes.remove(index));
                self.nodes
                    .insert(index, Node::start(&self.recipe, &self.binaries, number)?);
                std::fs::remove_file(&request).with_context(|| format!("remove {}", request.display()))?;
            }
            self.nodes[index].check()?;
        }
        Ok(())
    }

    fn wait_for(&mut self, name: &str) -> Result<()> {
        let kubectl = Kubectl::admin(&self.binaries);
        until(&format!("{name} is Ready"), NODE_READY, || {
            self.look()?;
            node_is_ready(&kubectl, name).map(|ready| ready.then_some(()))
        })
    }
}

/// Whether the API server holds this node to be ready.
pub(super) fn node_is_ready(kubectl: &Kubectl, name: &str) -> Result<bool> {
    let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let said = kubectl.run(&["get", "node", name, "--output", path])?;
    Ok(said.success && said.output == "True")
}

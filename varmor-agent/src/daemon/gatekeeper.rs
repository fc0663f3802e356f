//! Beside the agent in its pod, for when the agent cannot do it itself: lets the pod's successor start.
//!
//! An agent that is told to end opens the start gate. One that has crashed before cannot, and if its pod is replaced then,
//! the new pod waits at a gate that only it could open. Whoever replaces the pod tells all of its containers to end, and
//! this one does nothing else, so it is there.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use super::Options;
use crate::enforcer::bpf;

/// Waits for the signal to end.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        info!("the gatekeeper waits for the end of its pod");
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok::<(), anyhow::Error>(()),
        }
    })?;
    let gates = bpf::let_starts_run(&options.bpffs).context("open the start gate")?;
    info!(
        gates,
        "containers that start without an agent run from now on, until an agent is back"
    );
    Ok(())
}

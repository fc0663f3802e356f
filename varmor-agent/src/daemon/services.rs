//! What answers and sends beside the worker, each on a thread of its own: the worker never waits for it, and it
//! still answers when the worker does not.

use std::io;
use std::sync::Arc;
use std::task::{self, Poll};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tracing::{debug, error};

const STACK: usize = 256 << 10;
/// Without descriptors every attempt fails; others close theirs meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs this until it ends or the process does.
pub(super) fn spawn<F>(name: &'static str, work: F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .with_context(|| format!("start the runtime of {name}"))?;
    let run = move || {
        if let Err(error) = runtime.block_on(work) {
            error!(service = name, error = format!("{error:#}"), "service ended");
        }
    };
    thread::Builder::new()
        .name(name.to_owned())
        .stack_size(STACK)
        .spawn(run)
        .with_context(|| format!("start the thread of {name}"))?;
    Ok(())
}

/// The next connection, when there is room for one; the room is taken until the permit is dropped.
pub(super) async fn accept<S>(
    room: &Arc<Semaphore>,
    name: &'static str,
    mut poll: impl FnMut(&mut task::Context<'_>) -> Poll<io::Result<S>>,
) -> anyhow::Result<(S, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room)
        .acquire_owned()
        .await
        .context("wait for a free connection")?;
    loop {
        match std::future::poll_fn(&mut poll).await {
            Ok(stream) => return Ok((stream, permit)),
            Err(error) => {
                debug!(%error, service = name, "connection");
                sleep(PAUSE).await;
            }
        }
    }
}

//! What answers and sends beside the worker, each on a thread of its own: the worker never waits for it, and it
//! still answers when the worker does not.

use std::thread;

use anyhow::Context as _;
use tracing::error;

const STACK: usize = 256 << 10;

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

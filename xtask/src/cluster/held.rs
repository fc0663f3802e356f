//! Work in a cluster: in the one that is up, or in one that starts and ends with the work.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Result, anyhow};

use super::{
    cases::Session,
    kubectl::Kubectl,
    lab::{self, Lab, Options},
    node, place,
};

/// What came of the work. The flag becomes true when a part of the cluster has ended; then the second value is true too.
pub(crate) fn within<T: Send>(
    options: Options,
    work: impl FnOnce(&Session, &AtomicBool) -> T + Send,
) -> Result<(T, bool)> {
    let parts = lab::prepare(options)?;
    let kubectl = Kubectl::admin(&parts.binaries);
    let broken = AtomicBool::new(false);
    if let Some(state) = place::running() {
        eprintln!("[the cluster that is up is used: {}]", state.nodes.join(" and "));
        return Ok((work(&Session::new(kubectl, state.nodes), &broken), false));
    }
    let names = (1..=options.nodes).map(node::name).collect();
    let session = Session::new(kubectl, names);
    let mut lab = Lab::start(options, parts)?;
    let done = thread::scope(|scope| {
        let worker = scope.spawn(|| work(&session, &broken));
        // This thread has started the processes, and they end with it: so it waits, and looks after them.
        while !worker.is_finished() {
            if let Err(error) = lab.look() {
                eprintln!("FAILED: the cluster: {error:#}");
                broken.store(true, Ordering::Relaxed);
                break;
            }
            thread::sleep(Duration::from_millis(200));
        }
        worker
            .join()
            .map_err(|_| anyhow!("the work in the cluster panicked"))
    })?;
    Ok((done, broken.into_inner()))
}

//! Says when a folder should be read again, and which of its files nobody writes any more.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use inotify::{EventMask, Inotify, WatchMask};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::warn;

/// Reading again without an event: a link target outside of the folder, a folder that was replaced.
pub(super) const RESCAN: Duration = Duration::from_secs(2);

/// Files that were closed by their writer or moved here complete, since somebody asked last.
#[derive(Clone, Debug, Default)]
pub(super) struct Finished(Arc<Mutex<BTreeSet<OsString>>>);

impl Finished {
    pub(super) fn take(&self) -> BTreeSet<OsString> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// False if the event only says that a file is still being written.
    pub(super) fn follow(&self, mask: EventMask, name: Option<&OsStr>) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(name) = name else { return true };
        if mask.intersects(EventMask::CLOSE_WRITE | EventMask::MOVED_TO) {
            names.insert(name.to_owned());
        } else {
            names.remove(name);
        }
        !mask.contains(EventMask::MODIFY)
    }
}

pub(super) async fn watch(path: PathBuf, rescan: mpsc::Sender<()>, finished: Finished) {
    let mut reported = false;
    while rescan.send(()).await.is_ok() {
        match watch_once(&path, &rescan, &finished).await {
            Ok(()) => reported = false,
            Err(error) => {
                if !reported {
                    warn!(path = %path.display(), %error, "policy folder is not watched, only read every two seconds");
                    reported = true;
                }
                sleep(RESCAN).await;
            }
        }
    }
}

/// Returns when the watch has to be set up anew.
async fn watch_once(path: &Path, rescan: &mpsc::Sender<()>, finished: &Finished) -> io::Result<()> {
    let inode = fs::metadata(path)?.ino();
    let inotify = Inotify::init()?;
    inotify.watches().add(
        path,
        WatchMask::CLOSE_WRITE
            | WatchMask::MODIFY
            | WatchMask::CREATE
            | WatchMask::MOVE
            | WatchMask::DELETE
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ATTRIB,
    )?;
    // The time between the last scan and the watch.
    if rescan.send(()).await.is_err() {
        return Ok(());
    }
    let mut events = pin!(inotify.into_event_stream([0; 4096])?);
    loop {
        if let Ok(event) = timeout(RESCAN, events.next()).await {
            let Some(event) = event.transpose()? else {
                return Ok(());
            };
            if !finished.follow(event.mask, event.name.as_deref()) {
                continue;
            }
        }
        if rescan.send(()).await.is_err() {
            return Ok(());
        }
        if fs::metadata(path)?.ino() != inode {
            return Ok(());
        }
    }
}

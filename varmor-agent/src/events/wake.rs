//! Wakes an asynchronous task when the kernel's ring has events.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;
use tracing::error;

/// Between two looks at the ring, so that a flood costs a batch and not a wake-up each.
const BATCH: Duration = Duration::from_millis(5);
/// How soon the thread notices that nobody listens any more.
const PATIENCE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
const STACK: usize = 64 << 10;

/// Sends a message whenever the descriptor is readable. A thread of its own waits: registering a foreign
/// descriptor with the runtime is not possible in safe code.
pub fn wake_on(fd: OwnedFd) -> io::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel(1);
    thread::Builder::new()
        .name("events".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            while !sender.is_closed() {
                match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&PATIENCE)) {
                    // The message waits in the channel until the listener has time for it.
                    Ok(ready) if ready > 0 => {
                        if sender.blocking_send(()).is_err() {
                            return;
                        }
                        thread::sleep(BATCH);
                    }
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => {
                        error!(%error, "the ring of events cannot be waited for; it is read once a second");
                        return;
                    }
                }
            }
        })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn readable_descriptor_wakes_the_listener() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut wake = wake_on(reader.into()).unwrap();
        assert!(
            timeout(Duration::from_millis(100), wake.recv()).await.is_err(),
            "nothing to read yet"
        );
        writer.write_all(b"x").unwrap();
        timeout(Duration::from_secs(5), wake.recv())
            .await
            .unwrap()
            .unwrap();
    }
}

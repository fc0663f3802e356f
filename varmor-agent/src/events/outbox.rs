//! Lines on their way to an output that may be slow or dead: nobody ever waits for it.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;

/// Lines that wait for the output; beyond it they are lost, and counted.
const WAITING: usize = 4096;
/// How long the end of the agent waits for an output.
const PATIENCE: Duration = Duration::from_secs(1);
const STACK: usize = 64 << 10;

/// The near side: takes lines and returns at once.
pub struct Outbox {
    name: &'static str,
    sender: mpsc::Sender<Arc<str>>,
    lost: Arc<AtomicU64>,
    done: std::sync::mpsc::Receiver<()>,
}

/// The far side, to be emptied by whoever writes.
pub struct Inbox {
    pub lines: mpsc::Receiver<Arc<str>>,
    lost: Arc<AtomicU64>,
    /// Dropped when everything is written.
    _done: std::sync::mpsc::Sender<()>,
}

impl Outbox {
    #[must_use]
    pub fn new(name: &'static str) -> (Self, Inbox) {
        let (sender, lines) = mpsc::channel(WAITING);
        let (done_sender, done) = std::sync::mpsc::channel();
        let lost = Arc::new(AtomicU64::new(0));
        let outbox = Self {
            name,
            sender,
            lost: Arc::clone(&lost),
            done,
        };
        let inbox = Inbox {
            lines,
            lost,
            _done: done_sender,
        };
        (outbox, inbox)
    }

    pub fn offer(&self, line: &str) {
        if self.sender.try_send(Arc::from(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Lines that are not in this output.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// No more lines come; waits a moment for those that are on their way.
    pub fn close(self) {
        drop(self.sender);
        let end = self.done.recv_timeout(PATIENCE);
        if end == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                output = self.name,
                "violations that waited for this output are lost"
            );
        }
    }
}

impl Inbox {
    /// Counts lines that could not be written.
    pub fn lose(&self, lines: usize) {
        self.lost.fetch_add(lines as u64, Ordering::Relaxed);
    }
}

/// An output that writes to standard output, by a thread of its own: a full pipe holds nobody else.
pub fn standard_output() -> io::Result<Outbox> {
    let (outbox, inbox) = Outbox::new("stdout");
    thread::Builder::new()
        .name("stdout".to_owned())
        .stack_size(STACK)
        .spawn(move || write_lines(inbox, io::stdout()))?;
    Ok(outbox)
}

fn write_lines(mut inbox: Inbox, mut to: impl Write) {
    while let Some(line) = inbox.lines.blocking_recv() {
        let outcome = to
            .write_all(line.as_bytes())
            .and_then(|()| to.write_all(b"\n"))
            .and_then(|()| to.flush());
        if outcome.is_err() {
            inbox.lose(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_before_the_end() {
        let (outbox, inbox) = Outbox::new("test");
        let text = Shared::default();
        let to = text.clone();
        let writer = thread::spawn(move || write_lines(inbox, to));
        outbox.offer("one");
        outbox.offer("two");
        outbox.close();
        assert_eq!(*text.0.lock().unwrap(), b"one\ntwo\n");
        writer.join().unwrap();
    }

    #[test]
    fn nobody_waits_for_an_output_and_losses_are_counted() {
        let (outbox, inbox) = Outbox::new("test");
        for _ in 0..WAITING + 7 {
            outbox.offer("line");
        }
        assert_eq!(outbox.lost(), 7);
        drop(inbox);
        outbox.offer("line");
        assert_eq!(outbox.lost(), 8);
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let (outbox, inbox) = Outbox::new("test");
        outbox.offer("one");
        let lost = Arc::clone(&outbox.lost);
        drop(outbox);
        write_lines(inbox, std::fs::File::open("/dev/null").unwrap());
        assert_eq!(lost.load(Ordering::Relaxed), 1);
    }
}

//! Passes what the API server says at a socket of this machine on to the door of the first node.

use std::{
    fs, io,
    net::{Shutdown, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    thread,
};

use anyhow::{Context, Result};

use super::place;

/// The socket; it is removed when the value is dropped.
pub(super) struct Relay {
    socket: PathBuf,
}

impl Relay {
    pub(super) fn start(door: u16) -> Result<Self> {
        let socket = place::socket();
        // Left by a process that had the same number and was killed.
        let _ = fs::remove_file(&socket);
        let listener =
            UnixListener::bind(&socket).with_context(|| format!("listen at {}", socket.display()))?;
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                thread::spawn(move || {
                    // The API server is told by the closed connection, and asks again.
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", door)) {
                        let _ = join(client, server);
                    }
                });
            }
        });
        Ok(Self { socket })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn join(client: UnixStream, server: TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    let there = thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (server, client);
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = there.join();
    Ok(())
}

//! What systemd is told about a service: that it is ready, that it is alive. Without systemd nobody is told.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tracing::debug;

/// Between two signs of life; the unit allows for many of them to be late.
pub(super) const WATCHDOG: Duration = Duration::from_secs(10);

/// Says this, if systemd started the agent.
pub(super) fn send(message: &str) {
    let Some(place) = env::var_os("NOTIFY_SOCKET").filter(|place| !place.is_empty()) else {
        return;
    };
    if let Err(error) = send_to(&place, message) {
        debug!(%error, message, "systemd cannot be told");
    }
}

fn send_to(place: &OsStr, message: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // The worker waits for nobody.
    socket.set_nonblocking(true)?;
    let address = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_at_a_path_and_at_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("@varmor-test-{}", std::process::id());
        let by_name = SocketAddr::from_abstract_name(&name.as_bytes()[1..]).unwrap();
        for (socket, place) in [
            (UnixDatagram::bind(&path).unwrap(), path.as_os_str()),
            (UnixDatagram::bind_addr(&by_name).unwrap(), OsStr::new(&name)),
        ] {
            send_to(place, "READY=1").unwrap();
            let mut bytes = [0; 16];
            let length = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], b"READY=1");
        }
        assert!(send_to(OsStr::new("/nonexistent/notify"), "x").is_err());
    }
}

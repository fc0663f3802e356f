//! Operations on the network: the cloud's metadata service under its names.

use std::{
    net::{SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

use super::{Failure, Operation};

const TIMEOUT: Duration = Duration::from_secs(3);

pub(super) const OPERATIONS: &[Operation] = &[
    Operation::attack("metadata", "connect to 169.254.169.254", || {
        connect("169.254.169.254:80")
    }),
    Operation::attack("metadata-mapped", "connect to ::ffff:169.254.169.254", || {
        connect("[::ffff:169.254.169.254]:80")
    }),
    Operation::attack("metadata-udp", "send a datagram there without connecting", || {
        UdpSocket::bind("0.0.0.0:0")?.send_to(b"x", "169.254.169.254:53")?;
        Ok(())
    }),
    Operation::benign("connect-other", "connect to another service", || {
        connect("127.0.0.1:8080")
    }),
    Operation::benign("connect-other-v6", "the same over IPv6", || {
        connect("[::ffff:127.0.0.1]:8080")
    }),
];

fn connect(address: &str) -> Result<(), Failure> {
    let address: SocketAddr = address
        .parse()
        .map_err(|error| Failure::Broken(format!("{address}: {error}")))?;
    TcpStream::connect_timeout(&address, TIMEOUT)?;
    Ok(())
}

//! A door into a guest: connects whoever asks with `CONNECT host:port` (RFC 9110), as the API server of a cluster does that
//! has no route to its nodes, pods and services.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::ExitCode,
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

/// A request has no body, and its headers are few.
const LONGEST_REQUEST: usize = 8192;
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where requests arrive
    #[arg(long, value_name = "HOST:PORT")]
    listen: SocketAddr,
}

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    let listener = TcpListener::bind(args.listen).with_context(|| format!("listen at {}", args.listen))?;
    for client in listener.incoming() {
        // A client that went away while it was accepted is no reason to leave the others alone.
        let Ok(client) = client else { continue };
        thread::spawn(move || {
            if let Err(error) = serve(client) {
                eprintln!("proxy: {error:#}");
            }
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(mut client: TcpStream) -> Result<()> {
    client
        .set_read_timeout(Some(PATIENCE))
        .context("limit the time of a request")?;
    let (request, rest) = read_request(&mut client)?;
    let Some(place) = destination(&request) else {
        return client
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .context("refuse a request");
    };
    let server = match TcpStream::connect(place) {
        Ok(server) => server,
        Err(error) => {
            let _ = client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
            return Err(error).with_context(|| format!("connect to {place}"));
        }
    };
    client.set_read_timeout(None).context("lift the limit of time")?;
    client
        .write_all(b"HTTP/1.1 200 OK\r\n\r\n")
        .and_then(|()| (&server).write_all(&rest))
        .context("answer a request")?;
    let (from, to) = (
        client.try_clone().context("share a connection")?,
        server.try_clone().context("share a connection")?,
    );
    let there = thread::spawn(move || pass(&from, &to));
    pass(&server, &client);
    let _ = there.join();
    Ok(())
}

/// Passes bytes on until there are no more, and then says so at the other end.
fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// The request, and what came behind it.
fn read_request(client: &mut TcpStream) -> Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let count = client.read(&mut buffer).context("read a request")?;
        anyhow::ensure!(count > 0, "the client closed the connection within its request");
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), rest));
        }
        anyhow::ensure!(
            bytes.len() < LONGEST_REQUEST,
            "a request is longer than {LONGEST_REQUEST} bytes"
        );
    }
}

/// The address in `CONNECT address HTTP/1.1`. Names are not resolved: the API server knows addresses.
fn destination(request: &str) -> Option<SocketAddr> {
    let mut words = request.lines().next()?.split_whitespace();
    (words.next()? == "CONNECT").then_some(())?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::destination;

    #[test]
    fn only_connect_to_an_address_is_served() {
        let place = destination("CONNECT 10.96.0.1:443 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(place, Some(([10, 96, 0, 1], 443).into()));
        assert_eq!(
            destination("CONNECT [::1]:1 HTTP/1.1\r\n\r\n").map(|place| place.port()),
            Some(1)
        );
        assert_eq!(destination("GET http://10.96.0.1/ HTTP/1.1\r\n\r\n"), None);
        assert_eq!(destination("CONNECT name:1 HTTP/1.1\r\n\r\n"), None);
        assert_eq!(destination(""), None);
    }
}

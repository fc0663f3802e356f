//! The services that the demo's containers connect to.

use std::{net::TcpListener, process::Command, thread};

use anyhow::{Context, Result, bail};

/// Makes the metadata service's address one of this machine and answers on it, and on another port.
pub(crate) fn serve() -> Result<()> {
    let status = Command::new("ip")
        .args(["address", "replace", "169.254.169.254/32", "dev", "lo"])
        .status();
    if !status.context("run ip")?.success() {
        bail!("169.254.169.254 could not be added to the loopback interface");
    }
    for port in [80, 8080] {
        let listener =
            TcpListener::bind(("0.0.0.0", port)).with_context(|| format!("listen on port {port}"))?;
        thread::spawn(move || listener.incoming().for_each(drop));
    }
    Ok(())
}

//! Keys, tokens and kubeconfigs of a cluster that lives for a test.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use anyhow::{Context, Result};
use serde_json::json;

use super::place;
use crate::{process::Run, workspace};

/// Users besides those of the nodes: name, the user that Kubernetes knows, groups.
const USERS: [(&str, &str, &str); 4] = [
    ("admin", "lab:admin", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("proxy", "system:kube-proxy", ""),
];

/// Writes everything that must be there before the API server starts.
pub(super) fn write(nodes: &[String]) -> Result<()> {
    let folder = place::secrets();
    workspace::make_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))
        .context("close the folder of the keys")?;
    keys(&folder)?;
    let mut table = String::new();
    for (name, user, groups) in USERS {
        table += &line(&folder, name, user, groups)?;
    }
    for node in nodes {
        table += &line(&folder, node, &format!("system:node:{node}"), "system:nodes")?;
        // Reads what a name server must know; Kubernetes binds no role to it by itself.
        table += &line(&folder, &format!("dns-{node}"), "lab:dns", "system:masters")?;
    }
    workspace::write_file(&folder.join("tokens.csv"), table)
}

/// Writes the kubeconfigs, once the API server has made its certificate.
pub(super) fn write_kubeconfigs(port: u16, nodes: &[String], certificate: &Path) -> Result<()> {
    for (name, _, _) in USERS {
        let host = if name == "proxy" {
            place::HOST_IN_GUEST
        } else {
            "127.0.0.1"
        };
        kubeconfig(name, host, port, certificate)?;
    }
    for node in nodes {
        kubeconfig(node, place::HOST_IN_GUEST, port, certificate)?;
        kubeconfig(&format!("dns-{node}"), place::HOST_IN_GUEST, port, certificate)?;
    }
    Ok(())
}

/// The certificates with which the API server and the kubelets know each other, and the key of service accounts.
fn keys(folder: &Path) -> Result<()> {
    let openssl = |arguments: &[&str]| {
        Run::new("cluster-openssl", "openssl")
            .args(arguments)
            .dir(folder)
            .run()
    };
    openssl(&[
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-days",
        "3650", "-subj", "/CN=lab",
    ])?;
    openssl(&[
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "kubelet-client.key",
        "-out",
        "kubelet-client.csr",
        "-subj",
        "/O=system:masters/CN=kube-apiserver-kubelet-client",
    ])?;
    openssl(&[
        "x509",
        "-req",
        "-in",
        "kubelet-client.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "3650",
        "-out",
        "kubelet-client.crt",
    ])?;
    openssl(&["genrsa", "-out", "service-account.key", "2048"])?;
    openssl(&[
        "rsa",
        "-in",
        "service-account.key",
        "-pubout",
        "-out",
        "service-account.pub",
    ])
}

/// A line of the table of tokens; the token also goes to a file of its own.
fn line(folder: &Path, name: &str, user: &str, groups: &str) -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("make a token")?;
    let token: String = bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    workspace::write_file(&folder.join(format!("{name}.token")), &token)?;
    Ok(format!("{token},{user},{name},\"{groups}\"\n"))
}

fn kubeconfig(name: &str, host: &str, port: u16, certificate: &Path) -> Result<()> {
    let token_file = place::secrets().join(format!("{name}.token"));
    let token = fs::read_to_string(&token_file).with_context(|| format!("read {}", token_file.display()))?;
    let certificate = fs::read(certificate).with_context(|| format!("read {}", certificate.display()))?;
    let content = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "lab", "cluster": {
            "server": format!("https://{host}:{port}"),
            "certificate-authority-data": base64(&certificate),
        }}],
        "users": [{ "name": name, "user": { "token": token } }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": name } }],
        "current-context": "lab",
    });
    let text = serde_json::to_string_pretty(&content).context("print a kubeconfig")?;
    workspace::write_file(&place::kubeconfig(name), text + "\n")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let number = group
            .iter()
            .chain(&[0, 0])
            .take(3)
            .fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}

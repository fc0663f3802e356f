//! Annotations and labels of pods that are made to end the agent, to leave its folders or to pass for others.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result, ensure};

use super::{
    Scale,
    lab::{self, Claims, GUEST, Node, SHADOW},
};
use crate::demo::containers;

const APP: &str = "node-hostile";
/// What the agent reads of a container.
const ANNOTATIONS: [&str; 8] = [
    "io.kubernetes.cri.container-type",
    "io.kubernetes.cri.container-name",
    "io.kubernetes.cri.sandbox-id",
    "io.kubernetes.cri.sandbox-name",
    "io.kubernetes.cri.sandbox-namespace",
    "io.kubernetes.cri.sandbox-uid",
    "io.kubernetes.cri.image-name",
    "container.bpf.security.beta.varmor.org/main",
];
const LABELS: [&str; 4] = [
    "io.kubernetes.pod.name",
    "io.kubernetes.pod.namespace",
    "io.kubernetes.container.name",
    "nerdctl/name",
];
/// A label of containerd has at most so many bytes with its name.
const LABEL_LIMIT: usize = 4000;
/// Folders where profiles are written.
const FOLDERS: [&str; 2] = ["/var/lib/kubelet/seccomp", "/run/varmor"];

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    lab::enforce(APP, "disable-access-shadow")?;
    let before = files()?;
    let values = values(scale.hostile);
    let keys = ANNOTATIONS.len() + LABELS.len();
    let mut names = Vec::new();
    for (number, chunk) in values.chunks(keys).enumerate() {
        let name = format!("node-hostile-{number}");
        begin(&name, chunk)?;
        names.push(name);
    }
    lab::sleeper(APP, APP)?;
    let held = lab::wait("a container beside them is protected", || {
        Ok(lab::number(&lab::inside(APP, &["attack", SHADOW, "0"])?, "/allowed")? == 0)
    });
    claims.claim(
        "hostile annotations and labels do not end the agent",
        held.and_then(|()| {
            ensure!(node.agent.is_alive(), "the agent is dead");
            Ok(format!("{} values in {} containers", values.len(), names.len()))
        }),
    );
    claims.claim(
        "hostile annotations and labels leave no file",
        files().and_then(|after| {
            let new: Vec<_> = after.difference(&before).collect();
            ensure!(new.is_empty(), "{new:?}");
            Ok(format!("{} files before and after", before.len()))
        }),
    );
    claims.claim("lines of the log stay lines", lines());
    for name in &names {
        lab::remove(name);
    }
    lab::remove(APP);
    Ok(())
}

/// A container whose metadata are these values.
fn begin(name: &str, values: &[String]) -> Result<()> {
    let mut options: Vec<String> = ["run", "--detach", "--net-host", "--runc-binary", "crun"]
        .map(str::to_owned)
        .to_vec();
    for (key, value) in ANNOTATIONS.iter().chain(&LABELS).zip(values) {
        let is_label = LABELS.contains(key);
        let end = if is_label { LABEL_LIMIT } else { usize::MAX };
        let value: String = value
            .char_indices()
            .take_while(|(at, _)| *at < end)
            .map(|(_, one)| one)
            .collect();
        options.push(if is_label { "--label" } else { "--annotation" }.to_owned());
        options.push(format!("{key}={value}"));
    }
    options.extend([containers::IMAGE, name, GUEST, "wait"].map(str::to_owned));
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    containers::ctr(&words)
        .map(drop)
        .with_context(|| format!("{name} with {} values", values.len()))
}

/// Empty ones, single characters, long ones, controls, paths, and names that look like those of profiles.
fn values(count: usize) -> Vec<String> {
    let long = "x".repeat(64 << 10);
    let shapes: [&dyn Fn(usize) -> String; 12] = [
        &|_| String::new(),
        &|n| char::from(b'!' + u8::try_from(n % 90).unwrap_or_default()).to_string(),
        &|_| long.clone(),
        &|n| format!("{}../../../etc/cron.d/x", "../".repeat(n % 20)),
        &|n| format!("a\n{{\"level\":\"error\",\"message\":\"forged {n}\"}}"),
        &|n| format!("\u{1b}[2J\u{7}\u{1}\r{n}"),
        &|_| format!("varmor-cluster-varmor-{APP}"),
        &|n| format!("varmor-cluster-varmor-{APP}//t{n}"),
        &|n| format!("localhost/varmor-{n}\" {{ file, }} profile \"x"),
        &|n| "\u{202e}\u{feff}\u{0}\u{10ffff}".replace('\u{0}', &n.to_string()),
        &|n| format!("%s%n${{HOME}}$(reboot)`reboot`{n}"),
        &|n| format!("/proc/self/root/{n}"),
    ];
    (0..count).map(|n| shapes[n % shapes.len()](n)).collect()
}

/// Everything in the folders of profiles, but not reports, which come and go.
fn files() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for folder in FOLDERS {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries {
            let name = entry.with_context(|| format!("read {folder}"))?.file_name();
            let name = name.to_string_lossy().into_owned();
            if !name.contains(".json") && !name.contains(".new") {
                found.insert(format!("{folder}/{name}"));
            }
        }
    }
    for odd in ["/etc/cron.d/x", "/var/lib/kubelet/etc/cron.d/x"] {
        ensure!(fs::symlink_metadata(odd).is_err(), "{odd} is there");
    }
    Ok(found)
}

/// Each is a JSON object that the agent made, without raw control characters.
fn lines() -> Result<String> {
    let log = Node::log()?;
    let mut count = 0;
    for line in log.lines() {
        let value: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("not a line of the agent: {line}"))?;
        let message = value["message"].as_str().unwrap_or_default();
        ensure!(!message.contains("forged"), "{line}");
        ensure!(
            !line.chars().any(char::is_control),
            "a control character in {line:?}"
        );
        count += 1;
    }
    Ok(format!("{count} lines"))
}

#[cfg(test)]
mod tests {
    use super::values;

    #[test]
    fn there_are_as_many_as_asked_for_and_no_null_byte() {
        let values = values(300);
        assert_eq!(values.len(), 300);
        assert!(values.iter().all(|value| !value.contains('\0')));
        assert!(values.iter().any(|value| value.len() == 64 << 10));
    }
}

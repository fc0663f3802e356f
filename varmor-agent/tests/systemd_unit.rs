//! The unit of systemd is one that systemd accepts, and says what it promises.

use std::fs;
use std::process::Command;

const UNIT: &str = include_str!("../systemd/varmor-agent.service");
/// Where the unit expects the program; it need not be there for a test.
const PROGRAM: &str = "/usr/local/bin/varmor-agent";

#[test]
fn systemd_accepts_the_unit() {
    if let Err(error) = Command::new("systemd-analyze").arg("--version").output() {
        eprintln!("skipped: systemd-analyze cannot be run: {error}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("varmor-agent.service");
    fs::write(&path, UNIT.replace(PROGRAM, "/bin/true")).unwrap();
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // It also speaks about other units of the machine.
    let about: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("varmor-agent.service"))
        .collect();
    assert!(output.status.success() && about.is_empty(), "{said}");
}

#[test]
fn runtimes_wait_for_the_agent_and_it_always_comes_back() {
    let before = UNIT
        .lines()
        .find_map(|line| line.strip_prefix("Before="))
        .unwrap();
    for runtime in ["containerd.service", "docker.service", "crio.service"] {
        assert!(before.split(' ').any(|unit| unit == runtime), "{runtime}");
    }
    assert!(UNIT.lines().any(|line| line == "Restart=always"));
    assert!(UNIT.contains(PROGRAM));
}

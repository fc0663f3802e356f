//! Real folders with the ways in which people change files.

use std::os::unix::fs::symlink;

use inotify::EventMask;
use varmor_common::profile::NodeFacts;

use super::*;
use crate::source::FileState;

const GOOD: &str = "apiVersion: crd.varmor.org/v1beta1
kind: VarmorClusterPolicy
metadata: {name: web}
spec:
  target: {kind: Pod, name: web}
  policy: {enforcer: BPF, mode: AlwaysAllow}
";

struct Lab {
    _root: tempfile::TempDir,
    policies: PathBuf,
    state: PathBuf,
    folder: Folder,
}

impl Lab {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let (policies, state) = (root.path().join("policies"), root.path().join("state"));
        fs::create_dir(&policies).unwrap();
        let folder = Folder::new(policies.clone(), &state, Catalog::new(NodeFacts::default()));
        Self {
            _root: root,
            policies,
            state,
            folder,
        }
    }

    fn restart(&mut self) {
        self.folder = Folder::new(
            self.policies.clone(),
            &self.state,
            Catalog::new(NodeFacts::default()),
        );
    }

    /// Scans until no file is too young.
    fn scan(&mut self) -> Vec<String> {
        let mut changed = Vec::new();
        loop {
            let scan = self.folder.scan().unwrap();
            changed.extend(scan.changed);
            if !scan.unsettled {
                changed.dedup();
                return changed;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn state(&self, file: &str) -> FileState {
        self.folder.catalog().status(file).unwrap().state
    }

    fn objects(&self) -> usize {
        self.folder.catalog().objects().count()
    }
}

#[test]
fn yaml_files_are_found_and_others_ignored() {
    let mut lab = Lab::new();
    fs::write(lab.policies.join("a.yaml"), GOOD).unwrap();
    fs::write(lab.policies.join("b.yml"), GOOD.replace("web", "other")).unwrap();
    fs::write(lab.policies.join(".a.yaml.swp"), "x").unwrap();
    fs::write(lab.policies.join("notes.txt"), "x").unwrap();
    fs::create_dir(lab.policies.join("c.yaml")).unwrap();
    assert_eq!(lab.scan(), ["a.yaml", "b.yml"]);
    assert_eq!(lab.objects(), 2);
    assert_eq!(lab.scan(), [""; 0]);
}

#[test]
fn config_map_swap_is_seen() {
    let mut lab = Lab::new();
    for (version, text) in [
        ("..1", GOOD.to_owned()),
        ("..2", GOOD.replace("AlwaysAllow", "RuntimeDefault")),
    ] {
        fs::create_dir(lab.policies.join(version)).unwrap();
        fs::write(lab.policies.join(version).join("a.yaml"), text).unwrap();
    }
    symlink("..1", lab.policies.join("..data")).unwrap();
    symlink("..data/a.yaml", lab.policies.join("a.yaml")).unwrap();
    lab.scan();
    let before = lab.folder.catalog().objects().next().unwrap().profile.rules.len();
    symlink("..2", lab.policies.join("..new")).unwrap();
    fs::rename(lab.policies.join("..new"), lab.policies.join("..data")).unwrap();
    assert_eq!(lab.scan(), ["a.yaml"]);
    let after = lab.folder.catalog().objects().next().unwrap().profile.rules.len();
    assert!(after > before, "{after} rules after, {before} before");
}

#[test]
fn unreadable_folder_is_an_error_and_changes_nothing() {
    let mut lab = Lab::new();
    fs::write(lab.policies.join("a.yaml"), GOOD).unwrap();
    lab.scan();
    fs::rename(&lab.policies, lab.policies.with_extension("away")).unwrap();
    assert!(lab.folder.scan().is_err());
    assert_eq!(lab.objects(), 1);
}

#[test]
fn dangling_link_keeps_the_last_good_version() {
    let mut lab = Lab::new();
    fs::write(lab.policies.join("a.yaml"), GOOD).unwrap();
    lab.scan();
    fs::remove_file(lab.policies.join("a.yaml")).unwrap();
    symlink("nowhere", lab.policies.join("a.yaml")).unwrap();
    lab.scan();
    assert_eq!(lab.state("a.yaml"), FileState::Invalid);
    assert_eq!(lab.objects(), 1);
}

#[test]
fn last_good_version_survives_a_restart() {
    let mut lab = Lab::new();
    fs::write(lab.policies.join("a.yaml"), GOOD).unwrap();
    lab.scan();
    fs::write(lab.policies.join("a.yaml"), "broken: [").unwrap();
    lab.restart();
    assert_eq!(lab.scan(), ["a.yaml"]);
    assert_eq!(lab.state("a.yaml"), FileState::Invalid);
    assert_eq!(lab.objects(), 1);
}

#[test]
fn unchanged_file_is_reported_after_a_restart() {
    let mut lab = Lab::new();
    fs::write(lab.policies.join("a.yaml"), GOOD).unwrap();
    lab.scan();
    lab.restart();
    assert_eq!(lab.scan(), ["a.yaml"]);
}

#[test]
fn file_removed_while_the_agent_was_away_stays_removed() {
    let mut lab = Lab::new();
    fs::write(lab.policies.join("a.yaml"), GOOD).unwrap();
    lab.scan();
    fs::remove_file(lab.policies.join("a.yaml")).unwrap();
    lab.restart();
    lab.scan();
    assert_eq!(lab.objects(), 0);
}

#[test]
fn pipe_is_refused_without_blocking() {
    let lab = Lab::new();
    let path = lab.policies.join("a.yaml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(read(&path), Err("is not a regular file".to_owned()));
}

#[tokio::test(flavor = "current_thread")]
async fn rename_into_the_folder_wakes_the_watch() {
    let lab = Lab::new();
    let (sender, mut receiver) = mpsc::channel(1);
    let task = tokio::spawn(lab.folder.watch(sender));
    receiver.recv().await.unwrap();
    receiver.recv().await.unwrap();
    let started = std::time::Instant::now();
    fs::write(lab.state.with_extension("new"), GOOD).unwrap();
    fs::rename(lab.state.with_extension("new"), lab.policies.join("a.yaml")).unwrap();
    receiver.recv().await.unwrap();
    assert!(
        started.elapsed() < watch::RESCAN / 2,
        "woken by the rename and not by the timer"
    );
    task.abort();
}

#[tokio::test]
async fn watch_tells_of_files_that_are_complete() {
    let lab = Lab::new();
    let (sender, mut rescans) = mpsc::channel(1);
    let watch = tokio::spawn(lab.folder.watch(sender));
    // The second one comes when the watch is set up.
    for _ in 0..2 {
        assert_eq!(rescans.recv().await, Some(()));
    }
    let other = lab.policies.join(".a.yaml.new");
    fs::write(&other, GOOD).unwrap();
    fs::rename(&other, lab.policies.join("a.yaml")).unwrap();
    let told = async {
        while !lab.folder.finished.take().contains(OsStr::new("a.yaml")) {
            rescans.recv().await.expect("the watch has ended");
        }
    };
    tokio::time::timeout(Duration::from_secs(10), told)
        .await
        .expect("the watch does not tell of it");
    watch.abort();
}

#[test]
fn file_that_is_still_written_is_left_for_later() {
    let mut lab = Lab::new();
    let path = lab.policies.join("a.yaml");
    fs::write(&path, GOOD).unwrap();
    lab.scan();
    let (name, finished) = (Some(OsStr::new("a.yaml")), lab.folder.finished.clone());
    let mut scan_after = |masks: &[EventMask], text: &str| {
        for mask in masks {
            finished.follow(*mask, name);
        }
        fs::write(&path, text).unwrap();
        lab.folder.scan().unwrap().unsettled
    };
    let other = GOOD.replace("AlwaysAllow", "RuntimeDefault");
    assert!(
        scan_after(&[EventMask::MODIFY], &other),
        "nobody has said that it is complete"
    );
    assert!(
        scan_after(&[EventMask::CLOSE_WRITE, EventMask::MODIFY], GOOD),
        "somebody writes again"
    );
    assert!(!scan_after(&[EventMask::MODIFY, EventMask::CLOSE_WRITE], &other));
    assert!(scan_after(&[], GOOD), "it was said of the version before");
}

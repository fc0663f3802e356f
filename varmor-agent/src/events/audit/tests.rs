//! From the kernel's text to events and the questions that name a rule.

use varmor_common::abi;
use varmor_common::analysis::Operation;
use varmor_common::audit::parse;

use super::*;

/// An intake that knows no cgroups, and what comes out of it.
pub(super) fn intake(room: usize) -> (Intake, mpsc::Receiver<Observed>) {
    let (sender, records) = mpsc::channel(room);
    let intake = Intake {
        sender,
        counters: Arc::new(Counters::default()),
        hierarchy: None,
    };
    (intake, records)
}

fn observed(text: &str) -> Observed {
    Observed {
        record: parse(text.as_bytes()).unwrap(),
        cgroups: vec![CgroupId(42)],
        executable: "/bin/cat".to_owned(),
        mount_namespace: 7,
    }
}

fn apparmor(fields: &str) -> Observed {
    observed(&format!(
        "type=1400 audit(1700000000.123:45): apparmor=\"DENIED\" profile=\"varmor-demo-web//t1\" pid=9 comm=\"cat\" {fields}"
    ))
}

#[test]
fn apparmor_record_becomes_an_event_in_fields_of_varmor() {
    let event = event(&apparmor(
        "operation=\"open\" name=\"/etc/shadow\" requested_mask=\"r\" denied_mask=\"r\" fsuid=5 ouid=0",
    ))
    .unwrap();
    assert_eq!(
        (event.action, event.hook.as_str(), event.cgroup),
        (Action::Denied, "open", CgroupId(42))
    );
    assert_eq!((event.process.pid, event.process.uid), (9, 5));
    assert_eq!(event.detail.enforcer(), "AppArmor");
    assert_eq!(
        serde_json::to_value(&event.detail).unwrap(),
        serde_json::json!({"auditID": "1700000000.123:45", "epoch": 1_700_000_000, "pid": 9, "operation": "open",
            "profile": "varmor-demo-web//t1", "name": "/etc/shadow", "comm": "cat", "requestedMask": "r",
            "deniedMask": "r", "fsuid": 5, "ouid": 0})
    );
}

#[test]
fn seccomp_record_becomes_an_event_in_fields_of_varmor() {
    let observed = observed(
        "type=1326 audit(1700000000.123:45): uid=3 gid=4 subj=varmor-demo-web (enforce) pid=9 comm=\"x\" \
         exe=\"/bin/x\" sig=0 arch=c000003e syscall=101 compat=0 ip=0x1 code=0x7ffc0000",
    );
    let event = event(&observed).unwrap();
    assert_eq!(
        serde_json::to_value(event.action).unwrap(),
        serde_json::json!("AUDIT|ALLOWED")
    );
    assert_eq!((event.executable.as_str(), event.process.gid), ("/bin/x", 4));
    assert_eq!(
        serde_json::to_value(&event.detail).unwrap(),
        serde_json::json!({"auditID": "1700000000.123:45", "epoch": 1_700_000_000, "subj": "varmor-demo-web",
            "pid": 9, "comm": "x", "exe": "/bin/x", "syscall": "ptrace"})
    );
    assert_eq!(base_profile(&observed.record).unwrap(), "varmor-demo-web");
}

#[test]
fn a_refused_or_unknown_system_call_is_told() {
    let of = |fields: &str| {
        let event = event(&observed(&format!("type=1326 audit(1.002:3): pid=1 {fields}"))).unwrap();
        let Detail::Seccomp(detail) = event.detail else {
            panic!("another detail")
        };
        (event.action, detail.syscall)
    };
    assert_eq!(
        of("arch=c000003e syscall=59 code=0x50001"),
        (Action::Denied, "execve".to_owned())
    );
    assert_eq!(
        of("arch=40000003 syscall=11 code=0x80000000"),
        (Action::Denied, "execve".to_owned())
    );
    assert_eq!(
        of("arch=1 syscall=99999 code=0x0"),
        (Action::Denied, "99999".to_owned())
    );
}

#[test]
fn only_profiles_of_varmor_are_of_interest() {
    let is = |text: &str| is_of_interest(&parse(text.as_bytes()).unwrap());
    assert!(is(
        "type=1400 audit(1.002:3): apparmor=\"ALLOWED\" profile=\"varmor-a\""
    ));
    for other in [
        "apparmor=\"DENIED\" profile=\"docker-default\"",
        "apparmor=\"STATUS\" profile=\"varmor-a\"",
        "apparmor=\"DENIED\" namespace=\"root//guest\" profile=\"varmor-a\"",
        "avc:  denied  { read } for  pid=1",
        "apparmor=\"DENIED\" profile=\"unconfined\" name=\"varmor-a\"",
    ] {
        assert!(!is(&format!("type=1400 audit(1.002:3): {other}")), "{other}");
    }
}

#[test]
fn a_full_queue_is_counted() {
    let (intake, _records) = intake(1);
    for _ in 0..3 {
        intake.take(apparmor("operation=\"open\"").record);
    }
    assert_eq!(intake.counters.queue.load(Ordering::Relaxed), 2);
}

#[test]
fn records_are_questions_to_a_policy() {
    let of = |fields: &str| operation(&apparmor(fields).record);
    assert_eq!(
        of("operation=\"mknod\" name=\"/tmp/x\" denied_mask=\"wc\""),
        Some(Operation::File {
            path: "/tmp/x".to_owned(),
            access: abi::PERM_WRITE,
            within: u32::MAX
        })
    );
    assert_eq!(
        of("operation=\"capable\" capability=21 capname=\"sys_admin\""),
        Some(Operation::Capability(21))
    );
    assert_eq!(
        of("operation=\"create\" family=\"inet\" sock_type=\"raw\" protocol=1 denied_mask=\"create\""),
        Some(Operation::Socket {
            domain: 2,
            kind: 3,
            protocol: 1
        })
    );
    assert_eq!(of("operation=\"open\" name=\"relative\" denied_mask=\"r\""), None);
    assert_eq!(of("operation=\"file_lock\" name=\"/x\" denied_mask=\"k\""), None);
    assert_eq!(of("operation=\"open\" denied_mask=\"r\" name=\"/cut"), None);
}

#[test]
fn hostile_names_are_cleaned() {
    let event = event(&apparmor("operation=\"open\" name=2F610A1B")).unwrap();
    let text = serde_json::to_string(&event.detail).unwrap();
    assert!(text.contains(r#""name":"/a\\u{a}\\u{1b}""#), "{text}");
}

//! Records in the forms in which kernels write them.

use super::*;

fn text(record: &Record, key: &str) -> String {
    String::from_utf8_lossy(record.get(key).unwrap_or_default()).into_owned()
}

#[test]
fn file_denial_of_apparmor_is_read() {
    let record = parse(
        br#"audit: type=1400 audit(1700000000.123:456): apparmor="DENIED" operation="open" class="file" profile="varmor-demo-web" name="/etc/shadow" pid=4242 comm="cat" requested_mask="r" denied_mask="r" fsuid=0 ouid=0"#,
    )
    .unwrap();
    assert_eq!(record.kind, AVC);
    assert_eq!(record.stamp.to_string(), "1700000000.123:456");
    assert_eq!(record.stamp.nanoseconds(), 1_700_000_000_123_000_000);
    for (key, value) in [
        ("apparmor", "DENIED"),
        ("operation", "open"),
        ("profile", "varmor-demo-web"),
        ("name", "/etc/shadow"),
        ("denied_mask", "r"),
    ] {
        assert_eq!(text(&record, key), value);
    }
    assert_eq!(
        (record.number("pid"), record.number("ouid")),
        (Some(4242), Some(0))
    );
    assert!(!record.is_cut);
    assert_eq!(record.get("exe"), None);
}

#[test]
fn names_with_odd_characters_are_decoded() {
    // `/tmp/a b"` and the profile's child; comm is short enough to look like a number, and is one in hexadecimal.
    let record = parse(
        br#"type=1400 audit(1.002:3): apparmor="ALLOWED" operation="open" profile="varmor-demo-web//t00ff" name=2F746D702F6120622200 pid=7 comm=6120"#,
    )
    .unwrap();
    assert_eq!(record.get("name").unwrap(), b"/tmp/a b\"\0");
    assert_eq!(record.get("comm").unwrap(), b"a ");
    assert_eq!(text(&record, "profile"), "varmor-demo-web//t00ff");
    assert_eq!(record.number("pid"), Some(7), "digits of a number are no bytes");
}

#[test]
fn network_capability_signal_and_mount_records_are_read() {
    let network = parse(
        br#"type=1400 audit(1.002:3): apparmor="DENIED" operation="create" class="net" profile="varmor-a-b" pid=9 comm="ping" family="inet" sock_type="raw" protocol=1 requested_mask="create" denied_mask="create""#,
    )
    .unwrap();
    assert_eq!(
        (text(&network, "family"), network.number("protocol")),
        ("inet".to_owned(), Some(1))
    );
    let capability = parse(
        br#"type=1400 audit(1.002:3): apparmor="DENIED" operation="capable" profile="varmor-a-b" pid=9 comm="x" capability=21  capname="sys_admin""#,
    )
    .unwrap();
    assert_eq!(text(&capability, "capname"), "sys_admin");
    let signal = parse(
        br#"type=1400 audit(1.002:3): apparmor="DENIED" operation="signal" profile="varmor-a-b" pid=9 comm="x" requested_mask="send" denied_mask="send" signal=kill peer="unconfined""#,
    )
    .unwrap();
    assert_eq!(
        (text(&signal, "signal"), text(&signal, "peer")),
        ("kill".to_owned(), "unconfined".to_owned())
    );
    let mount = parse(
        br#"type=1400 audit(1.002:3): apparmor="DENIED" operation="mount" info="failed mntpnt match" error=-13 profile="varmor-a-b" name="/mnt/" pid=9 comm="mount" fstype="tmpfs" srcname="tmpfs" flags="rw, nosuid""#,
    )
    .unwrap();
    assert_eq!(
        (text(&mount, "error"), text(&mount, "flags")),
        ("-13".to_owned(), "rw, nosuid".to_owned())
    );
}

#[test]
fn seccomp_record_is_read_from_netlink() {
    let record = parse_body(
        SECCOMP,
        b"audit(1700000000.123:456): auid=4294967295 uid=1000 gid=1000 ses=4294967295 subj=varmor-demo-web (enforce) pid=4242 comm=\"python3\" exe=\"/usr/bin/python3.11\" sig=0 arch=c000003e syscall=101 compat=0 ip=0x7f1e code=0x50000\n",
    )
    .unwrap();
    assert_eq!(record.kind, SECCOMP);
    assert_eq!(
        (record.number("syscall"), record.number("pid")),
        (Some(101), Some(4242))
    );
    assert_eq!(text(&record, "code"), "0x50000");
    assert_eq!(text(&record, "subj"), "varmor-demo-web");
    assert_eq!(text(&record, "exe"), "/usr/bin/python3.11");
}

#[test]
fn a_record_that_the_log_cut_is_marked() {
    let quoted = parse(b"type=1400 audit(1.002:3): apparmor=\"DENIED\" name=\"/very/lo").unwrap();
    assert!(quoted.is_cut);
    assert_eq!(quoted.get("name").unwrap(), b"/very/lo");
    let digits = parse(b"type=1400 audit(1.002:3): apparmor=\"DENIED\" name=2F612").unwrap();
    assert!(digits.is_cut);
    assert_eq!(digits.get("name").unwrap(), b"/a");
}

#[test]
fn words_that_are_no_numbers_stay_words() {
    let record = parse(b"type=1400 audit(1.002:3): name=(null) peer=unconfined comm=beef label=").unwrap();
    assert_eq!(record.get("name").unwrap(), b"(null)");
    assert_eq!(record.get("peer").unwrap(), b"unconfined");
    assert_eq!(
        record.get("comm").unwrap(),
        b"beef",
        "the kernel writes capital letters"
    );
    assert_eq!(record.get("label").unwrap(), b"");
}

#[test]
fn a_quoted_value_cannot_add_a_field() {
    let record = parse(br#"type=1400 audit(1.002:3): name="/a profile=x" profile="varmor-a-b""#).unwrap();
    assert_eq!(record.get("profile").unwrap(), b"varmor-a-b");
}

#[test]
fn what_is_no_record_is_an_error() {
    for (bytes, expected) in [
        (&b""[..], RecordError::Type),
        (b"audit: audit_lost=1", RecordError::Type),
        (b"type=", RecordError::Type),
        (b"type=x audit(1.2:3): a=1", RecordError::Type),
        (b"type=99999999999 audit(1.2:3): a=1", RecordError::Type),
        (b"type=1400 nothing", RecordError::Stamp),
        (b"type=1400 audit(1.2:3", RecordError::Stamp),
        (b"type=1400 audit(1.2): a=1", RecordError::Stamp),
        (b"type=1400 audit(1.2000:3): a=1", RecordError::Stamp),
        (b"type=1400 audit(1.2:3) a=1", RecordError::Stamp),
    ] {
        assert_eq!(parse(bytes).unwrap_err(), expected, "{}", bytes.escape_ascii());
    }
    assert!(parse(b"type=AVC msg=audit(1.002:3): a=1").is_ok());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_safe(bytes: Vec<u8>) {
        let _ = parse(&bytes);
        let _ = KernelLine::parse(&bytes);
        let mut record = b"type=1400 audit(1.002:3): ".to_vec();
        record.extend_from_slice(&bytes);
        proptest::prop_assert!(parse(&record).is_ok());
    }
}

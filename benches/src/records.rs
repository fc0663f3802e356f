//! What the enforcers say about violations: records of the kernel's audit, and lines of `violations.log`.

/// A denial of `AppArmor`, as netlink carries it.
pub const FILE: &str = r#"audit(1700000000.123:456): apparmor="DENIED" operation="open" class="file" profile="varmor-demo-web" name="/etc/shadow" pid=4242 comm="cat" requested_mask="r" denied_mask="r" fsuid=0 ouid=0"#;

/// A denial of seccomp, as netlink carries it.
pub const SYSTEM_CALL: &str = r#"audit(1700000000.123:456): auid=4294967295 uid=1000 gid=1000 ses=4294967295 subj=varmor-demo-web (enforce) pid=4242 comm="python3" exe="/usr/bin/python3.11" sig=0 arch=c000003e syscall=101 compat=0 ip=0x7f1e code=0x50000"#;

/// The longest path that the kernel hands out, without its last zero.
pub const LONGEST_PATH: usize = 4095;

/// A denial of `AppArmor` about the longest path, whose odd letters make the kernel write it in hexadecimal digits.
#[must_use]
pub fn longest_file() -> String {
    let name = "2F2061".repeat(LONGEST_PATH / 3);
    format!(
        "audit(1700000000.123:456): apparmor=\"DENIED\" operation=\"open\" class=\"file\" \
         profile=\"varmor-demo-web\" name={name} pid=4242 comm=6120 requested_mask=\"r\" denied_mask=\"r\" fsuid=0 ouid=0"
    )
}

/// [`FILE`] as `/dev/kmsg` has it.
#[must_use]
pub fn kernel_line() -> String {
    format!("5,1021,73912345,-;audit: type=1400 {FILE}\n SUBSYSTEM=x\n")
}

/// Line n of `violations.log`, as the agent writes it. Every fourth one is about a file of tenant n, which
/// [`crate::policies::numbered`] denies; the others are about a program, a capability and an address, which it allows.
#[must_use]
pub fn violation(number: u32) -> String {
    let (hook, event) = match number % 4 {
        0 => (
            "open",
            format!(r#"{{"operation":"File","permissions":["read"],"path":"/srv/tenant{number}/d/file"}}"#),
        ),
        1 => (
            "exec",
            r#"{"operation":"Bprm","permissions":["exec"],"path":"/bin/sh"}"#.to_owned(),
        ),
        2 => (
            "capable",
            r#"{"operation":"Capability","capability":"CAP_NET_RAW"}"#.to_owned(),
        ),
        _ => (
            "connect",
            r#"{"operation":"Network","type":"connect","address":{"ip":"169.254.169.254","port":80}}"#
                .to_owned(),
        ),
    };
    format!(
        r#"{{"level":"warn","metadata":{{}},"nodeName":"n1","podUID":"0c7f8f7e-5f0e-4d6a-9b0a-5f3f0f4f2c11","podName":"web-7c9d","podNamespace":"demo","containerID":"3f1a9c","containerName":"main","image":"docker.io/library/nginx:1.27","pid":4242,"mntNsID":4026532000,"eventTimestamp":1700000000,"eventTime":1700000000123456789,"enforcer":"BPF","action":"DENIED","profileName":"varmor-demo-web","policyKind":"VarmorPolicy","policyName":"web","policyNamespace":"demo","ruleID":"bpfRawRules.files[{number}]","policyField":"spec.policy.enhanceProtect.bpfRawRules.files[{number}]","hook":"{hook}","executable":"/bin/cat","process":{{"pid":4242,"tid":4242,"comm":"cat","uid":0,"gid":0,"ancestors":[{{"pid":99,"comm":"sh","executable":"/bin/sh"}},{{"pid":1,"comm":"nginx","executable":"/usr/sbin/nginx"}}]}},"cgroup":42,"event":{event},"count":3,"time":"2023-11-14T22:13:20.123Z","message":"violation event"}}"#
    )
}

#[cfg(test)]
mod tests {
    use varmor_common::analysis::Recorded;
    use varmor_common::audit::{AVC, KernelLine, SECCOMP, parse_body};

    use super::{FILE, LONGEST_PATH, SYSTEM_CALL, kernel_line, longest_file, violation};

    #[test]
    fn records_are_what_they_are_said_to_be() {
        let name = |text: &str| {
            let record = parse_body(AVC, text.as_bytes()).expect("the record can be read");
            record.get("name").map(<[u8]>::to_vec)
        };
        assert_eq!(name(FILE).as_deref(), Some(&b"/etc/shadow"[..]));
        assert_eq!(name(&longest_file()).map(|name| name.len()), Some(LONGEST_PATH));
        let record = parse_body(SECCOMP, SYSTEM_CALL.as_bytes()).expect("the record can be read");
        assert_eq!(record.number("syscall"), Some(101));
        let line = KernelLine::parse(kernel_line().as_bytes()).expect("the line can be read");
        assert!(line.is_of_kernel && line.message.ends_with(FILE.as_bytes()));
    }

    #[test]
    fn lines_are_four_kinds_of_denied_operations() {
        let lines: Vec<Recorded> = (0..4)
            .map(|number| Recorded::parse(&violation(number)).expect("the line can be read"))
            .collect();
        let operations: Vec<String> = lines.iter().map(|line| line.operation.to_string()).collect();
        assert_eq!(
            operations,
            [
                "open r /srv/tenant0/d/file",
                "exec /bin/sh",
                "capable net_raw",
                "connect 169.254.169.254:80"
            ]
        );
        assert!(lines.iter().all(|line| line.denied && line.count == 3));
    }
}

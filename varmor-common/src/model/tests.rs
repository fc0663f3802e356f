//! Learned profiles allow what was seen, forbid what is next to it, and say what they guessed.

use proptest::prelude::*;

use super::format::dynamic_result;
use super::held_out::judge;
use super::{Behaviour, HoldOut, Recording, Settings, generalise, held_out};
use crate::analysis::{Operation, Outcome};
use crate::compile::apparmor::{self, Features};
use crate::compile::seccomp::Inputs;
use crate::policy::Generalisation;
use crate::profile::{NodeFacts, build_with};

/// A line of `violations.log` of the second `time`.
fn line(hook: &str, event: &str, time: u64) -> String {
    format!(
        r#"{{"enforcer":"BPF","action":"ALLOWED","ruleID":"default-deny","hook":"{hook}","executable":"/app","eventTime":{},"count":2,"event":{event}}}"#,
        time * 1_000_000_000
    )
}

fn file(path: &str, permission: &str) -> String {
    format!(r#"{{"operation":"File","permissions":["{permission}"],"path":"{path}"}}"#)
}

fn exec(path: &str) -> String {
    format!(r#"{{"operation":"Bprm","permissions":["exec"],"path":"{path}"}}"#)
}

fn recorded<'l>(lines: impl IntoIterator<Item = &'l (&'l str, String)>) -> Recording {
    let mut recording = Recording::default();
    for (time, (hook, event)) in (1_000..).zip(lines) {
        let counted = recording.add(&line(hook, event, time)).expect("a line");
        assert!(counted, "{event}");
    }
    recording
}

fn learned(recording: &Recording) -> (Behaviour, Vec<Generalisation>) {
    generalise(&Behaviour::of(recording), &Settings::default())
}

/// The outcome of an operation in words, under the BPF enforcer's profile.
fn outcome(behaviour: &Behaviour, words: &str) -> Outcome {
    let operation: Operation = words.parse().expect(words);
    judge(behaviour).expect("a profile").outcome(&operation, 0)
}

fn service() -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("exec", exec("/usr/sbin/nginx")),
        ("mmap", exec("/usr/lib/x86_64-linux-gnu/libssl.so.3")),
        ("open", file("/etc/nginx/nginx.conf", "read")),
        ("open", file("/proc/4711/stat", "read")),
        ("open", file("/var/log/nginx/access.log", "append")),
        ("create", file("/run/nginx.pid", "write")),
        ("rename", file("/var/lib/app/[state]", "write")),
        ("rename", file("/var/lib/app/folder", "restructure")),
        ("capable", r#"{"operation":"Capability","capability":"CAP_NET_BIND_SERVICE"}"#.to_owned()),
        (
            "socket",
            r#"{"operation":"Network","type":"socket","socket":{"domain":"inet","type":"stream","protocol":"tcp"}}"#.to_owned(),
        ),
        ("bind", r#"{"operation":"Network","type":"listen","address":{"ip":"0.0.0.0","port":80}}"#.to_owned()),
        ("connect", r#"{"operation":"Network","type":"connect","address":{"ip":"10.0.0.7","port":5432}}"#.to_owned()),
        ("ptrace", r#"{"operation":"Ptrace","permission":"read","external":false,"peerPID":7}"#.to_owned()),
        ("mount", r#"{"operation":"Mount","path":"tmpfs","type":"tmpfs","flags":[]}"#.to_owned()),
        ("mount", r#"{"operation":"Mount","path":"/data","type":"none","flags":["bind"]}"#.to_owned()),
        ("umount", r#"{"operation":"Mount","path":"/data","type":"none","flags":["umount"]}"#.to_owned()),
    ];
    lines.extend((0..12).map(|number| ("open", file(&format!("/srv/www/page{number}.html"), "read"))));
    lines
}

#[test]
fn everything_recorded_is_allowed_and_its_neighbours_are_not() {
    let recording = recorded(&service());
    let (behaviour, said) = learned(&recording);
    let judge = judge(&behaviour).expect("a profile");
    for (operation, _) in recording.operations() {
        assert_eq!(judge.outcome(operation, 0), Outcome::Allowed, "{operation}");
    }
    for (words, expected) in [
        ("open r /proc/1/stat", Outcome::Allowed),
        ("open r /proc/1/environ", Outcome::Denied),
        ("exec /usr/lib/x86_64-linux-gnu/libssl.so.4", Outcome::Allowed),
        ("exec /usr/lib/x86_64-linux-gnu/libcurl.so.4", Outcome::Denied),
        ("open r /srv/www/other.html", Outcome::Allowed),
        ("open r /srv/www/.htpasswd", Outcome::Denied),
        ("open w /srv/www/page1.html", Outcome::Denied),
        ("open r /etc/nginx/other.conf", Outcome::Denied),
        ("open w /var/lib/app/[state]", Outcome::Allowed),
        ("open w /var/lib/app/s", Outcome::Denied),
        ("open w /var/lib/app/folder/below", Outcome::Allowed),
        ("open w /var/log/nginx/access.log", Outcome::Denied),
        ("bind 0.0.0.0:80", Outcome::Allowed),
        ("bind 0.0.0.0:4444", Outcome::Denied),
        ("connect 10.0.0.7:22", Outcome::Denied),
        ("connect 169.254.169.254:80", Outcome::Denied),
        ("socket inet raw icmp", Outcome::Denied),
        ("capable sys_admin", Outcome::Denied),
        ("exec /bin/sh", Outcome::Denied),
        ("ptrace trace inside", Outcome::Denied),
        ("ptrace read outside", Outcome::Denied),
        ("mount proc type=proc", Outcome::Denied),
        ("umount /etc", Outcome::Denied),
    ] {
        assert_eq!(outcome(&behaviour, words), expected, "{words}");
    }
    let made: Vec<(&str, u64)> = said.iter().map(|one| (one.to.as_str(), one.examples)).collect();
    assert_eq!(
        made,
        [
            ("/proc/[0-9]*/stat", 1),
            ("/srv/www/*.html", 12),
            ("/usr/lib/x86_64-linux-gnu/libssl.so.[0-9]*", 1),
            ("/var/lib/app/folder{,/**}", 1)
        ]
    );
    assert!(
        said.iter().all(|one| !one.why.is_empty() && !one.from.is_empty()),
        "{said:?}"
    );
}

#[test]
fn a_model_comes_back_from_its_format_and_means_the_same() {
    let (behaviour, _) = learned(&recorded(&service()));
    let text = serde_json::to_string(&dynamic_result(&behaviour, "x")).expect("plain data");
    let read = Behaviour::read(&serde_json::from_str(&text).expect("what was written")).expect("a model");
    let rules = |behaviour: &Behaviour| super::custom_profile(behaviour);
    assert_eq!(rules(&read), rules(&behaviour));
    assert_eq!(super::app_armor_files(&read), super::app_armor_files(&behaviour));
    assert_eq!(generalise(&read, &Settings::default()).0.files, read.files);
}

#[test]
fn app_armor_gets_its_own_letters_and_statements() {
    let (behaviour, _) = learned(&recorded(&service()));
    let results = dynamic_result(&behaviour, "varmor-cluster-varmor-learned");
    let text = super::format::POLICY
        .replace("enforcer: BPF", "enforcer: AppArmor")
        .replace("{bpf:", "{appArmor:");
    let loaded = crate::policy::load("p.yaml", text.as_bytes());
    let inputs = Inputs {
        model: Some(&results),
        ..Inputs::default()
    };
    let built = build_with(&loaded.documents[0], &NodeFacts::default(), inputs);
    // Mounts are in no event as AppArmor would need them.
    assert_eq!(built.diagnostics.len(), 3, "{:?}", built.diagnostics);
    let profile = built.profile.expect("a profile");
    let text = apparmor::compile(&profile, Features::COMMON)
        .expect("it compiles")
        .expect("it is named")
        .text;
    for line in [
        r#""/usr/sbin/nginx{,/}" rmix,"#,
        r#""/usr/lib/x86_64-linux-gnu/libssl.so.[0-9]*{,/}" m,"#,
        r#""/var/log/nginx/access.log{,/}" wk,"#,
        r#""/proc/[0-9]*/stat{,/}" rk,"#,
        r#""/var/lib/app/\[state\]{,/}" rwlk,"#,
        "capability net_bind_service,",
        "network inet stream,",
    ] {
        assert!(text.lines().any(|one| one.trim() == line), "{line}\n{text}");
    }
    assert!(
        !text.contains("/etc/shadow") && !text.contains("network inet raw"),
        "{text}"
    );
}

#[test]
fn secrets_and_what_is_near_them_stay_exact() {
    let mut lines = Vec::new();
    for number in 0..20 {
        for folder in [
            "/etc",
            "/root/notes",
            "/run/secrets/kubernetes.io/serviceaccount",
            "/proc/sys/net",
            "/home/me/.ssh",
            "/proc/1",
            "/sys/class",
            "/var/lib/kubelet",
        ] {
            lines.push(("open", file(&format!("{folder}/name{number}.1.2"), "read")));
        }
    }
    let recording = recorded(&lines);
    let (behaviour, said) = learned(&recording);
    for words in [
        "open r /etc/shadow",
        "open r /etc/passwd",
        "open r /root/notes/name20.1.2",
        "open r /run/secrets/kubernetes.io/serviceaccount/token",
        "open r /proc/sys/net/other",
        "open r /home/me/.ssh/id_rsa",
        "open r /proc/1/environ",
        "open r /proc/2/mem",
        "open r /sys/class/other",
        "open r /var/lib/kubelet/config.yaml",
    ] {
        assert_eq!(outcome(&behaviour, words), Outcome::Denied, "{words}");
    }
    let allowed = ["/etc/", "/proc/[0-9]*/"];
    let wrong = said
        .iter()
        .find(|one| !allowed.iter().any(|head| one.to.starts_with(head)));
    assert_eq!(wrong, None);
}

#[test]
fn a_pattern_that_may_be_written_never_covers_a_program() {
    let mut lines: Vec<_> = (0..20)
        .map(|number| ("open", file(&format!("/opt/app/bin/data{number}"), "write")))
        .collect();
    lines.push(("exec", exec("/opt/app/bin/server")));
    let (behaviour, said) = learned(&recorded(&lines));
    assert_eq!(said, []);
    assert_eq!(outcome(&behaviour, "open w /opt/app/bin/server"), Outcome::Denied);
}

#[test]
fn programs_are_not_guessed_at() {
    let lines: Vec<_> = (0..20)
        .map(|number| ("exec", exec(&format!("/tmp/build.aB3x{number:02}/run"))))
        .collect();
    let (behaviour, said) = learned(&recorded(&lines));
    assert_eq!(said, []);
    assert_eq!(outcome(&behaviour, "exec /tmp/build.aB3x99/run"), Outcome::Denied);
}

#[test]
fn many_ports_of_one_address_are_every_port_and_many_addresses_stay() {
    let connect = |ip: &str, port: u16| {
        let event =
            format!(r#"{{"operation":"Network","type":"connect","address":{{"ip":"{ip}","port":{port}}}}}"#);
        ("connect", event)
    };
    let mut lines: Vec<_> = (0..12)
        .map(|number| connect("10.0.0.1", 40_000 + number))
        .collect();
    lines.extend((2..30).map(|number| connect(&format!("10.0.0.{number}"), 443)));
    let (behaviour, said) = learned(&recorded(&lines));
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(outcome(&behaviour, "connect 10.0.0.1:22"), Outcome::Allowed);
    assert_eq!(outcome(&behaviour, "connect 10.0.0.30:443"), Outcome::Denied);
    assert_eq!(outcome(&behaviour, "connect 10.0.0.5:443"), Outcome::Allowed);
}

#[test]
fn giving_a_file_another_name_gives_no_right_to_run_it() {
    let old = r#"{"operation":"File","permissions":["read","write","append","exec"],"path":"/data/new"}"#;
    let lines = [
        ("rename", old.to_owned()),
        ("rename", file("/data/current", "write")),
    ];
    let (behaviour, _) = learned(&recorded(&lines));
    for (words, expected) in [
        ("rename /data/new -> /data/current", Outcome::Allowed),
        ("rename /data/new -> /data/other", Outcome::Denied),
        ("rename /data/other -> /data/current", Outcome::Denied),
        ("exec /data/new", Outcome::Denied),
        ("exec /data/current", Outcome::Denied),
    ] {
        assert_eq!(outcome(&behaviour, words), expected, "{words}");
    }
}

#[test]
fn what_did_not_happen_or_cannot_be_allowed_is_noted() {
    let mut recording = Recording::default();
    let refused = line("open", &file("/etc/shadow", "read"), 1).replace("ALLOWED", "DENIED");
    let foreign = r#"{"enforcer":"AppArmor","action":"ALLOWED","event":{}}"#;
    let odd = line("open", &file("/tmp/\\\\xff", "read"), 1);
    assert_eq!(recording.add(&refused), Ok(false));
    assert_eq!(recording.add(foreign), Ok(false));
    assert_eq!(recording.add(&odd), Ok(true));
    assert!(recording.add("nonsense").is_err());
    assert!(recording.is_empty());
    let (behaviour, _) = learned(&recording);
    assert_eq!(behaviour.unhandled.len(), 3, "{:?}", behaviour.unhandled);
}

#[test]
fn the_held_out_part_is_judged_by_what_was_learned_from_the_other() {
    let mut lines: Vec<_> = (0..80).map(|_| ("open", file("/srv/data", "read"))).collect();
    lines.extend((0..15).map(|_| ("open", file("/srv/data", "read"))));
    lines.extend((0..5).map(|number| ("open", file(&format!("/srv/new{number}"), "read"))));
    let recording = recorded(&lines);
    let report = held_out(&recording, HoldOut::Time(20), &Settings::default()).expect("a profile");
    assert_eq!((report.operations, report.denied_operations), (6, 5));
    assert_eq!((report.denied_events, report.events), (10, 38));
    assert!((report.percent - 26.31).abs() < 0.001, "{}", report.percent);
    assert_eq!(report.denied[0], "open r /srv/new0");
    let report = held_out(&recording, HoldOut::Operations(100), &Settings::default()).expect("a profile");
    assert_eq!((report.operations, report.denied_operations), (6, 6));
    let report = held_out(&recording, HoldOut::Operations(0), &Settings::default()).expect("a profile");
    assert_eq!((report.operations, report.percent), (0, 0.0));
}

/// Names of all kinds that are told apart, and others.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}",
        "[0-9]{1,6}",
        "[a-z]{2}\\.[0-9]\\.[0-9]",
        "lib[a-c]\\.so\\.[0-9]",
        "[0-9a-f]{16,20}",
        "x[.][a-zA-Z0-9]{6}",
        "[a-c]\\[[0-9]\\][*?{}]?",
        Just("proc".to_owned()),
        Just("tmp".to_owned()),
        Just("self".to_owned()),
        Just("task".to_owned()),
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_is_recorded_stays_allowed_and_twice_is_once(
        seen in prop::collection::vec(
            (prop::collection::vec(name(), 1..5), prop::sample::select(vec!["read", "write", "append", "exec", "restructure"])),
            1..40,
        ),
        siblings in 2_usize..6,
    ) {
        let lines: Vec<_> = seen
            .iter()
            .map(|(names, permission)| ("open", file(&format!("/{}", names.join("/")), permission)))
            .collect();
        let recording = recorded(&lines);
        let settings = Settings { siblings, ..Settings::default() };
        let (once, said) = generalise(&Behaviour::of(&recording), &settings);
        let asked = judge(&once).expect("a profile");
        for (operation, _) in recording.operations() {
            // Moving a folder may be refused, and is noted then.
            let noted = once.unhandled.iter().any(|what| operation.to_string().ends_with(what.rsplit(' ').next().unwrap_or("?")));
            prop_assert!(noted || asked.outcome(operation, 0) == Outcome::Allowed, "{operation}: {said:?}");
        }
        let (twice, _) = generalise(&once, &settings);
        prop_assert_eq!(&twice, &once);
        let (again, said_again) = generalise(&Behaviour::of(&recording), &settings);
        prop_assert_eq!((again, said_again), (once, said));
    }
}

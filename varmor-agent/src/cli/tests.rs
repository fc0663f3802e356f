//! Every offline command from file to answer, and its exit code.

use std::fs;
use std::process::ExitCode;

use clap::Parser as _;

use super::Cli;

fn policy(policy: &str) -> String {
    format!(
        "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorClusterPolicy\nmetadata: {{name: web}}\nspec:\n  target: {{kind: \
         Pod, name: web}}\n  policy: {{{policy}}}\n"
    )
}

const OLD: &str = "enforcer: BPFSeccomp, mode: EnhanceProtect, enhanceProtect: {privileged: true, \
                   attackProtectionRules: [{rules: [disable-access-shadow, disable-chmod-s-bit]}]}";
const NEW: &str = "enforcer: BPF, mode: EnhanceProtect, enhanceProtect: {privileged: true, attackProtectionRules: \
                   [{rules: [disable-write-etc]}]}";
const EVENT: &str = r#"{"enforcer":"BPF","action":"DENIED","profileName":"p","ruleID":"disable-access-shadow","executable":"/bin/cat","process":{"ancestors":[]},"count":1,"event":{"operation":"File","permissions":["read"],"path":"/etc/shadow"}}"#;

#[test]
fn every_command_answers_with_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let old = write("old.yaml", &policy(OLD));
    let new = write("new.yaml", &policy(NEW));
    let bad = write("bad.yaml", &policy("enforcer: BPF, mode: Nonsense"));
    let seccomp = write("seccomp.yaml", &policy("enforcer: Seccomp, mode: RuntimeDefault"));
    let events = write("violations.log", &format!("{EVENT}\n\n"));
    let broken = write("broken.log", "{\n");
    let answers = write(
        "answers.yaml",
        "enforcers: [bpf]\nfeatures:\n  - require-sa # it asks the API server\n",
    );
    let missing = folder.path().join("missing").display().to_string();
    let run = |words: &[&str]| {
        let cli = Cli::try_parse_from(std::iter::once("varmor").chain(words.iter().copied()));
        format!(
            "{:?}",
            cli.unwrap_or_else(|error| panic!("{words:?}: {error}")).run()
        )
    };
    let code = |number: u8| format!("{:?}", ExitCode::from(number));
    let open = [
        "--operation",
        "open r /etc/shadow",
        "--operation",
        "syscall chmod 0 0x800",
    ];
    for json in [&[][..], &["--output", "json"]] {
        for (words, expected) in [
            (&["rules", "list"][..], 0),
            (&["rules", "show", "disallow-create-user-ns"], 0),
            (&["rules", "show", "disallow-create-usr-ns"], 1),
            (&["check", &old, &new, &seccomp], 0),
            (&["check", &bad], 1),
            (&["compile", &old, "--enforcer", "bpf"], 0),
            (&["compile", &old, "--enforcer", "seccomp"], 0),
            (&["compile", &seccomp, "--enforcer", "seccomp"], 0),
            (&["compile", &bad, "--enforcer", "seccomp"], 1),
            (&["explain", &old, open[0], open[1], open[2], open[3]], 0),
            (&["explain", &seccomp, "--operation", "syscall mount"], 0),
            (&["explain", &missing, open[0], open[1]], 1),
            (&["simulate", &old, "--events", &events], 0),
            (&["simulate", &new, "--events", &events], 1),
            (&["simulate", &new, "--events", &events, "--profile", "other"], 0),
            (&["simulate", &new, "--events", &broken], 2),
            (&["simulate", &bad, "--events", &events], 2),
            (&["simulate", &new, "--events", &missing], 2),
            (&["diff", &old, &new], 0),
            (&["diff", &old, &missing], 1),
            (
                &["advise", "--enforcers", "bpf,seccomp", "--features", "require-sa"],
                0,
            ),
            (&["advise", "--answers", &answers], 0),
            (&["advise", "--features", "fly"], 1),
        ] {
            assert_eq!(run(&[words, json].concat()), code(expected), "{words:?}");
        }
    }
}

#[test]
fn what_is_learned_from_a_log_is_a_policy_for_every_enforcer() {
    const SEEN: &str = r#"{"enforcer":"BPF","action":"ALLOWED","profileName":"p","ruleID":"default-deny","hook":"exec","executable":"/app","eventTime":1,"count":1,"event":{"operation":"Bprm","permissions":["exec"],"path":"/app"}}"#;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |words: &[&str]| {
        let cli = Cli::try_parse_from(std::iter::once("varmor").chain(words.iter().copied()));
        format!(
            "{:?}",
            cli.unwrap_or_else(|error| panic!("{words:?}: {error}")).run()
        )
    };
    let code = |number: u8| format!("{:?}", ExitCode::from(number));
    let (events, model, policy_file) = (path("violations.log"), path("model.yaml"), path("policy.yaml"));
    fs::write(&events, format!("{SEEN}\n")).unwrap();
    let learn = ["learn", "--events", &events, "--out", &model, "--name", "web"];
    assert_eq!(run(&learn), code(0));
    assert_eq!(run(&[&learn[..], &["--output", "json"]].concat()), code(0));
    assert_eq!(
        run(&[&learn[..], &["--profile", "other"]].concat()),
        code(1),
        "nothing is recorded of it"
    );
    assert_eq!(run(&["model", "show", &model]), code(0));
    assert_eq!(run(&["model", "show", &model, "--output", "json"]), code(0));
    assert_eq!(run(&["model", "show", &events]), code(1));
    assert_eq!(
        run(&["model", "policy", &model, "--enforcer", "AppArmorBPF"]),
        code(0)
    );
    assert_eq!(run(&["model", "policy", &model, "--target", "web"]), code(1));
    let defense = "enforcer: AppArmorBPF, mode: DefenseInDepth, defenseInDepth: {bpf: {profileType: BehaviorModel}, \
                   appArmor: {profileType: BehaviorModel}}";
    fs::write(&policy_file, policy(defense)).unwrap();
    for enforcer in ["bpf", "apparmor"] {
        let compile = ["compile", &policy_file, "--enforcer", enforcer];
        assert_eq!(run(&compile), code(1), "there is no model");
        assert_eq!(run(&[&compile[..], &["--model", &model]].concat()), code(0));
    }
    let both = format!("{}---\n{}", policy(defense), fs::read_to_string(&model).unwrap());
    fs::write(&policy_file, both).unwrap();
    assert_eq!(run(&["check", &policy_file]), code(0));
    assert_eq!(
        run(&["explain", &policy_file, "--operation", "exec /app"]),
        code(0)
    );
    assert_eq!(
        run(&["simulate", &policy_file, "--events", &events]),
        code(0),
        "what was seen stays allowed"
    );
}

#[test]
fn an_operation_that_is_none_is_refused_before_anything_is_read() {
    let error = Cli::try_parse_from(["varmor", "explain", "x.yaml", "--operation", "opne r /x"]).unwrap_err();
    assert!(error.to_string().contains("did you mean `open`?"), "{error}");
}

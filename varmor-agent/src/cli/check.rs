//! `varmor check`: every problem of every file, with its place and its repair.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use varmor_common::analysis::lint;
use varmor_common::compile::seccomp::OciSeccomp;
use varmor_common::compile::{apparmor, bpf};
use varmor_common::policy::{
    self, ArmorProfileModel, Diagnostic, Document, DynamicResult, Observations, ObservedSyscalls, Severity,
};
use varmor_common::profile::{self, NodeFacts};

use super::models::{self, Models};
use super::{Output, policies, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Policy files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Recordings for policies made of recorded behaviour; those of a policy's own file are found [default: nothing recorded]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// What a file says and what is wrong with it.
#[derive(Debug)]
struct Report {
    file: String,
    policies: usize,
    rules: usize,
    diagnostics: Vec<Diagnostic>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let given = arguments.model.as_deref().map(models::read).transpose()?;
    let given = given.unwrap_or_default();
    let reports = on_every_processor(&arguments.files, |file| check(file, &given));
    let errors = reports
        .iter()
        .flat_map(|report| &report.diagnostics)
        .filter(|found| found.is_error())
        .count();
    print(&match arguments.output {
        Output::Text => text(&reports, errors),
        Output::Json => json(&reports)?,
    })?;
    Ok(if errors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn check(path: &Path, given: &[ArmorProfileModel]) -> Report {
    let file = path.display().to_string();
    match policies::read(path) {
        Ok(bytes) => examine(file, &bytes, given),
        Err(error) => {
            let diagnostic = Diagnostic {
                severity: Severity::Error,
                file: file.clone(),
                line: 1,
                column: 1,
                field: String::new(),
                message: format!("cannot be read: {error}"),
                help: Some("give the path of a readable YAML file".to_owned()),
            };
            Report {
                file,
                policies: 0,
                rules: 0,
                diagnostics: vec![diagnostic],
            }
        }
    }
}

fn examine(file: String, bytes: &[u8], given: &[ArmorProfileModel]) -> Report {
    let loaded = policy::load(&file, bytes);
    let models = Models::of(&loaded.documents).and(given.to_vec());
    let documents: Vec<&Document> = loaded
        .documents
        .iter()
        .filter(|document| document.spec().is_some())
        .collect();
    let mut report = Report {
        file,
        policies: 0,
        rules: 0,
        diagnostics: loaded.diagnostics,
    };
    for found in on_every_processor(&documents, |document| judge(document, &models)) {
        report.policies += usize::from(found.valid);
        report.rules += found.rules;
        report.diagnostics.extend(found.diagnostics);
    }
    report.diagnostics.sort_by_key(|found| (found.line, found.column));
    report.diagnostics.dedup();
    report
}

/// What is found in one policy.
#[derive(Debug, Default)]
struct Found {
    valid: bool,
    rules: usize,
    diagnostics: Vec<Diagnostic>,
}

/// Answers in the order of the items: compiling is most of the work, and policies have nothing to do with each other,
/// whether they are in one file or in many.
fn on_every_processor<I: Sync, O: Send>(items: &[I], work: impl Fn(&I) -> O + Sync) -> Vec<O> {
    if items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = items.len().div_ceil(threads).max(1);
    let work = &work;
    std::thread::scope(|scope| {
        let shares: Vec<_> = items
            .chunks(share)
            .map(|share| scope.spawn(move || share.iter().map(work).collect::<Vec<O>>()))
            .collect();
        let answer = |thread: std::thread::ScopedJoinHandle<'_, Vec<O>>| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        shares.into_iter().flat_map(answer).collect()
    })
}

fn judge(document: &Document, models: &Models) -> Found {
    // The recording that a policy asks for may be in the cluster only.
    let nothing = DynamicResult {
        app_armor: Some(Observations::default()),
        bpf: Some(Observations::default()),
        seccomp: Some(ObservedSyscalls::default()),
    };
    let mut inputs = models.inputs(document);
    inputs.model = inputs.model.or(Some(&nothing));
    let built = profile::build_with(document, &NodeFacts::default(), inputs);
    let mut found = Found {
        diagnostics: built.diagnostics,
        ..Found::default()
    };
    found
        .diagnostics
        .extend(lint::lint(document, built.profile.as_ref()));
    if let Some(profile) = built.profile {
        found.diagnostics.extend(bpf::diagnose(document, &profile));
        found.diagnostics.extend(apparmor::diagnose(document, &profile));
        let of_filters: usize = profile.seccomp.iter().map(OciSeccomp::rules).sum();
        found.rules += profile.in_force().count() + of_filters;
    }
    found.valid = !found.diagnostics.iter().any(Diagnostic::is_error);
    found
}

fn text(reports: &[Report], errors: usize) -> String {
    let mut lines = Vec::new();
    for report in reports {
        lines.extend(report.diagnostics.iter().map(policy::render));
        if !report.diagnostics.iter().any(Diagnostic::is_error) {
            lines.push(format!(
                "{}: ok, {} policies, {} rules",
                report.file, report.policies, report.rules
            ));
        }
    }
    if errors > 0 {
        lines.push(format!("{errors} errors"));
    }
    lines.join("\n") + "\n"
}

fn json(reports: &[Report]) -> anyhow::Result<String> {
    let reports: Vec<_> = reports
        .iter()
        .map(|report| {
            json!({
                "file": report.file,
                "valid": !report.diagnostics.iter().any(Diagnostic::is_error),
                "policies": report.policies,
                "rules": report.rules,
                "diagnostics": report.diagnostics,
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&reports)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[u8] = b"apiVersion: crd.varmor.org/v1beta1
kind: VarmorClusterPolicy
metadata: {name: web}
spec:
  target: {kind: Pod, name: web}
  policy: {enforcer: BPF, mode: RuntimeDefault}
";

    fn examined(text: &[u8]) -> Report {
        examine("a.yaml".to_owned(), text, &[])
    }

    #[test]
    fn what_was_recorded_is_checked_where_it_is_known() {
        const MODEL: &str = "---\napiVersion: crd.varmor.org/v1beta1\nkind: ArmorProfileModel\nmetadata: {name: NAME}\n\
            data: {dynamicResult: {bpf: {files: [{path: '/srv/[', permissions: [read]}]}}}\n";
        let text = String::from_utf8(GOOD.to_vec()).unwrap().replace(
            "mode: RuntimeDefault",
            "mode: DefenseInDepth, defenseInDepth: {bpf: {profileType: BehaviorModel}}",
        );
        let is_valid = |text: &str, given: &[ArmorProfileModel]| {
            let report = examine("a.yaml".to_owned(), text.as_bytes(), given);
            report.policies == 1
        };
        assert!(is_valid(&text, &[]));
        let model = MODEL.replace("NAME", "varmor-cluster-varmor-web");
        assert!(!is_valid(&format!("{text}{model}"), &[]));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.yaml");
        std::fs::write(&path, &model).unwrap();
        assert!(!is_valid(&text, &models::read(&path).unwrap()));
        let other = MODEL.replace("NAME", "varmor-demo-other");
        assert!(is_valid(&format!("{text}{other}"), &[]));
    }

    #[test]
    fn good_file_has_policies_and_rules() {
        let report = examined(GOOD);
        assert!(
            !report.diagnostics.iter().any(Diagnostic::is_error),
            "{:?}",
            report.diagnostics
        );
        assert_eq!(report.policies, 1);
        assert!(report.rules > 0);
    }

    #[test]
    fn problem_is_named_with_its_place() {
        let text = String::from_utf8(GOOD.to_vec())
            .unwrap()
            .replace("RuntimeDefault", "RuntimeDefalt");
        let report = examined(text.as_bytes());
        let error = report.diagnostics.iter().find(|found| found.is_error()).unwrap();
        assert_eq!(error.line, 6);
        assert!(
            policy::render(error).starts_with("a.yaml:6:"),
            "{}",
            policy::render(error)
        );
    }

    #[test]
    fn what_only_the_compiler_notices_is_named_with_its_place() {
        let rules: Vec<String> = (0..24)
            .map(|n| {
                format!("{{qualifiers: [deny], pattern: '/**/a{n}/**/b{n}/**/leaf', permissions: [read]}}")
            })
            .collect();
        let policy = format!(
            "{{enforcer: BPF, mode: EnhanceProtect, enhanceProtect: {{bpfRawRules: {{files: [{}]}}}}}}",
            rules.join(", ")
        );
        let text = String::from_utf8(GOOD.to_vec())
            .unwrap()
            .replace("{enforcer: BPF, mode: RuntimeDefault}", &policy);
        let report = examined(text.as_bytes());
        let [error] = &report.diagnostics[..] else {
            panic!("{:?}", report.diagnostics)
        };
        assert!(error.is_error() && error.line == 6, "{}", policy::render(error));
        assert!(error.message.contains("split the policy"), "{}", error.message);
    }

    #[test]
    fn every_policy_of_a_file_is_judged_in_order() {
        let text = String::from_utf8(GOOD.to_vec()).unwrap();
        let bad = text.replace(
            "enforcer: BPF, mode: RuntimeDefault",
            "enforcer: Seccomp, mode: EnhanceProtect, enhanceProtect: {syscallRawRules: [{names: [x], action: SCMP_ACT_LOG}]}",
        );
        let many = [text.clone(), bad.clone(), text, bad].join("---\n");
        let report = examined(many.as_bytes());
        assert_eq!(report.policies, 2);
        let lines: Vec<u32> = report
            .diagnostics
            .iter()
            .filter(|found| found.is_error())
            .map(|found| found.line)
            .collect();
        assert_eq!(lines, [13, 27], "{:?}", report.diagnostics);
        let squares = on_every_processor(&(0..100).collect::<Vec<u32>>(), |n| n * n);
        assert!(squares.iter().zip(0..).all(|(square, n)| *square == n * n) && squares.len() == 100);
    }

    #[test]
    fn missing_file_is_a_diagnostic_and_not_a_crash() {
        let report = check(Path::new("/nonexistent/a.yaml"), &[]);
        assert!(report.diagnostics[0].message.contains("cannot be read"));
    }
}

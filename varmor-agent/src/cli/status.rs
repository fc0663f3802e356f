//! `varmor status`: what this kernel can enforce, what is loaded, what was refused.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::{Output, print};
use crate::control::{Answer, AskError, Overview, Request, ask};
use crate::daemon::agent_is_running;
use crate::daemon::state::{POLICIES, Policies, ProtectedContainer, Records, STATUS, Status, read};
use crate::enforcer::{Activity, Counters, Enforcer as _, HookState, LoadedProfile, bpf};
use crate::kernel::{Support, probe};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// State folder of the agent
    #[arg(long, value_name = "DIR", default_value = "/run/varmor")]
    state_dir: PathBuf,
    /// Folder of the agent on the BPF filesystem
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/varmor")]
    bpffs: PathBuf,
}

#[derive(Debug, Serialize)]
struct Report {
    kernel: Support,
    /// An agent is at work; without one, what it loaded stays in force.
    agent: Agent,
    profiles: Vec<LoadedProfile>,
    containers: Vec<Bound>,
    counters: Counters,
    /// Per profile: verdicts, events that are in no log, and the rules that spoke.
    activity: Vec<Activity>,
    /// Every program of this kernel.
    hooks: Vec<HookState>,
    policies: Policies,
    /// What could not be read, and why.
    problems: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
struct Agent {
    running: bool,
    pid: Option<u32>,
    version: String,
    policy_dir: PathBuf,
    containerd_problem: String,
    lost_lines: u64,
    /// Its loop does not go round.
    is_stuck: bool,
    /// What it has not applied yet.
    missing: Vec<String>,
    records: Records,
    lost_by_output: Vec<(String, u64)>,
}

/// A cgroup under a profile; the container's name if the agent reported it.
#[derive(Debug, Serialize)]
struct Bound {
    cgroup: u64,
    profile: Option<String>,
    name: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let report = collect(arguments);
    print(&match arguments.output {
        Output::Text => text(&report),
        Output::Json => serde_json::to_string_pretty(&report)? + "\n",
    })?;
    Ok(ExitCode::SUCCESS)
}

fn collect(arguments: &Arguments) -> Report {
    let mut problems = Vec::new();
    let mut note = |what: &str, error: &dyn std::fmt::Display| problems.push(format!("{what}: {error}"));
    let running = agent_is_running(&arguments.state_dir);
    let Overview {
        status,
        policies,
        is_alive,
        missing,
    } = of_agent(&arguments.state_dir, running, &mut note);

    // The kernel is asked and not the agent's report: it knows what is enforced also when the agent is dead.
    let options = bpf::Options {
        bpffs: arguments.bpffs.clone(),
        state_dir: arguments.state_dir.clone(),
    };
    let (mut profiles, mut containers, mut counters) = (Vec::new(), Vec::new(), Counters::default());
    let (mut activity, mut hooks) = (Vec::new(), Vec::new());
    match bpf::inspect(&options) {
        Ok(None) => {}
        Ok(Some(enforcer)) => {
            activity = enforcer
                .activity()
                .inspect_err(|error| note("activity", error))
                .unwrap_or_default();
            hooks = enforcer.hooks();
            profiles = enforcer
                .profiles()
                .inspect_err(|error| note("profiles", error))
                .unwrap_or_default();
            counters = enforcer
                .counters()
                .inspect_err(|error| note("counters", error))
                .unwrap_or_default();
            let bindings = enforcer
                .bindings()
                .inspect_err(|error| note("bindings", error))
                .unwrap_or_default();
            containers = bindings
                .into_iter()
                .map(|(cgroup, profile)| Bound {
                    cgroup: cgroup.0,
                    profile,
                    name: name_of(&status, cgroup.0),
                })
                .collect();
        }
        Err(error) => note(
            "the kernel's tables (root is needed)",
            &format!("{:#}", anyhow::Error::new(error)),
        ),
    }
    // Reasons for rules that are not enforced are known to the process that compiled them.
    for profile in &mut profiles {
        if let Some(reported) = status
            .profiles
            .iter()
            .find(|reported| reported.name == profile.name)
        {
            profile.unsupported.clone_from(&reported.unsupported);
        }
    }
    Report {
        kernel: probe(),
        agent: Agent {
            running,
            pid: running.then_some(status.pid),
            version: status.version,
            policy_dir: status.policy_dir,
            containerd_problem: if running {
                status.containerd_problem
            } else {
                String::new()
            },
            lost_lines: status.lost_lines,
            is_stuck: running && !is_alive,
            missing,
            records: status.records,
            lost_by_output: status.lost_by_output,
        },
        profiles,
        containers,
        counters,
        activity,
        hooks,
        policies,
        problems,
    }
}

/// What the agent says, or what it wrote down last.
fn of_agent(
    state_dir: &Path,
    is_running: bool,
    note: &mut impl FnMut(&str, &dyn std::fmt::Display),
) -> Overview {
    if is_running {
        match ask(state_dir, &Request::Status) {
            Ok(Answer::Status(overview)) => return *overview,
            Ok(_) => note("the agent, so its last reports are shown", &AskError::Other),
            Err(error) => note("the agent, so its last reports are shown", &error),
        }
    }
    Overview {
        status: read(state_dir, STATUS)
            .inspect_err(|error| note(STATUS, error))
            .unwrap_or_default()
            .unwrap_or_default(),
        policies: read(state_dir, POLICIES)
            .inspect_err(|error| note(POLICIES, error))
            .unwrap_or_default()
            .unwrap_or_default(),
        is_alive: true,
        missing: Vec::new(),
    }
}

fn name_of(status: &Status, cgroup: u64) -> Option<String> {
    let found: Option<&ProtectedContainer> = status
        .containers
        .iter()
        .find(|container| container.cgroup == cgroup);
    found.map(|container| container.name.clone())
}

fn text(report: &Report) -> String {
    let mut text = report.kernel.to_string();
    write_report(&mut text, report).expect("writing to a String cannot fail");
    text
}

fn write_objects(text: &mut String, report: &Report) -> std::fmt::Result {
    let objects = || report.policies.files.iter().flat_map(|file| &file.objects);
    for object in objects().filter(|object| !object.message.is_empty()) {
        writeln!(text, "{} {}: {}", object.policy, object.enforced, object.message)?;
    }
    for (object, held) in
        objects().flat_map(|object| object.by_runtime.iter().map(move |held| (object, held)))
    {
        writeln!(
            text,
            "{} profile {:<32} {:<8} rules {:<6} {}",
            held.enforcer, object.profile, held.state, held.rules, held.message
        )?;
        for (rule, reason) in &held.unsupported {
            writeln!(text, "    not enforced: {rule}: {reason}")?;
        }
    }
    Ok(())
}

fn write_report(text: &mut String, report: &Report) -> std::fmt::Result {
    match (report.agent.running, report.agent.pid) {
        (true, Some(pid)) => writeln!(
            text,
            "agent {} runs, pid {pid}, policies in {}",
            report.agent.version,
            report.agent.policy_dir.display()
        )?,
        _ if report.profiles.is_empty() => writeln!(text, "agent is not running, nothing is loaded")?,
        _ => writeln!(
            text,
            "agent is NOT running; what it loaded stays enforced, new containers are not protected"
        )?,
    }
    if !report.agent.containerd_problem.is_empty() {
        writeln!(text, "containerd: {}", report.agent.containerd_problem)?;
    }
    if report.agent.is_stuck {
        writeln!(text, "the agent does not get on: its loop does not go round")?;
    }
    for missing in &report.agent.missing {
        writeln!(text, "not applied: {missing}")?;
    }
    write_records(text, &report.agent)?;
    for file in report.policies.files.iter().filter(|_| report.agent.running) {
        writeln!(
            text,
            "policy file {:<24} {:<8} {}",
            file.file, file.state, file.message
        )?;
    }
    write_objects(text, report)?;
    writeln!(text, "profiles {}", report.profiles.len())?;
    for profile in &report.profiles {
        let used = report
            .containers
            .iter()
            .filter(|bound| bound.profile.as_ref() == Some(&profile.name))
            .count();
        writeln!(
            text,
            "  {:<40} generation {:<4} rules {:<6} containers {used}",
            profile.name, profile.generation, profile.rules
        )?;
        write_activity(text, report, &profile.name)?;
        for (rule, reason) in &profile.unsupported {
            writeln!(text, "    not enforced: {rule}: {reason}")?;
        }
    }
    let protected = || report.containers.iter().filter(|bound| bound.profile.is_some());
    writeln!(text, "protected containers {}", protected().count())?;
    for bound in protected() {
        let name = bound.name.as_deref().unwrap_or("-");
        writeln!(
            text,
            "  {name:<40} {} cgroup {}",
            bound.profile.as_deref().unwrap_or_default(),
            bound.cgroup
        )?;
    }
    let counters = &report.counters;
    let tasks = counters
        .labelled_tasks
        .map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    writeln!(
        text,
        "tasks {tasks}, denied {}, audited {}, lost events {}, lost log lines {}",
        counters.denied, counters.audited, counters.lost, report.agent.lost_lines
    )?;
    if !report.hooks.is_empty() {
        let count = |test: fn(&HookState) -> bool| report.hooks.iter().filter(|hook| test(hook)).count();
        writeln!(
            text,
            "hooks {}, loaded {}, attached {}, calls left out by the kernel {}",
            report.hooks.len(),
            count(|hook| hook.loaded),
            count(|hook| hook.attached),
            report.hooks.iter().map(|hook| hook.recursion_misses).sum::<u64>()
        )?;
    }
    for (reason, count) in counters.faults.iter().filter(|(_, count)| *count > 0) {
        writeln!(text, "  denied because it could not be judged: {reason}: {count}")?;
    }
    for problem in &report.problems {
        writeln!(text, "cannot read {problem}")?;
    }
    Ok(())
}

/// How violations of the other enforcers are heard of, and what got lost on the way.
fn write_records(text: &mut String, agent: &Agent) -> std::fmt::Result {
    if !agent.running {
        return Ok(());
    }
    let Records {
        source,
        problem,
        lost,
    } = &agent.records;
    if !problem.is_empty() {
        writeln!(
            text,
            "violations of AppArmor and seccomp are in no log: {problem}"
        )?;
    } else if !source.is_empty() {
        writeln!(
            text,
            "violations of AppArmor and seccomp from the {source}; lost: {} overruns, {} in gaps of the log, {} in the \
             kernel, {} in the queue, {} unreadable, {} of seccomp whose process was gone",
            lost.overruns, lost.log_gaps, lost.kernel, lost.queue, lost.unreadable, lost.gone
        )?;
    }
    for (output, lost) in agent.lost_by_output.iter().filter(|(_, lost)| *lost > 0) {
        writeln!(text, "violations that {output} has not got: {lost}")?;
    }
    Ok(())
}

/// Verdicts of a profile and its busiest rules.
fn write_activity(text: &mut String, report: &Report, profile: &str) -> std::fmt::Result {
    const RULES: usize = 5;
    let Some(activity) = report
        .activity
        .iter()
        .find(|activity| activity.profile == profile)
    else {
        return Ok(());
    };
    writeln!(
        text,
        "    denied {}, audited {}, events: repeated {}, above the rate {}, lost {}",
        activity.denied, activity.audited, activity.repeated, activity.limited, activity.lost
    )?;
    for (rule, hits) in activity.hits.iter().take(RULES) {
        writeln!(text, "    {hits:>10} times {rule}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(running: bool) -> Report {
        Report {
            kernel: Support {
                kernel: "6.1".into(),
                lsms: vec!["bpf".into()],
                features: Vec::new(),
            },
            agent: Agent {
                running,
                pid: running.then_some(9),
                version: "0.1.0".into(),
                records: Records {
                    problem: "audit netlink: not permitted".into(),
                    ..Records::default()
                },
                lost_by_output: vec![("otlp".into(), 6), ("stdout".into(), 0)],
                ..Agent::default()
            },
            profiles: vec![LoadedProfile {
                name: "varmor-demo-web".into(),
                rules: 3,
                unsupported: vec![("disallow-x".into(), "no hook".into())],
                ..LoadedProfile::default()
            }],
            containers: vec![
                Bound {
                    cgroup: 7,
                    profile: Some("varmor-demo-web".into()),
                    name: Some("web".into()),
                },
                Bound {
                    cgroup: 8,
                    profile: None,
                    name: None,
                },
            ],
            counters: Counters {
                denied: 5,
                faults: vec![("too deep".into(), 2)],
                ..Counters::default()
            },
            activity: vec![Activity {
                profile: "varmor-demo-web".into(),
                denied: 7,
                hits: vec![("disable-write-etc".into(), 6)],
                ..Activity::default()
            }],
            hooks: vec![HookState {
                loaded: true,
                recursion_misses: 4,
                ..HookState::default()
            }],
            policies: Policies::default(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn text_names_profiles_containers_and_denials() {
        let text = text(&report(true));
        for part in [
            "pid 9",
            "varmor-demo-web",
            "containers 1",
            "protected containers 1",
            "denied 5",
            "too deep: 2",
            "not enforced: disallow-x",
            "6 times disable-write-etc",
            "in no log: audit netlink: not permitted",
            "otlp has not got: 6",
            "loaded 1, attached 0, calls left out by the kernel 4",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }

    #[test]
    fn dead_agent_is_said_while_its_profiles_stay() {
        assert!(text(&report(false)).contains("NOT running; what it loaded stays enforced"));
    }
}

//! `rules`: every built-in rule, on every enforcer that holds it, in a container of its own under a real agent: what it
//! forbids works without the rule, is denied with it, and a neighbour of it works still.

mod containers;
mod stage;
mod table;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{
    apparmor,
    attack::{Outcome, Outcomes},
    demo::agent::Agent,
    line::Line,
};
use containers::Confined;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these rules
    names: Vec<String>,
    /// Only this enforcer
    #[arg(long)]
    enforcer: Option<String>,
    /// The docker archive of the containers' image
    #[arg(long, default_value = "/rules/image.tar")]
    image: PathBuf,
    /// Do both operations of these rules, each in a process of its own (internal)
    #[arg(long, hide = true, value_delimiter = ',')]
    attempt: Vec<String>,
    /// Before that, wait until this file is there (internal)
    #[arg(long, hide = true)]
    after: Option<PathBuf>,
    /// Do one operation and print what became of it (internal)
    #[arg(long, hide = true)]
    operation: Option<String>,
}

/// A rule of the catalogue, as `varmor rules list --output json` says it.
#[derive(Deserialize)]
struct Rule {
    id: String,
    list: String,
    enforcers: Vec<String>,
}

/// A rule and an enforcer.
struct Pair<'r> {
    rule: &'r Rule,
    enforcer: &'r str,
}

/// The first of many policies waits for all of them.
const READY: Duration = Duration::from_mins(10);
const ONE_LOOK: Duration = Duration::from_secs(1);
const ENFORCERS: [&str; 3] = ["AppArmor", "Seccomp", "BPF"];

pub(crate) fn command(args: &Args) -> Result<ExitCode> {
    if let Some(name) = &args.operation {
        println!("{}", serde_json::to_string(&outcome_of(name)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    if !args.attempt.is_empty() {
        return attempt(&args.attempt, args.after.as_deref());
    }
    let catalogue = catalogue()?;
    stage::prepare().context("prepare the guest")?;
    containers::import(&args.image)?;
    let wanted = |rule: &&Rule| args.names.is_empty() || args.names.contains(&rule.id);
    let rules: Vec<&Rule> = catalogue.iter().filter(wanted).collect();
    let tried: Vec<&str> = rules
        .iter()
        .map(|rule| rule.id.as_str())
        .filter(|id| !table::OF_CLUSTERS.contains(id))
        .collect();
    let free = containers::free(&tried).context("without a policy")?;
    let agent = Agent::start(
        Path::new("/usr/local/bin/varmor-agent"),
        Path::new(stage::POLICIES),
        PathBuf::from("/run/rules-agent.log"),
    )?;
    let mut good = true;
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for enforcer in ENFORCERS {
        if args.enforcer.as_ref().is_some_and(|only| only != enforcer) {
            continue;
        }
        let pairs: Vec<Pair<'_>> = rules
            .iter()
            .filter(|rule| rule.enforcers.iter().any(|name| name == enforcer))
            .map(|rule| Pair { rule, enforcer })
            .collect();
        // All at once: the kernel's programs are loaded once for all of them.
        for pair in &pairs {
            pair.write_policy()?;
        }
        for pair in &pairs {
            let outcome = pair.judge(&free, &agent)?;
            good &= outcome != "failed";
            if outcome == "passed" {
                *held.entry(enforcer).or_default() += 1;
            }
        }
        for pair in &pairs {
            fs::remove_file(pair.policy_file())?;
        }
    }
    let counts: Vec<String> = held
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let detail = format!(
        "{} rules on an enforcer, each in a container: {}",
        held.values().sum::<usize>(),
        counts.join(", ")
    );
    say("counts", if good { "passed" } else { "failed" }, detail, 0)?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn catalogue() -> Result<Vec<Rule>> {
    let output = Command::new("/usr/local/bin/varmor")
        .args(["rules", "list", "--output", "json"])
        .output()
        .context("start varmor")?;
    ensure!(output.status.success(), "varmor rules list: {}", output.status);
    serde_json::from_slice(&output.stdout).context("read the catalogue")
}

/// Of `RULE/forbidden` or `RULE/benign`.
fn outcome_of(name: &str) -> Result<Outcome> {
    let (rule, which) = name.split_once('/').context("name RULE/forbidden")?;
    let is_forbidden = which == "forbidden";
    table::outcome_of(rule, is_forbidden)
        .or_else(|| apparmor::outcome_of(rule, is_forbidden))
        .with_context(|| format!("`{rule}` has no entry"))
}

/// Some operations change the process for good, so each gets a fresh one.
fn attempt(rules: &[String], after: Option<&Path>) -> Result<ExitCode> {
    while after.is_some_and(|file| !file.exists()) {
        thread::sleep(Duration::from_millis(50));
    }
    for name in rules
        .iter()
        .flat_map(|rule| ["forbidden", "benign"].map(|which| format!("{rule}/{which}")))
    {
        let output = Command::new("/proc/self/exe")
            .args(["rules", "--operation", &name])
            .output()
            .context("start an operation")?;
        let outcome = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            Outcome::Broken(format!(
                "{}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ))
        });
        println!("{}", serde_json::to_string(&(name, outcome))?);
    }
    Ok(ExitCode::SUCCESS)
}

impl Pair<'_> {
    /// Of the policy and of the container.
    fn name(&self) -> String {
        format!("{}-{}", self.enforcer.to_ascii_lowercase(), self.rule.id)
    }

    fn policy_file(&self) -> String {
        format!("{}/{}.yaml", stage::POLICIES, self.name())
    }

    /// As the agent names what it makes of the policy.
    fn profile(&self) -> String {
        format!("varmor-rules-{}", self.name())
    }

    fn write_policy(&self) -> Result<()> {
        let (name, enforcer, list, id) = (self.name(), self.enforcer, &self.rule.list, &self.rule.id);
        let rules = if list == "attackProtectionRules" {
            format!("[{{rules: [{id}]}}]")
        } else {
            format!("[{id}]")
        };
        let text = format!(
            "apiVersion: crd.varmor.org/v1beta1\nkind: VarmorPolicy\nmetadata: {{name: {name}, namespace: rules}}\nspec:\n  \
             target: {{kind: Pod, selector: {{matchLabels: {{app: {name}}}}}}}\n  policy:\n    enforcer: {enforcer}\n    \
             mode: EnhanceProtect\n    enhanceProtect: {{privileged: true, {list}: {rules}}}\n"
        );
        let fresh = format!("{}/{name}.new", stage::POLICIES);
        fs::write(&fresh, text).with_context(|| format!("write {fresh}"))?;
        fs::rename(&fresh, self.policy_file()).context("put the policy into its folder")
    }

    fn judge(&self, free: &Outcomes, agent: &Agent) -> Result<&'static str> {
        let start = Instant::now();
        let (outcome, detail) = match self.missing() {
            Some(reason) => ("skipped", reason),
            None => match self.tried(free, agent) {
                Ok(()) => ("passed", String::new()),
                Err(error) => ("failed", format!("{error:#}")),
            },
        };
        say(&self.name(), outcome, detail, start.elapsed().as_millis())?;
        Ok(outcome)
    }

    fn missing(&self) -> Option<String> {
        let id = self.rule.id.as_str();
        if table::OF_CLUSTERS.contains(&id) {
            return Some("without a cluster the addresses of the Service are not known".to_owned());
        }
        // What the parser of the guest cannot say the other enforcers can.
        if id == "disallow-create-user-ns" && self.enforcer != "AppArmor" {
            return None;
        }
        apparmor::missing(id)
    }

    fn tried(&self, free: &Outcomes, agent: &Agent) -> Result<()> {
        let name = self.name();
        let profile = self.profile();
        let under = match self.enforcer {
            "AppArmor" => {
                wait(&format!("the profile {profile} is loaded"), || {
                    let loaded = fs::read_to_string("/sys/kernel/security/apparmor/profiles")?;
                    Ok(loaded
                        .lines()
                        .any(|line| line.starts_with(&format!("{profile} "))))
                })?;
                containers::attempt(&name, &self.rule.id, &Confined::AppArmor(&profile), || Ok(()))
            }
            "Seccomp" => {
                let file = format!("/var/lib/kubelet/seccomp/{profile}");
                wait(&format!("the filter {file} is written"), || {
                    Ok(Path::new(&file).exists())
                })?;
                containers::attempt(&name, &self.rule.id, &Confined::Seccomp(&file), || Ok(()))
            }
            "BPF" => containers::attempt(&name, &self.rule.id, &Confined::Bpf, || {
                agent.wait_until_protected(&name, ONE_LOOK)
            }),
            other => bail!("no enforcer `{other}`"),
        }?;
        let of = |outcomes: &Outcomes, which: &str| {
            let name = format!("{}/{which}", self.rule.id);
            outcomes
                .get(&name)
                .cloned()
                .unwrap_or_else(|| Outcome::Broken("not done".to_owned()))
        };
        for which in ["forbidden", "benign"] {
            let outcome = of(free, which);
            ensure!(
                outcome == Outcome::Allowed,
                "{which} without the rule: {outcome:?}"
            );
        }
        let (forbidden, benign) = (of(&under, "forbidden"), of(&under, "benign"));
        ensure!(
            matches!(forbidden, Outcome::Denied(_)),
            "what is forbidden: {forbidden:?}"
        );
        ensure!(benign == Outcome::Allowed, "its neighbour: {benign:?}");
        Ok(())
    }
}

fn wait(what: &str, mut happened: impl FnMut() -> Result<bool>) -> Result<()> {
    let begin = Instant::now();
    while !happened()? {
        ensure!(
            begin.elapsed() < READY,
            "not within {} s: {what}",
            READY.as_secs()
        );
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn say(case: &str, outcome: &'static str, detail: String, ms: u128) -> Result<()> {
    let line = Line {
        suite: "rules",
        case,
        outcome,
        detail,
        ms,
    };
    line.say()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::table::{ENTRIES, OF_CLUSTERS};

    #[test]
    fn a_rule_has_one_entry() {
        let mut names: BTreeSet<&str> = OF_CLUSTERS.iter().copied().collect();
        for entry in ENTRIES {
            assert!(names.insert(entry.rule), "{} twice", entry.rule);
            assert!(
                crate::apparmor::missing(entry.rule).is_none(),
                "{} stands in both tables",
                entry.rule
            );
        }
    }
}

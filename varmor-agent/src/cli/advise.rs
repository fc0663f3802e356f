//! `varmor advise`: a commented policy from answers about a workload, or from a recording of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::json;
use varmor_common::analysis::advice::{self, Advice, Answers, FEATURES};
use varmor_common::policy::{self, DynamicResult, Object};

use super::{Output, policies, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Enforcers that the nodes have: `AppArmor`, `BPF`, `Seccomp` [default: BPF]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    enforcers: Vec<String>,
    /// What the workload has or does; `--list-features` shows the words
    #[arg(long, value_name = "WORD", value_delimiter = ',')]
    features: Vec<String>,
    /// Capabilities that the workload needs
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    capabilities: Vec<String>,
    /// The same answers in a YAML file, with the fields `enforcers`, `features` and `capabilities`
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// A recording of the workload: an `ArmorProfileModel`
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Show what can be said about a workload
    #[arg(long)]
    list_features: bool,
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if arguments.list_features {
        let lines: Vec<String> = FEATURES
            .iter()
            .map(|(name, why)| format!("{name:<28} {why}\n"))
            .collect();
        print(&lines.concat())?;
        return Ok(ExitCode::SUCCESS);
    }
    let advice = advise(arguments)?;
    print(&match arguments.output {
        Output::Text => advice.to_yaml(),
        Output::Json => json(&advice)?,
    })?;
    Ok(ExitCode::SUCCESS)
}

fn advise(arguments: &Arguments) -> anyhow::Result<Advice> {
    let mut answers = match &arguments.answers {
        Some(path) => {
            let name = path.display().to_string();
            let bytes = policies::read(path).with_context(|| format!("read the answers {name}"))?;
            let value = policy::load_yaml(&name, &bytes).map_err(|problems| {
                let lines: Vec<String> = problems.iter().map(policy::render).collect();
                anyhow::anyhow!("{}", lines.join("\n"))
            })?;
            serde_json::from_value(value).with_context(|| format!("read the answers {name}"))?
        }
        None => Answers::default(),
    };
    answers.enforcers.extend(arguments.enforcers.iter().cloned());
    answers.features.extend(arguments.features.iter().cloned());
    answers
        .capabilities
        .extend(arguments.capabilities.iter().cloned());
    let observed = arguments.model.as_deref().map(model).transpose()?;
    Ok(advice::advise(&answers, observed.as_ref())?)
}

fn model(path: &Path) -> anyhow::Result<DynamicResult> {
    let name = path.display().to_string();
    let bytes = policies::read(path).with_context(|| format!("read the model {name}"))?;
    let loaded = policy::load(&name, &bytes);
    if let Some(error) = loaded.diagnostics.iter().find(|found| found.is_error()) {
        bail!("{}", policy::render(error));
    }
    let results = loaded
        .documents
        .into_iter()
        .find_map(|document| match document.object {
            Object::ArmorProfileModel(model) => model.spec.data?.dynamic_result,
            _ => None,
        });
    results.with_context(|| format!("{name} holds no ArmorProfileModel with a recording"))
}

fn json(advice: &Advice) -> anyhow::Result<String> {
    let rules: Vec<&str> = advice.rules.iter().map(|rule| rule.id).collect();
    let left_out: serde_json::Map<String, serde_json::Value> = advice
        .left_out
        .iter()
        .map(|(id, why)| ((*id).to_owned(), why.as_str().into()))
        .collect();
    let value = json!({
        "enforcer": advice.enforcers.to_string(),
        "privileged": advice.privileged,
        "rules": rules,
        "leftOut": left_out,
        "policy": advice.to_yaml(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

//! The command line, and the environment that a Deployment gives its pods.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::admission;

/// Policies of a cluster for the nodes, and their status.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the custom resource definitions as YAML.
    Crds {
        /// Write one file per definition into this folder instead.
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// Run the controller.
    Run(Box<RunOptions>),
    /// Take away what the chart does not know of: policies, profiles, webhooks, certificates.
    Uninstall(UninstallArguments),
}

/// Which installation is taken down.
#[derive(Clone, Debug, Args)]
pub struct UninstallArguments {
    /// Namespace of the controller.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME", default_value = varmor_common::profile::MANAGER_NAMESPACE)]
    pub namespace: String,
    /// Configuration file for the API server; by default the service account of the pod, else the user's.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub options: admission::UninstallOptions,
}

/// How the controller runs.
#[derive(Clone, Debug, Args)]
pub struct RunOptions {
    /// Name of this pod; the identity of this replica.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: String,
    /// Namespace of this pod and of the agents; `ArmorProfile`s of cluster policies live here.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME", default_value = varmor_common::profile::MANAGER_NAMESPACE)]
    pub namespace: String,
    /// Configuration file for the API server; by default the service account of the pod, else the user's.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Where the agents report, over TLS.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8080")]
    pub report_address: SocketAddr,
    /// Where metrics and health are told, without TLS.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8081")]
    pub metrics_address: SocketAddr,
    /// Where the API server asks about admissions, over TLS.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:3443")]
    pub webhook_address: SocketAddr,
    /// Leave admissions alone: no webhook is served or registered.
    #[arg(long)]
    pub no_webhook: bool,
    /// Label that workloads need for the webhook to change them; empty = all workloads.
    #[arg(
        long,
        value_name = "KEY=VALUE",
        default_value = "sandbox.varmor.org/enable=true"
    )]
    pub webhook_match_label: String,
    #[command(flatten)]
    pub admission: admission::Options,
    /// Service account of the agents, in the same namespace; nobody else may report.
    #[arg(long, value_name = "NAME", default_value = "varmor-agent")]
    pub agent_service_account: String,
    /// Labels of the agents' pods.
    #[arg(long, value_name = "SELECTOR", default_value = "app=varmor-agent")]
    pub agent_selector: String,
    /// Name of the Lease by which one replica leads.
    #[arg(long, value_name = "NAME", default_value = "varmor-manager")]
    pub lease: String,
    /// Seconds without renewal after which another replica may lead; the leader gives up after two thirds of them.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u16).range(6..=600))]
    pub lease_duration: u16,
    /// Policies that are worked on at the same time.
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// What is logged, such as `info` or `varmor_controller=debug,info`.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log_level: String,
    /// How it is logged.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RunOptions {
        match Arguments::try_parse_from(text.split_whitespace())
            .unwrap()
            .command
        {
            Command::Run(options) => *options,
            Command::Crds { .. } | Command::Uninstall(_) => panic!("no run"),
        }
    }

    #[test]
    fn defaults_are_those_of_the_chart() {
        let options = parse("varmor-controller run --pod-name p");
        assert_eq!(options.report_address.port(), 8080);
        assert_eq!(options.webhook_address.port(), 3443);
        assert_eq!(
            (options.lease.as_str(), options.namespace.as_str()),
            ("varmor-manager", "varmor")
        );
        assert_eq!(options.agent_selector, "app=varmor-agent");
        assert!(!options.no_webhook);
    }

    #[test]
    fn no_worker_is_refused() {
        let words = "varmor-controller run --pod-name p --workers 0";
        assert!(Arguments::try_parse_from(words.split_whitespace()).is_err());
    }
}

//! The flags of `varmor-agent`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Parser};
use hyper::Uri;
use serde_json::{Map, Value};

use crate::enforcer::WithoutAgent;
use crate::enforcer::seccomp::FilterFlags;
use crate::events::otlp::Endpoint;
use crate::logging::LogFormat;

/// What is added to every violation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata(pub Map<String, Value>);

impl FromStr for Metadata {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // An empty variable is what a chart writes that sets nothing.
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(text)
            .map(Self)
            .map_err(|error| format!("not a JSON object such as `{{\"cluster\": \"a\"}}`: {error}"))
    }
}

/// Protects the containers of this machine as the policies in a folder or in a cluster say.
#[derive(Clone, Debug, Parser)]
#[command(name = "varmor-agent", version)]
#[command(group = ArgGroup::new("source").required(true).args(["policy_dir", "cluster", "kubeconfig", "gatekeeper"]))]
pub struct Options {
    /// Folder with the policies: *.yaml and *.yml; changes are applied at once
    #[arg(long, value_name = "DIR")]
    pub policy_dir: Option<PathBuf>,
    /// Take the policies from the cluster that this pod runs in, by its service account
    #[arg(long)]
    pub cluster: bool,
    /// Take the policies from the cluster that this file names
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Do nothing, and when told to end let containers start without an agent until one is back: for a container beside the
    /// agent in its pod, whose successor could not start if the agent had crashed before
    #[arg(long)]
    pub gatekeeper: bool,
    /// Report to the controller at this address: `https://varmor-status-svc.varmor.svc:8080`
    #[arg(long, value_name = "URL", requires = "token", conflicts_with = "policy_dir")]
    pub controller_url: Option<Uri>,
    /// Certificates (PEM) that the controller's is checked with
    #[arg(long, value_name = "FILE", requires = "controller_url")]
    pub controller_ca: Option<PathBuf>,
    /// The token that this agent shows to the controller, for the audience `varmor-manager`
    #[arg(long, value_name = "FILE", requires = "controller_url")]
    pub token: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// error, warn, info, debug, or a filter such as `info,varmor_agent::source=debug`
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
    #[arg(
        long,
        value_name = "SOCKET",
        default_value = "/run/containerd/containerd.sock"
    )]
    pub containerd_socket: PathBuf,
    /// Name of this machine in violations [default: the host name]
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub node_name: Option<String>,
    #[arg(long, value_name = "FILE", default_value = "/var/log/varmor/violations.log")]
    pub violations_log: PathBuf,
    /// Size in MiB at which the log of violations is put aside
    #[arg(long, value_name = "MIB", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub violations_max_size: u64,
    /// Logs of violations that are kept beside the current one
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub violations_backups: u32,
    /// Also write violations to standard output, as JSON lines
    #[arg(long)]
    pub violations_stdout: bool,
    /// Also send violations as OpenTelemetry logs to this collector: `http://127.0.0.1:4318`
    #[arg(long, value_name = "URL")]
    pub otlp_endpoint: Option<Endpoint>,
    /// JSON object that is added to every violation, as `metadata`
    #[arg(long, value_name = "JSON", env = "AUDIT_EVENT_METADATA")]
    pub audit_event_metadata: Option<Metadata>,
    /// Serve /metrics, /healthz and /readyz at this address
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_address: Option<SocketAddr>,
    /// Folder for the lock and the reports that `varmor status` reads
    #[arg(long, value_name = "DIR", default_value = "/run/varmor")]
    pub state_dir: PathBuf,
    /// Folder for what policies of the mode `BehaviorModeling` record, and for the models made of it
    #[arg(long, value_name = "DIR", default_value = "/var/lib/varmor/models")]
    pub model_dir: PathBuf,
    /// Folder where container runtimes look for seccomp profiles; only files named `varmor-*` are touched
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/seccomp")]
    pub seccomp_dir: PathBuf,
    /// What the runtimes of this node do with a seccomp filter that has flags; only where they take it (runc since 1.2, crun)
    /// the refusals of policies with `auditViolations` are logged
    #[arg(long, value_enum, default_value_t)]
    pub seccomp_flags: FilterFlags,
    /// Folder on the BPF filesystem where programs and maps are pinned
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/varmor")]
    pub bpffs: PathBuf,
    /// What happens to a container that starts while no agent runs
    #[arg(long, value_enum, default_value_t)]
    pub without_agent: WithoutAgent,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn flags_are_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn one_source_of_policies_is_required() {
        assert!(Options::try_parse_from(["varmor-agent"]).is_err());
        assert!(Options::try_parse_from(["varmor-agent", "--policy-dir", "/p", "--cluster"]).is_err());
        assert!(
            Options::try_parse_from(["varmor-agent", "--cluster", "--controller-url", "https://c"]).is_err()
        );
        let report = ["--controller-url", "https://c", "--token", "/t"];
        assert!(Options::try_parse_from(["varmor-agent", "--cluster"].into_iter().chain(report)).is_ok());
        let options =
            Options::try_parse_from(["varmor-agent", "--policy-dir", "/p", "--log-format", "json"]).unwrap();
        assert_eq!(options.log_format, LogFormat::Json);
        assert_eq!(options.bpffs, PathBuf::from("/sys/fs/bpf/varmor"));
        assert_eq!(options.metrics_address, None);
        assert_eq!(options.seccomp_dir, PathBuf::from("/var/lib/kubelet/seccomp"));
    }

    #[test]
    fn bad_metadata_is_an_error_at_the_start() {
        let parse = |text: &str| {
            Options::try_parse_from([
                "varmor-agent",
                "--policy-dir",
                "/p",
                "--audit-event-metadata",
                text,
            ])
        };
        let good = parse(r#"{"cluster": "a"}"#)
            .unwrap()
            .audit_event_metadata
            .unwrap();
        assert_eq!(good.0["cluster"], "a");
        assert!(parse("").unwrap().audit_event_metadata.unwrap().0.is_empty());
        for bad in ["{", "[]", "\"text\""] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains("not a JSON object"), "{error}");
        }
    }

    #[test]
    fn collector_must_be_reachable_without_tls() {
        let parse = |url: &str| {
            Options::try_parse_from(["varmor-agent", "--policy-dir", "/p", "--otlp-endpoint", url])
        };
        assert!(parse("http://127.0.0.1:4318").is_ok());
        let error = parse("https://collector:4318").unwrap_err().to_string();
        assert!(error.contains("only http"), "{error}");
    }
}

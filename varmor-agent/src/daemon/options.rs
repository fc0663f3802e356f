//! The flags of `varmor-agent`.

use std::path::PathBuf;

use clap::Parser;

use crate::enforcer::bpf::WithoutAgent;
use crate::logging::LogFormat;

/// Protects the containers of this machine as the policies in a folder say.
#[derive(Clone, Debug, Parser)]
#[command(name = "varmor-agent", version)]
pub struct Options {
    /// Folder with the policies: *.yaml and *.yml; changes are applied at once
    #[arg(long, value_name = "DIR")]
    pub policy_dir: PathBuf,
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
    /// Folder for the lock and the reports that `varmor status` reads
    #[arg(long, value_name = "DIR", default_value = "/run/varmor")]
    pub state_dir: PathBuf,
    /// Folder where container runtimes look for seccomp profiles; only files named `varmor-*` are touched
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet/seccomp")]
    pub seccomp_dir: PathBuf,
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
    fn policy_folder_is_required() {
        assert!(Options::try_parse_from(["varmor-agent"]).is_err());
        let options =
            Options::try_parse_from(["varmor-agent", "--policy-dir", "/p", "--log-format", "json"]).unwrap();
        assert_eq!(options.log_format, LogFormat::Json);
        assert_eq!(options.bpffs, PathBuf::from("/sys/fs/bpf/varmor"));
        assert_eq!(options.seccomp_dir, PathBuf::from("/var/lib/kubelet/seccomp"));
    }
}

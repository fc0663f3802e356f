//! The options of admission and of its certificate.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

/// What the API server does when no replica answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum FailurePolicy {
    /// The object is admitted as it is.
    Ignore,
    /// The object is refused.
    Fail,
}

impl FailurePolicy {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Fail => "Fail",
        }
    }
}

/// Options of admission.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What happens to workloads and pods when no replica answers: with `Ignore` they are admitted without protection.
    #[arg(long, value_enum, ignore_case = true, default_value = "Ignore")]
    pub failure_policy: FailurePolicy,

    /// What happens to policies when no replica answers: with `Ignore` they are admitted without a check.
    #[arg(long, value_enum, ignore_case = true, default_value = "Fail")]
    pub validation_failure_policy: FailurePolicy,

    /// How long the API server waits for an answer, in seconds; 30 is the most that Kubernetes allows.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=30))]
    pub webhook_timeout: u8,

    /// Where the API server finds the webhooks when the controller runs outside of the cluster: `https://name:port`.
    #[arg(long, value_name = "URL")]
    pub webhook_url: Option<String>,

    /// Another DNS name or address that the certificate is for; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub certificate_name: Vec<String>,
}

impl Options {
    /// Every name of `--certificate-name`, and the one in `--webhook-url`.
    pub(super) fn all_names(&self) -> Vec<String> {
        let url = self.webhook_url.as_deref().and_then(host);
        self.certificate_name.iter().cloned().chain(url).collect()
    }
}

/// The labels (`key=value`, separated by commas) that a workload or pod must carry to be protected; none = every one is.
pub(super) fn opt_in(text: &str) -> Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for pair in text.split(',').map(str::trim) {
        match pair.split_once('=') {
            _ if pair.is_empty() => {}
            Some((key, value)) if !key.trim().is_empty() && !value.contains('=') => {
                labels.insert(key.trim().to_owned(), value.trim().to_owned());
            }
            _ => bail!("--webhook-match-label: `{pair}` is no label; write key=value"),
        }
    }
    Ok(labels)
}

/// The host in a URL.
fn host(url: &str) -> Option<String> {
    let rest = url.strip_prefix("https://")?;
    let authority = rest.split('/').next()?;
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None => authority.split(':').next()?,
    };
    Some(host.to_owned()).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        Command::parse_from(["test"].iter().chain(arguments)).options
    }

    #[test]
    fn by_default_policies_are_checked_or_refused_and_workloads_go_on() {
        let options = options(&[]);
        assert_eq!(
            (options.failure_policy, options.validation_failure_policy),
            (FailurePolicy::Ignore, FailurePolicy::Fail)
        );
    }

    #[test]
    fn labels_are_read_and_nonsense_is_refused() {
        let label = ("sandbox.varmor.org/enable".to_owned(), "true".to_owned());
        assert_eq!(
            opt_in("sandbox.varmor.org/enable=true").expect("valid"),
            BTreeMap::from([label])
        );
        assert!(opt_in("").expect("none").is_empty());
        assert_eq!(opt_in("a=b, c=d").expect("two").len(), 2);
        assert!(opt_in("a").is_err());
    }

    #[test]
    fn the_host_of_the_url_is_in_the_certificate() {
        for (url, expected) in [
            ("https://controller.example:3443/", "controller.example"),
            ("https://[fd00::1]:3443", "fd00::1"),
            ("https://10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(options(&["--webhook-url", url]).all_names(), [expected]);
        }
    }
}

//! The agent's own log: text or JSON lines on standard error, its level to be changed while it runs.

use std::fmt;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    /// One JSON object per line, the fields of an event at the top level.
    Json,
}

type Change = dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync;

/// The filter of the installed log.
pub struct LogLevel {
    change: Box<Change>,
}

impl LogLevel {
    /// Changes the filter from now on.
    pub fn set(&self, level: &str) -> anyhow::Result<()> {
        (self.change)(filter(level)?)?;
        Ok(())
    }

    /// A filter that nobody logs through.
    #[cfg(test)]
    pub(crate) fn of_nothing() -> Self {
        Self {
            change: Box::new(|_| Ok(())),
        }
    }
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLevel").finish_non_exhaustive()
    }
}

/// Installs the log; `level` is `info` or a filter such as `info,varmor_agent::source=debug`.
pub fn install(format: LogFormat, level: &str) -> anyhow::Result<LogLevel> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(level)?)
        .with_writer(std::io::stderr);
    let change: Box<Change> = match format {
        LogFormat::Text => {
            let builder = builder.with_ansi(false).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |filter| handle.reload(filter))
        }
        LogFormat::Json => {
            let builder = builder
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(false)
                .with_filter_reloading();
            let handle = builder.reload_handle();
            builder.init();
            Box::new(move |filter| handle.reload(filter))
        }
    };
    Ok(LogLevel { change })
}

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(level)
        .map_err(|error| anyhow::anyhow!("log level `{level}`: {error}; use error, warn, info or debug"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters_are_read() {
        for level in ["info", "warn,varmor_agent::source=debug", "trace"] {
            assert!(filter(level).is_ok(), "{level}");
        }
        let error = filter("info,=x=").unwrap_err().to_string();
        assert!(error.contains("use error, warn, info or debug"), "{error}");
    }
}

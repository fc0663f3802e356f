//! The limit of locked memory that the command had before this process lifted its own: before 5.11 maps and programs
//! count as locked memory, and what the loader needs is not the command's to inherit.

use std::fmt;
use std::str::FromStr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const UNLIMITED: &str = "unlimited";

/// Written as `CURRENT:MAXIMUM`, in bytes or `unlimited`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LockedMemory {
    current: Option<u64>,
    maximum: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no limit of locked memory: CURRENT:MAXIMUM, in bytes or `unlimited`")]
pub(super) struct NotALimit(String);

impl LockedMemory {
    pub(super) fn of_this_process() -> Self {
        let Rlimit { current, maximum } = getrlimit(Resource::Memlock);
        Self { current, maximum }
    }

    pub(super) fn set(&self) -> rustix::io::Result<()> {
        setrlimit(
            Resource::Memlock,
            Rlimit {
                current: self.current,
                maximum: self.maximum,
            },
        )
    }
}

impl fmt::Display for LockedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |limit: Option<u64>| limit.map_or(UNLIMITED.to_owned(), |bytes| bytes.to_string());
        write!(f, "{}:{}", text(self.current), text(self.maximum))
    }
}

impl FromStr for LockedMemory {
    type Err = NotALimit;

    fn from_str(text: &str) -> Result<Self, NotALimit> {
        let refused = || NotALimit(text.to_owned());
        let limit = |text: &str| match text {
            UNLIMITED => Ok(None),
            bytes => bytes.parse().map(Some).map_err(|_| refused()),
        };
        let (current, maximum) = text.split_once(':').ok_or_else(refused)?;
        Ok(Self {
            current: limit(current)?,
            maximum: limit(maximum)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LockedMemory;

    #[test]
    fn a_limit_survives_the_command_line() {
        for text in ["65536:65536", "8388608:unlimited", "unlimited:unlimited"] {
            assert_eq!(text.parse::<LockedMemory>().unwrap().to_string(), text);
        }
        for text in ["", "1", "1:", "a:b", "-1:2"] {
            assert!(text.parse::<LockedMemory>().is_err(), "{text}");
        }
    }
}

//! How long profiles took to load, for the metrics.

use std::time::Duration;

/// One profile that was loaded, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub enforcer: &'static str,
    pub is_loaded: bool,
    pub took: Duration,
}

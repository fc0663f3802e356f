//! What an enforcer answers when it cannot do what it was asked.

use thiserror::Error;

use super::CgroupId;

#[derive(Debug, Error)]
pub enum EnforcerError {
    #[error("profile `{0}` is not loaded")]
    UnknownProfile(String),
    #[error("profile `{profile}` is still used by {bindings} containers")]
    ProfileInUse { profile: String, bindings: usize },
    #[error("profile `{profile}` does not fit the kernel tables: {reason}")]
    TooLarge { profile: String, reason: String },
    #[error("no room for another {what}: at most {limit} at a time; remove unused policies or containers")]
    Full { what: &'static str, limit: u32 },
    #[error("cgroup {cgroup} cannot be protected: {reason}")]
    Cgroup { cgroup: CgroupId, reason: String },
    #[error("this kernel cannot run the BPF enforcer: {reason}")]
    Unsupported { reason: String },
    #[error("profile `{profile}` cannot be used: {reason}")]
    Refused { profile: String, reason: String },
    #[error("the enforcer {enforcer} is not available: {reason}")]
    Missing { enforcer: &'static str, reason: String },
    #[error("{operation}")]
    Kernel {
        operation: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl EnforcerError {
    /// A kernel operation that failed: `operation` names the object (write map "profiles").
    pub fn kernel(
        operation: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Kernel {
            operation: operation.into(),
            source: source.into(),
        }
    }
}

//! Raw rules of the Seccomp enforcer: the OCI runtime specification's `LinuxSyscall`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens at some system calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyscallRawRule {
    /// Names of the system calls.
    pub names: Vec<String>,
    /// `SCMP_ACT_*`.
    #[schemars(regex(pattern = "^SCMP_ACT_(ALLOW|ERRNO|KILL|KILL_PROCESS|KILL_THREAD|LOG|TRAP)$"))]
    pub action: String,
    /// The error number of `SCMP_ACT_ERRNO`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno_ret: Option<u32>,
    /// Conditions on the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<SyscallArg>,
}

/// A condition on one argument of a system call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyscallArg {
    /// Index of the argument, 0 to 5.
    #[schemars(range(min = 0, max = 5))]
    pub index: u32,
    /// The value that the argument is compared with, or the mask of `SCMP_CMP_MASKED_EQ`.
    pub value: u64,
    /// The value of `SCMP_CMP_MASKED_EQ`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_two: Option<u64>,
    /// `SCMP_CMP_*`.
    #[schemars(regex(pattern = "^SCMP_CMP_(NE|LT|LE|EQ|GE|GT|MASKED_EQ)$"))]
    pub op: String,
}

//! Questions about policies, answered without a kernel: what is in the catalogue, what a policy decides and why, what
//! is odd about it, how two policies differ, which policy fits a workload.

pub mod advice;
pub mod catalogue;
mod decision;
mod difference;
pub mod lint;
mod operation;
mod paths;
mod recorded;
#[cfg(test)]
mod tests;

pub use decision::{Cause, Decision, Judge, JudgeError, Outcome};
pub use difference::{Change, Comparison, Direction, compare};
pub use operation::{Operation, OperationError};
pub use recorded::{Recorded, Unusable};

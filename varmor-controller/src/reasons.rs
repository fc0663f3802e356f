//! The constant words of conditions and Events.

/// The policy says something that cannot be followed.
pub const INVALID: &str = "Invalid";
/// The change is not allowed.
pub const FORBIDDEN: &str = "Forbidden";
/// Something failed and is tried again.
pub const ERROR: &str = "Error";
/// No profile name is left.
pub const NAME_TAKEN: &str = "ProfileNameTaken";
/// The policy asks for a model that is not there.
pub const NO_MODEL: &str = "ModelMissing";
/// The `ArmorProfile` is marked for deletion although its policy exists.
pub const PROFILE_DELETED: &str = "ProfileDeleted";
/// Every node has the profile.
pub const READY: &str = "AllAgentsReady";
/// Nodes are at it.
pub const PROCESSING: &str = "Processing";
/// Nodes have not spoken for too long.
pub const NODES_LOST: &str = "NodesLost";
/// No node has an agent.
pub const NO_NODES: &str = "NoNodes";
/// Everything is as the policy says.
pub const DONE: &str = "Done";

//! Ports as users write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A port or a range of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.endPort) || self.endPort >= self.port", "message": "endPort is below port"}
]))]
pub struct Port {
    /// The port, or the first port of the range.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The last port of the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub end_port: Option<u16>,
}

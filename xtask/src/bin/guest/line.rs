//! What a suite says about a case: one JSON line, which the lab counts.

use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct Line<'a> {
    pub(crate) suite: &'a str,
    pub(crate) case: &'a str,
    /// `passed`, `failed` or `skipped`.
    pub(crate) outcome: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
    pub(crate) ms: u128,
}

impl Line<'_> {
    pub(crate) fn say(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

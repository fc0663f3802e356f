//! What an agent takes of the processor when nothing happens, in a guest whose clock counts instructions.

use anyhow::{Result, ensure};

use super::{
    Scale,
    lab::{Claims, Node},
    many, usage,
};

/// A thousandth of a processor of 3 GHz that runs one instruction per cycle. Those of servers run more.
const PER_SECOND: u64 = 3_000_000;

pub(super) fn run(scale: &Scale, claims: &mut Claims) -> Result<()> {
    let node = Node::start(scale)?;
    let what = many::fill(scale, "node-idle")?;
    claims.claim(
        "the agent needs less than a thousandth of a processor when nothing happens",
        usage::idle_time(&node).and_then(|per_second| {
            let text = format!("{per_second} instructions a second with {what}");
            ensure!(per_second <= PER_SECOND, "{text}");
            Ok(text)
        }),
    );
    Ok(())
}

//! Site numbers: one per distinct set of rules that speak at one place.

use hashbrown::HashMap;

use super::{Site, SiteRule};
use crate::profile::Verdict;

/// The site table in the making. Site 0 is no site.
pub(super) struct Sites {
    table: Vec<Site>,
    numbers: HashMap<Vec<(u8, u32, u32)>, u32>,
}

impl Default for Sites {
    fn default() -> Self {
        Self {
            table: vec![Site::default()],
            numbers: HashMap::new(),
        }
    }
}

impl Sites {
    /// The site of these rules. Rules that only allow stand behind no event and are left out.
    pub(super) fn number(&mut self, mut rules: Vec<SiteRule>) -> u32 {
        rules.retain(|rule| rule.verdict != Verdict::Allow);
        rules.sort_unstable_by_key(order);
        rules.dedup();
        if rules.is_empty() {
            return 0;
        }
        *self
            .numbers
            .entry(rules.iter().map(order).collect())
            .or_insert_with(|| {
                self.table.push(Site { rules });
                u32::try_from(self.table.len() - 1).expect("there are fewer sites than states and points")
            })
    }

    pub(super) fn into_vec(self) -> Vec<Site> {
        self.table
    }
}

/// Denying rules first, then in the order of the policy.
fn order(rule: &SiteRule) -> (u8, u32, u32) {
    let verdict = match rule.verdict {
        Verdict::Deny => 0,
        Verdict::Audit => 1,
        Verdict::Allow => 2,
    };
    (verdict, rule.rule, rule.permissions)
}

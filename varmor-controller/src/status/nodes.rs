//! What the nodes have said last. Memory grows with nodes and with problems, not with their product.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use varmor_common::report::{NodeReport, ProfileState, REPORT_LOST};

/// Longest message of a node that is kept; a node that is not itself any more shall not fill the memory.
const MESSAGE: usize = 512;

/// The table of nodes.
#[derive(Debug, Default)]
pub struct Nodes {
    pods: BTreeMap<String, AgentPod>,
    by_name: BTreeMap<String, Node>,
    /// By uid of the profile, then by node.
    exceptions: HashMap<String, BTreeMap<String, Exception>>,
    version: u64,
    reports: u64,
}

/// The pod of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPod {
    pub uid: String,
    pub node: String,
}

#[derive(Debug)]
struct Node {
    /// Agents that run there; more than one only while they are replaced.
    pods: usize,
    /// Since when an agent is expected to speak.
    since: Instant,
    report: Option<Heard>,
}

#[derive(Debug)]
struct Heard {
    at: Instant,
    synced: u64,
    /// Profiles that have an entry in `exceptions`.
    uids: Vec<String>,
}

/// A profile that a node has not in force as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    pub generation: i64,
    pub state: ProfileState,
    pub message: String,
}

/// The table at one moment, prepared for many questions.
#[derive(Debug, Default)]
pub struct Census {
    /// What each node that speaks has synced up to, in order.
    pub(super) synced: Vec<u64>,
    pub(super) by_node: HashMap<String, u64>,
    /// Nodes with an agent.
    pub desired: usize,
    /// Nodes whose agent has not spoken for too long.
    pub lost: Vec<String>,
    /// Nodes whose agent has yet to speak for the first time.
    pub unheard: usize,
}

/// How far one profile is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub desired: usize,
    pub loaded: usize,
    /// Nodes that have refused the present generation, or hold it in part.
    pub problems: Vec<(String, Exception)>,
    /// Those of the loaded ones that still record, or whose model is not here yet.
    pub recording: usize,
}

impl Tally {
    /// No node that counts is without it, and there is one.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        self.desired > 0 && self.loaded >= self.desired
    }
}

impl Nodes {
    /// A pod of an agent came, moved or went.
    pub fn set_pod(&mut self, name: &str, pod: Option<AgentPod>, now: Instant) {
        let old = match &pod {
            Some(pod) if self.pods.get(name) == Some(pod) => return,
            Some(pod) => self.pods.insert(name.to_owned(), pod.clone()),
            None => self.pods.remove(name),
        };
        self.version += 1;
        if let Some(node) = old.and_then(|old| self.by_name.get_mut(&old.node)) {
            node.pods = node.pods.saturating_sub(1);
        }
        if let Some(pod) = pod {
            let node = self.node(&pod.node, now);
            if node.pods == 0 {
                node.since = now;
            }
            node.pods += 1;
        }
    }

    #[must_use]
    pub fn pod(&self, name: &str) -> Option<&AgentPod> {
        self.pods.get(name)
    }

    pub fn pods(&self) -> impl Iterator<Item = &String> {
        self.pods.keys()
    }

    /// A node has spoken; whether that has changed anything but the time.
    pub fn hear(&mut self, report: NodeReport, now: Instant) -> bool {
        self.reports += 1;
        let name = report.node;
        let old = self.node(&name, now).report.take();
        let mut is_news = old.as_ref().is_none_or(|old| old.synced != report.synced);
        let mut gone = old.map(|old| old.uids).unwrap_or_default();
        let mut uids = Vec::with_capacity(report.exceptions.len());
        for one in report.exceptions {
            gone.retain(|uid| *uid != one.uid);
            let exception = Exception {
                generation: one.generation,
                state: one.state,
                message: cut(one.message),
            };
            let nodes = self.exceptions.entry(one.uid.clone()).or_default();
            is_news |= nodes.insert(name.clone(), exception.clone()) != Some(exception);
            uids.push(one.uid);
        }
        is_news |= !gone.is_empty();
        self.forget(&name, &gone);
        uids.sort_unstable();
        uids.dedup();
        self.node(&name, now).report = Some(Heard {
            at: now,
            synced: report.synced,
            uids,
        });
        self.version += u64::from(is_news);
        is_news
    }

    /// Drops nodes without an agent that have been silent for long.
    pub fn sweep(&mut self, now: Instant) {
        let is_gone =
            |node: &Node| node.pods == 0 && node.report.as_ref().is_none_or(|report| is_lost(report.at, now));
        let names: Vec<String> = self
            .by_name
            .iter()
            .filter(|(_, node)| is_gone(node))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            let report = self.by_name.remove(&name).and_then(|node| node.report);
            self.forget(&name, &report.map(|report| report.uids).unwrap_or_default());
        }
    }

    /// Changes when a question may have another answer; silence aside.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Reports since the start.
    #[must_use]
    pub fn reports(&self) -> u64 {
        self.reports
    }

    #[must_use]
    pub fn census(&self, now: Instant) -> Census {
        let mut census = Census::default();
        for (name, node) in self.by_name.iter().filter(|(_, node)| node.pods > 0) {
            census.desired += 1;
            match &node.report {
                Some(report) if !is_lost(report.at, now) => {
                    census.synced.push(report.synced);
                    census.by_node.insert(name.clone(), report.synced);
                }
                None if !is_lost(node.since, now) => census.unheard += 1,
                _ => census.lost.push(name.clone()),
            }
        }
        census.synced.sort_unstable();
        census
    }

    /// How far the profile with this uid is, whose present generation was written at `spec_version`.
    #[must_use]
    pub fn tally(&self, census: &Census, uid: &str, generation: i64, spec_version: u64) -> Tally {
        let behind = census.synced.partition_point(|synced| *synced < spec_version);
        let mut tally = Tally {
            desired: census.desired,
            loaded: census.synced.len() - behind,
            problems: Vec::new(),
            recording: 0,
        };
        for (node, exception) in self.exceptions.get(uid).into_iter().flatten() {
            let Some(synced) = census.by_node.get(node) else {
                continue;
            };
            let is_present = exception.generation == generation && *synced >= spec_version;
            if exception.state == ProfileState::Recording && is_present {
                tally.recording += 1;
                continue;
            }
            // Whatever generation the node speaks of: it does not say that it has the present one.
            tally.loaded -= usize::from(*synced >= spec_version);
            if exception.generation == generation
                && !matches!(exception.state, ProfileState::Pending | ProfileState::Recording)
            {
                tally.problems.push((node.clone(), exception.clone()));
            }
        }
        tally
    }

    fn node(&mut self, name: &str, now: Instant) -> &mut Node {
        self.by_name.entry(name.to_owned()).or_insert(Node {
            pods: 0,
            since: now,
            report: None,
        })
    }

    fn forget(&mut self, node: &str, uids: &[String]) {
        for uid in uids {
            if let Some(nodes) = self.exceptions.get_mut(uid) {
                nodes.remove(node);
                if nodes.is_empty() {
                    self.exceptions.remove(uid);
                }
            }
        }
    }
}

fn is_lost(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) > Duration::from_secs(REPORT_LOST)
}

fn cut(mut message: String) -> String {
    if message.len() > MESSAGE {
        let end = message.floor_char_boundary(MESSAGE);
        message.truncate(end);
        message.push_str("...");
    }
    message.shrink_to_fit();
    message
}

#[cfg(test)]
mod tests;

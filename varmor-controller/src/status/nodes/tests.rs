//! A profile counts as loaded only where a node says so, about this very generation.

use varmor_common::report::ProfileReport;

use super::*;

fn pods(nodes: &mut Nodes, names: &[&str], now: Instant) {
    for name in names {
        let pod = AgentPod {
            uid: format!("uid-{name}"),
            node: (*name).to_owned(),
        };
        nodes.set_pod(&format!("agent-{name}"), Some(pod), now);
    }
}

fn report(node: &str, synced: u64, exceptions: &[(&str, i64, ProfileState)]) -> NodeReport {
    NodeReport {
        node: node.to_owned(),
        synced,
        exceptions: exceptions
            .iter()
            .map(|(uid, generation, state)| ProfileReport {
                namespace: "a".to_owned(),
                name: "p".to_owned(),
                uid: (*uid).to_owned(),
                generation: *generation,
                state: *state,
                message: "no BPF".to_owned(),
            })
            .collect(),
        ..NodeReport::default()
    }
}

fn tally(nodes: &Nodes, now: Instant, generation: i64, version: u64) -> (usize, usize, usize) {
    let tally = nodes.tally(&nodes.census(now), "u", generation, version);
    (tally.desired, tally.loaded, tally.problems.len())
}

#[test]
fn an_old_report_does_not_make_a_new_generation_ready() {
    let (mut nodes, now) = (Nodes::default(), Instant::now());
    pods(&mut nodes, &["n1", "n2"], now);
    assert!(nodes.hear(report("n1", 100, &[]), now));
    assert!(nodes.hear(report("n2", 100, &[]), now));
    assert_eq!(tally(&nodes, now, 1, 100), (2, 2, 0));
    assert_eq!(tally(&nodes, now, 2, 101), (2, 0, 0), "both have yet to see it");
    nodes.hear(report("n1", 105, &[]), now);
    assert_eq!(tally(&nodes, now, 2, 101), (2, 1, 0));
    assert!(!nodes.hear(report("n1", 105, &[]), now), "nothing new");
}

#[test]
fn a_node_that_names_the_profile_has_it_not() {
    let (mut nodes, now) = (Nodes::default(), Instant::now());
    pods(&mut nodes, &["n1", "n2", "n3"], now);
    nodes.hear(report("n1", 100, &[("u", 2, ProfileState::Failed)]), now);
    nodes.hear(report("n2", 100, &[("u", 1, ProfileState::Failed)]), now);
    nodes.hear(
        report(
            "n3",
            100,
            &[("u", 2, ProfileState::Pending), ("v", 1, ProfileState::Failed)],
        ),
        now,
    );
    assert_eq!(
        tally(&nodes, now, 2, 90),
        (3, 0, 1),
        "an old failure is no failure of this generation"
    );
    nodes.hear(report("n1", 100, &[]), now);
    nodes.hear(report("n2", 80, &[("u", 1, ProfileState::Failed)]), now);
    assert_eq!(
        tally(&nodes, now, 2, 90),
        (3, 1, 0),
        "a node that is behind is not counted twice"
    );
    nodes.hear(report("n2", 90, &[]), now);
    nodes.hear(report("n3", 100, &[]), now);
    assert_eq!(tally(&nodes, now, 2, 90), (3, 3, 0));
    assert!(nodes.exceptions.is_empty(), "nothing is kept of what is over");
}

#[test]
fn a_node_that_records_has_the_profile_and_is_not_finished() {
    let (mut nodes, now) = (Nodes::default(), Instant::now());
    pods(&mut nodes, &["n1", "n2", "n3"], now);
    nodes.hear(report("n1", 100, &[("u", 2, ProfileState::Recording)]), now);
    nodes.hear(report("n2", 100, &[("u", 1, ProfileState::Recording)]), now);
    nodes.hear(report("n3", 100, &[]), now);
    let counted = |nodes: &Nodes| nodes.tally(&nodes.census(now), "u", 2, 90).recording;
    assert_eq!(
        (tally(&nodes, now, 2, 90), counted(&nodes)),
        ((3, 2, 0), 1),
        "the second speaks of what was there before"
    );
    nodes.hear(report("n1", 100, &[]), now);
    nodes.hear(report("n2", 100, &[]), now);
    assert_eq!((tally(&nodes, now, 2, 90), counted(&nodes)), ((3, 3, 0), 0));
}

#[test]
fn silence_is_not_consent() {
    let (mut nodes, now) = (Nodes::default(), Instant::now());
    assert!(
        !nodes.tally(&nodes.census(now), "u", 1, 1).is_everywhere(),
        "no node is no protection"
    );
    pods(&mut nodes, &["n1", "n2"], now);
    nodes.hear(report("n1", 100, &[]), now);
    assert_eq!((nodes.census(now).unheard, nodes.census(now).lost.len()), (1, 0));
    assert_eq!(tally(&nodes, now, 1, 1), (2, 1, 0));
    let later = now + Duration::from_secs(REPORT_LOST + 1);
    assert_eq!(nodes.census(later).lost, ["n1", "n2"]);
    assert_eq!(tally(&nodes, later, 1, 1), (2, 0, 0));
}

#[test]
fn a_node_counts_as_long_as_it_has_an_agent() {
    let (mut nodes, now) = (Nodes::default(), Instant::now());
    pods(&mut nodes, &["n1"], now);
    nodes.hear(report("n1", 100, &[("u", 1, ProfileState::Degraded)]), now);
    nodes.hear(report("stranger", 100, &[]), now);
    assert_eq!(
        tally(&nodes, now, 1, 1),
        (1, 0, 1),
        "a node without an agent does not count"
    );
    let second = AgentPod {
        uid: "x".to_owned(),
        node: "n1".to_owned(),
    };
    nodes.set_pod("agent-2", Some(second), now);
    nodes.set_pod("agent-n1", None, now);
    assert_eq!(nodes.census(now).desired, 1);
    nodes.set_pod("agent-2", None, now);
    assert_eq!(nodes.census(now).desired, 0);
    nodes.sweep(now + Duration::from_secs(REPORT_LOST + 1));
    assert!(nodes.by_name.is_empty() && nodes.exceptions.is_empty());
}

#[test]
fn long_messages_are_cut_between_letters() {
    assert_eq!(cut("short".to_owned()), "short");
    assert!(cut("ä".repeat(MESSAGE)).len() <= MESSAGE + 3);
}

#[test]
fn five_thousand_nodes_and_ten_thousand_profiles_are_counted_quickly() {
    let (mut nodes, now) = (Nodes::default(), Instant::now());
    for number in 0..5000_u64 {
        let name = format!("n{number}");
        pods(&mut nodes, &[&name], now);
        nodes.hear(report(&name, 1000 + number, &[]), now);
    }
    let started = Instant::now();
    let census = nodes.census(now);
    let loaded: usize = (0..10_000)
        .map(|version| nodes.tally(&census, "u", 1, version).loaded)
        .sum();
    assert_eq!(loaded, 1001 * 5000 + (0..5000).sum::<usize>());
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
}

//! Files come, turn bad, clash and go.

use super::*;

fn policy_text(name: &str, path: &str) -> String {
    format!(
        "apiVersion: crd.varmor.org/v1beta1
kind: VarmorPolicy
metadata: {{name: {name}, namespace: demo}}
spec:
  target: {{kind: Pod, selector: {{matchLabels: {{app: {name}}}}}}}
  policy:
    enforcer: BPF
    mode: EnhanceProtect
    enhanceProtect:
      privileged: true
      bpfRawRules:
        files:
        - {{qualifiers: [deny], pattern: {path}, permissions: [read]}}
"
    )
}

fn listing(files: &[(&str, &str)]) -> BTreeMap<String, FileText> {
    files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), Ok(text.as_bytes().to_vec())))
        .collect()
}

fn state(catalog: &Catalog, file: &str) -> (FileState, String) {
    let status = catalog.status(file).expect("the file is known");
    (status.state, status.message.clone())
}

fn patterns(catalog: &Catalog) -> Vec<String> {
    catalog
        .objects()
        .flat_map(|object| &object.profile.rules)
        .filter_map(|rule| match &rule.object {
            varmor_common::profile::Object::Path { pattern, .. } => Some(pattern.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn good_file_is_in_force_and_reported_once() {
    let mut catalog = Catalog::new(NodeFacts::default());
    let files = listing(&[("a.yaml", &policy_text("web", "/etc/shadow"))]);
    assert_eq!(catalog.update(files.clone()), ["a.yaml"]);
    assert_eq!(state(&catalog, "a.yaml").0, FileState::Ok);
    assert_eq!(patterns(&catalog), ["/etc/shadow"]);
    assert_eq!(catalog.update(files), [""; 0], "nothing changed");
}

#[test]
fn bad_file_keeps_the_last_good_version_and_does_not_stop_others() {
    let mut catalog = Catalog::new(NodeFacts::default());
    catalog.update(listing(&[
        ("a.yaml", &policy_text("a", "/one")),
        ("b.yaml", &policy_text("b", "/two")),
    ]));
    let broken = policy_text("a", "/one").replace("mode: EnhanceProtect", "mode: Nonsense");
    let changed = catalog.update(listing(&[
        ("a.yaml", &broken),
        ("b.yaml", &policy_text("b", "/three")),
    ]));
    assert_eq!(changed, ["a.yaml", "b.yaml"]);
    let (state, message) = state(&catalog, "a.yaml");
    assert_eq!(state, FileState::Invalid);
    assert!(message.contains("last good version stays in force"), "{message}");
    assert_eq!(patterns(&catalog), ["/one", "/three"]);
}

#[test]
fn file_that_was_never_good_puts_nothing_in_force() {
    let mut catalog = Catalog::new(NodeFacts::default());
    catalog.update(listing(&[("a.yaml", "kind: [")]));
    let (state, message) = state(&catalog, "a.yaml");
    assert_eq!(state, FileState::Invalid);
    assert!(message.contains("nothing from this file"), "{message}");
    assert_eq!(catalog.objects().count(), 0);
}

#[test]
fn one_bad_document_leaves_the_whole_file_at_its_last_good_version() {
    let mut catalog = Catalog::new(NodeFacts::default());
    let two =
        |first: &str, second: &str| format!("{}---\n{}", policy_text("a", first), policy_text("b", second));
    catalog.update(listing(&[("a.yaml", &two("/one", "/two"))]));
    let broken =
        two("/changed", "/two").replacen("kind: Pod, selector: {matchLabels: {app: b}}", "kind: Pod", 1);
    catalog.update(listing(&[("a.yaml", &broken)]));
    assert_eq!(patterns(&catalog), ["/one", "/two"]);
}

#[test]
fn unreadable_file_keeps_the_last_good_version() {
    let mut catalog = Catalog::new(NodeFacts::default());
    catalog.update(listing(&[("a.yaml", &policy_text("a", "/one"))]));
    catalog.update(BTreeMap::from([(
        "a.yaml".to_owned(),
        Err("permission denied".to_owned()),
    )]));
    assert_eq!(state(&catalog, "a.yaml").0, FileState::Invalid);
    assert_eq!(patterns(&catalog), ["/one"]);
}

#[test]
fn removed_file_takes_its_policies_along_and_may_come_back() {
    let mut catalog = Catalog::new(NodeFacts::default());
    let files = listing(&[("a.yaml", &policy_text("a", "/one"))]);
    catalog.update(files.clone());
    assert_eq!(catalog.update(BTreeMap::new()), ["a.yaml"]);
    assert_eq!(state(&catalog, "a.yaml").0, FileState::Removed);
    assert_eq!(catalog.objects().count(), 0);
    assert_eq!(catalog.update(BTreeMap::new()), [""; 0]);
    catalog.update(files);
    assert_eq!(patterns(&catalog), ["/one"]);
}

#[test]
fn object_in_two_files_is_an_error_that_names_both() {
    let mut catalog = Catalog::new(NodeFacts::default());
    catalog.update(listing(&[("b.yaml", &policy_text("web", "/one"))]));
    catalog.update(listing(&[
        ("a.yaml", &policy_text("web", "/two")),
        ("b.yaml", &policy_text("web", "/one")),
    ]));
    let (state, message) = state(&catalog, "a.yaml");
    assert_eq!(state, FileState::Invalid);
    assert!(
        message.contains("`a.yaml`") && message.contains("`b.yaml`"),
        "{message}"
    );
    assert_eq!(patterns(&catalog), ["/one"], "the file that was first keeps it");

    catalog.update(listing(&[("a.yaml", &policy_text("web", "/two"))]));
    assert_eq!(patterns(&catalog), ["/two"], "the clash is over");
}

#[test]
fn object_may_move_to_another_file_in_one_step() {
    for (from, to) in [("a.yaml", "b.yaml"), ("b.yaml", "a.yaml")] {
        let mut catalog = Catalog::new(NodeFacts::default());
        let (web, other, third) = (
            policy_text("web", "/w"),
            policy_text("other", "/o"),
            policy_text("third", "/t"),
        );
        catalog.update(listing(&[(from, &web), (to, &other)]));
        catalog.update(listing(&[(from, &third), (to, &web)]));
        let states: Vec<_> = catalog.files().map(|(_, status)| status.state).collect();
        assert_eq!(states, [FileState::Ok, FileState::Ok], "from {from} to {to}");
    }
}

#[test]
fn objects_with_one_profile_name_clash() {
    let mut catalog = Catalog::new(NodeFacts::default());
    let first = policy_text("b-c", "/one").replace("namespace: demo", "namespace: a");
    let second = policy_text("c", "/two").replace("namespace: demo", "namespace: a-b");
    catalog.update(listing(&[("1.yaml", &first), ("2.yaml", &second)]));
    let (state, message) = state(&catalog, "2.yaml");
    assert_eq!(state, FileState::Invalid);
    assert!(message.contains("varmor-a-b-c"), "{message}");
}

#[test]
fn only_texts_in_force_are_saved() {
    let mut catalog = Catalog::new(NodeFacts::default());
    let good = policy_text("a", "/one");
    catalog.update(listing(&[("a.yaml", &good), ("b.yaml", "nonsense")]));
    assert_eq!(catalog.take_unsaved(), [("a.yaml".to_owned(), good.into_bytes())]);
    assert!(catalog.take_unsaved().is_empty());
}

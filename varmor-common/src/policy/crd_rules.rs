//! Tests: what the API server refuses by itself, as the definitions tell it.

use kube::CustomResourceExt;
use serde_json::Value;

use super::{VarmorClusterPolicy, VarmorPolicy};

/// The API server refuses a definition whose rules could cost more than this, each and all together, in its own units.
const MOST_PER_RULE: u64 = 10_000_000;
const MOST: u64 = 100_000_000;

/// A rule reads two or three fields; this is what that costs.
const COST: u64 = 8;

fn spec(crd: &impl serde::Serialize) -> Value {
    let crd = serde_json::to_value(crd).expect("a definition is JSON");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

fn at<'v>(schema: &'v Value, path: &str) -> &'v Value {
    path.split('.')
        .filter(|part| !part.is_empty())
        .fold(schema, |here, part| match part {
            "[]" => &here["items"],
            name => &here["properties"][name],
        })
}

fn rules(schema: &Value) -> Vec<&str> {
    let rules = schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten();
    rules.filter_map(|rule| rule["rule"].as_str()).collect()
}

const EGRESS: &str = "policy.enhanceProtect.bpfRawRules.network.egress";

#[test]
fn mistakes_are_refused_without_a_webhook() {
    for spec in [spec(&VarmorPolicy::crd()), spec(&VarmorClusterPolicy::crd())] {
        for (path, rule) in [
            (String::new(), "self.target == oldSelf.target"),
            ("target".to_owned(), "has(self.name) != has(self.selector)"),
            (
                "policy".to_owned(),
                "self.mode != 'EnhanceProtect' || has(self.enhanceProtect)",
            ),
            (
                "policy".to_owned(),
                "self.mode != 'BehaviorModeling' || has(self.modelingOptions)",
            ),
            (
                "policy".to_owned(),
                "self.mode != 'DefenseInDepth' || has(self.defenseInDepth)",
            ),
            (
                format!("{EGRESS}.toDestinations.[]"),
                "!(has(self.ip) && has(self.cidr))",
            ),
            (
                format!("{EGRESS}.toServices.[]"),
                "has(self.name) != has(self.serviceSelector)",
            ),
            (
                format!("{EGRESS}.toDestinations.[].ports.[]"),
                "!has(self.endPort) || self.endPort >= self.port",
            ),
            (
                "policy.defenseInDepth.bpf.customProfile.network.egress.toDestinations.[]".to_owned(),
                "!(has(self.ip) && has(self.cidr))",
            ),
        ] {
            let schema = at(&spec, &path);
            assert!(rules(schema).contains(&rule), "{path}: {schema}");
        }
    }
}

#[test]
fn words_and_numbers_are_limited() {
    let spec = spec(&VarmorPolicy::crd());
    let modes = at(&spec, "policy.mode")["enum"].as_array().map(Vec::len);
    let kinds = at(&spec, "target.kind")["enum"].as_array().map(Vec::len);
    assert_eq!((modes, kinds), (Some(5), Some(4)));
    let action = &at(&spec, "policy.enhanceProtect.syscallRawRules.[].action")["pattern"];
    assert!(action.as_str().is_some_and(|pattern| pattern.contains("ERRNO")));
    assert_eq!(at(&spec, "target.containers")["maxItems"], 64);
    assert_eq!(at(&spec, "target.containers.[]")["maxLength"], 63);
    let qualifier = at(&spec, &format!("{EGRESS}.toDestinations.[].qualifiers.[]"));
    assert_eq!(qualifier["pattern"], "(?i)^(allow|deny|audit)$");
    assert_eq!(
        at(&spec, "policy.modelingOptions.duration")["minimum"].as_f64(),
        Some(1.0)
    );
}

/// A list without a limit would make every rule below it too expensive.
#[test]
fn rules_are_cheap_enough_for_the_api_server() {
    let mut total = 0;
    count(&spec(&VarmorPolicy::crd()), 1, "spec", &mut total);
    assert!(total < MOST, "{total}");
}

fn count(schema: &Value, times: u64, path: &str, total: &mut u64) {
    for rule in rules(schema) {
        let cost = times.saturating_mul(COST);
        assert!(cost < MOST_PER_RULE, "{path}: {rule} may cost {cost}");
        *total += cost;
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        count(property, times, &format!("{path}.{name}"), total);
    }
    if schema["items"].is_object() {
        let most = schema["maxItems"].as_u64().unwrap_or(1_000_000);
        count(
            &schema["items"],
            times.saturating_mul(most),
            &format!("{path}[]"),
            total,
        );
    }
}

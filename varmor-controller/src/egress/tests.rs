//! Addresses follow the cluster: what is added is there, what is gone is gone.

use serde_json::json;

use super::*;

fn name(namespace: &str, name: &str) -> Name {
    (namespace.to_owned(), name.to_owned())
}

fn service(object: serde_json::Value) -> (Name, Service) {
    read_service(serde_json::from_value(object).unwrap()).unwrap()
}

fn slice(object: serde_json::Value) -> (Name, Slice) {
    read_slice(serde_json::from_value(object).unwrap()).unwrap()
}

fn web(addresses: &mut Addresses) {
    let (key, one) = service(
        json!({"metadata": {"namespace": "a", "name": "web", "labels": {"app": "web"}},
        "spec": {"clusterIPs": ["10.96.0.7", "fd00::7"]}}),
    );
    assert!(addresses.set_service(key, Some(one)).is_some());
    let (key, one) = slice(json!({"metadata": {"namespace": "a", "name": "web-1",
        "labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"addresses": ["10.1.0.2"]}, {"addresses": ["10.1.0.1"]}],
        "ports": [{"port": 443}, {"port": 80}]}));
    assert_eq!(addresses.set_slice(key, Some(one)).len(), 1);
}

fn shown(addresses: &Addresses, peer: &EgressPeer) -> String {
    let texts: Vec<String> = addresses
        .of(peer)
        .destinations
        .iter()
        .map(|one| {
            let ports: Vec<String> = one.ports.iter().map(|port| port.port.to_string()).collect();
            format!("{}:{}", one.ip, ports.join(","))
        })
        .collect();
    texts.join(" ")
}

#[test]
fn a_service_is_its_addresses_and_its_endpoints_with_their_ports() {
    let mut addresses = Addresses::default();
    web(&mut addresses);
    let peer = EgressPeer::service("a", "web");
    assert_eq!(
        shown(&addresses, &peer),
        "10.1.0.1:80,443 10.1.0.2:80,443 10.96.0.7: fd00::7:"
    );
    assert_eq!(shown(&addresses, &EgressPeer::service("b", "web")), "");
    let by_label: EgressPeer =
        serde_json::from_value(json!({"services": {"selector": {"matchLabels": {"app": "web"}}}})).unwrap();
    assert_eq!(shown(&addresses, &by_label), shown(&addresses, &peer));
}

#[test]
fn what_is_gone_is_taken_back_and_nothing_else() {
    let mut addresses = Addresses::default();
    web(&mut addresses);
    let peer = EgressPeer::service("a", "web");
    let (_, mut one) = slice(json!({"metadata": {"namespace": "a", "name": "web-1",
        "labels": {"kubernetes.io/service-name": "web"}}, "endpoints": [{"addresses": ["10.1.0.9"]}], "ports": []}));
    assert_eq!(
        addresses.set_slice(name("a", "web-1"), Some(one.clone())).len(),
        1
    );
    assert_eq!(shown(&addresses, &peer), "10.1.0.9: 10.96.0.7: fd00::7:");
    assert!(
        addresses
            .set_slice(name("a", "web-1"), Some(one.clone()))
            .is_empty(),
        "nothing has changed"
    );
    one.service = "other".to_owned();
    let changes = addresses.set_slice(name("a", "web-1"), Some(one));
    assert_eq!(changes.len(), 2, "both Services are concerned");
    assert_eq!(shown(&addresses, &peer), "10.96.0.7: fd00::7:");
    addresses.set_slice(name("a", "web-1"), None);
    addresses.set_service(name("a", "web"), None);
    assert_eq!(shown(&addresses, &peer), "");
    assert!(addresses.by_service.is_empty());
}

#[test]
fn finished_pods_have_no_address_and_lost_labels_count() {
    let mut addresses = Addresses::default();
    let pod = |phase: &str, label: &str| {
        read_pod(
            serde_json::from_value(
                json!({"metadata": {"namespace": "a", "name": "p", "labels": {"app": label}}, "spec": {},
            "status": {"phase": phase, "podIPs": [{"ip": "10.1.0.5"}]}}),
            )
            .unwrap(),
        )
        .unwrap()
    };
    let peer: EgressPeer = serde_json::from_value(
        json!({"pods": {"namespace": "a", "selector": {"matchLabels": {"app": "x"}}}}),
    )
    .unwrap();
    let (key, running) = pod("Running", "x");
    let change = addresses.set_pod(key.clone(), running).unwrap();
    assert!(concerns(&change, &peer));
    assert_eq!(shown(&addresses, &peer), "10.1.0.5:");
    let (key, relabelled) = pod("Running", "y");
    let change = addresses.set_pod(key, relabelled).unwrap();
    assert!(concerns(&change, &peer), "the old labels were the peer's");
    assert_eq!(shown(&addresses, &peer), "");
    let (key, again) = pod("Running", "x");
    addresses.set_pod(key, again);
    let (key, finished) = pod("Failed", "x");
    assert!(finished.is_none());
    assert!(addresses.set_pod(key.clone(), finished).is_some());
    assert!(addresses.set_pod(key, None).is_none());
    assert_eq!(shown(&addresses, &peer), "");
}

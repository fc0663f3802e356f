//! The addresses behind the Services and Pods that rules name.

mod objects;

pub use objects::{PodObject, ServiceObject, SliceObject, core_resource, read_pod, read_service, read_slice};

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use varmor_common::policy::{EgressAddress, EgressAddresses, EgressPeer, PeerSelector, Port};

use crate::selector::holds;

/// Namespace and name.
pub type Name = (String, String);

type Labels = BTreeMap<String, String>;

/// What is known of the cluster's addresses.
#[derive(Debug, Default)]
pub struct Addresses {
    services: BTreeMap<Name, Service>,
    slices: BTreeMap<Name, Slice>,
    /// The slices of each Service.
    by_service: BTreeMap<Name, BTreeSet<String>>,
    pods: BTreeMap<Name, Pod>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    pub labels: Labels,
    pub addresses: Vec<IpAddr>,
}

/// An `EndpointSlice`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The Service that it belongs to, in the same namespace.
    pub service: String,
    pub addresses: Vec<IpAddr>,
    /// Empty = every port.
    pub ports: Vec<u16>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub labels: Labels,
    pub addresses: Vec<IpAddr>,
}

/// What has changed, before and after: whom it may concern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Service { name: Name, labels: Vec<Labels> },
    Pod { namespace: String, labels: Vec<Labels> },
}

impl Addresses {
    pub fn set_service(&mut self, name: Name, service: Option<Service>) -> Option<Change> {
        let labels = replace(&mut self.services, &name, service)?
            .into_iter()
            .map(|service| service.labels)
            .collect();
        Some(Change::Service { name, labels })
    }

    pub fn set_slice(&mut self, name: Name, slice: Option<Slice>) -> Vec<Change> {
        let Some(versions) = replace(&mut self.slices, &name, slice.clone()) else {
            return Vec::new();
        };
        let mut services: Vec<Name> = versions
            .into_iter()
            .map(|slice| (name.0.clone(), slice.service))
            .collect();
        services.dedup();
        for service in &services {
            if let Some(slices) = self.by_service.get_mut(service) {
                slices.remove(&name.1);
                if slices.is_empty() {
                    self.by_service.remove(service);
                }
            }
        }
        if let Some(slice) = slice {
            let service = (name.0.clone(), slice.service);
            self.by_service.entry(service).or_default().insert(name.1);
        }
        let known = |service: &Name| self.services.get(service).map(|one| one.labels.clone());
        services
            .into_iter()
            .map(|name| Change::Service {
                labels: known(&name).into_iter().collect(),
                name,
            })
            .collect()
    }

    pub fn set_pod(&mut self, name: Name, pod: Option<Pod>) -> Option<Change> {
        let labels = replace(&mut self.pods, &name, pod)?
            .into_iter()
            .map(|pod| pod.labels)
            .collect();
        Some(Change::Pod {
            namespace: name.0,
            labels,
        })
    }

    pub fn services(&self) -> impl Iterator<Item = &Name> {
        self.services.keys()
    }

    pub fn slices(&self) -> impl Iterator<Item = &Name> {
        self.slices.keys()
    }

    pub fn pods(&self) -> impl Iterator<Item = &Name> {
        self.pods.keys()
    }

    /// The present addresses of a peer; always in the same order for the same cluster.
    #[must_use]
    pub fn of(&self, peer: &EgressPeer) -> EgressAddresses {
        let mut found = BTreeSet::new();
        if let Some(service) = &peer.service {
            self.add_service(&(service.namespace.clone(), service.name.clone()), &mut found);
        }
        if let Some(selector) = &peer.services {
            for (name, _) in chosen(&self.services, selector, |service| &service.labels) {
                self.add_service(name, &mut found);
            }
        }
        if let Some(selector) = &peer.pods {
            for (_, pod) in chosen(&self.pods, selector, |pod| &pod.labels) {
                found.extend(pod.addresses.iter().map(|ip| address(*ip, &[])));
            }
        }
        EgressAddresses {
            peer: peer.clone(),
            destinations: found.into_iter().collect(),
        }
    }

    fn add_service(&self, name: &Name, found: &mut BTreeSet<EgressAddress>) {
        if let Some(service) = self.services.get(name) {
            found.extend(service.addresses.iter().map(|ip| address(*ip, &[])));
        }
        for slice in self.by_service.get(name).into_iter().flatten() {
            let Some(slice) = self.slices.get(&(name.0.clone(), slice.clone())) else {
                continue;
            };
            found.extend(slice.addresses.iter().map(|ip| address(*ip, &slice.ports)));
        }
    }
}

/// Whether a change may be one of the peer's addresses.
#[must_use]
pub fn concerns(change: &Change, peer: &EgressPeer) -> bool {
    let hit = |selector: &PeerSelector, namespace: &str, labels: &[Labels]| {
        selector.namespace.as_deref().is_none_or(|one| one == namespace)
            && labels.iter().any(|labels| holds(&selector.selector, labels))
    };
    match change {
        Change::Service { name, labels } => {
            peer.service
                .as_ref()
                .is_some_and(|service| service.namespace == name.0 && service.name == name.1)
                || peer
                    .services
                    .as_ref()
                    .is_some_and(|selector| hit(selector, &name.0, labels))
        }
        Change::Pod { namespace, labels } => peer
            .pods
            .as_ref()
            .is_some_and(|selector| hit(selector, namespace, labels)),
    }
}

/// The old and the new value, if they differ.
fn replace<T: Clone + PartialEq>(map: &mut BTreeMap<Name, T>, name: &Name, new: Option<T>) -> Option<Vec<T>> {
    let old = match &new {
        Some(new) if map.get(name) == Some(new) => return None,
        Some(new) => map.insert(name.clone(), new.clone()),
        None => Some(map.remove(name)?),
    };
    Some(old.into_iter().chain(new).collect())
}

fn chosen<'m, T>(
    map: &'m BTreeMap<Name, T>,
    selector: &'m PeerSelector,
    labels: impl Fn(&T) -> &Labels + 'm,
) -> impl Iterator<Item = (&'m Name, &'m T)> {
    let start = (selector.namespace.clone().unwrap_or_default(), String::new());
    map.range(start..)
        .take_while(|(name, _)| selector.namespace.as_ref().is_none_or(|one| *one == name.0))
        .filter(move |(_, one)| holds(&selector.selector, labels(one)))
}

fn address(ip: IpAddr, ports: &[u16]) -> EgressAddress {
    let mut ports: Vec<u16> = ports.to_vec();
    ports.sort_unstable();
    ports.dedup();
    EgressAddress {
        ip: ip.to_canonical(),
        ports: ports
            .into_iter()
            .map(|port| Port { port, end_port: None })
            .collect(),
    }
}

#[cfg(test)]
mod tests;

//! What is read of Services, `EndpointSlice`s and Pods; everything else is left on the wire.

use std::net::IpAddr;

use kube::core::{ApiResource, NotUsed, Object, ObjectMeta, gvk::GroupVersionKind};
use serde::{Deserialize, Serialize};

use super::{Name, Pod, Service, Slice};

/// The label by which a slice says whose it is.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

pub type ServiceObject = Object<ServiceSpec, NotUsed>;
pub type PodObject = Object<NotUsed, PodStatus>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    #[serde(default, rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    #[serde(default)]
    pub phase: String,
    #[serde(default, rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PodIp {
    #[serde(default)]
    pub ip: String,
}

/// An `EndpointSlice`, which has no `spec`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SliceObject {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub endpoints: Option<Vec<Endpoint>>,
    #[serde(default)]
    pub ports: Option<Vec<EndpointPort>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Endpoint {
    #[serde(default)]
    pub addresses: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndpointPort {
    #[serde(default)]
    pub port: Option<i32>,
}

impl kube::Resource for SliceObject {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "EndpointSlice".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "discovery.k8s.io".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "endpointslices".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// `Service` or `Pod`.
#[must_use]
pub fn core_resource(kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), &plural)
}

#[must_use]
pub fn read_service(object: ServiceObject) -> Option<(Name, Service)> {
    let service = Service {
        labels: object.metadata.labels.unwrap_or_default(),
        // `None` is what a headless Service has.
        addresses: addresses(&object.spec.cluster_ips),
    };
    Some(((object.metadata.namespace?, object.metadata.name?), service))
}

/// A slice that belongs to no Service is none that a rule can mean.
#[must_use]
pub fn read_slice(object: SliceObject) -> Option<(Name, Slice)> {
    let endpoints = object.endpoints.unwrap_or_default();
    let ports = object.ports.unwrap_or_default();
    let is_every_port = ports.iter().any(|port| port.port.is_none());
    let slice = Slice {
        service: object.metadata.labels.unwrap_or_default().remove(SERVICE_NAME)?,
        addresses: endpoints
            .iter()
            .flat_map(|one| addresses(&one.addresses))
            .collect(),
        ports: if is_every_port {
            Vec::new()
        } else {
            ports
                .iter()
                .filter_map(|port| u16::try_from(port.port?).ok())
                .collect()
        },
    };
    Some(((object.metadata.namespace?, object.metadata.name?), slice))
}

/// The name alone for a pod that has finished: its addresses may be somebody else's by now.
#[must_use]
pub fn read_pod(object: PodObject) -> Option<(Name, Option<Pod>)> {
    let status = object.status.unwrap_or_default();
    let is_finished = matches!(status.phase.as_str(), "Succeeded" | "Failed");
    let texts: Vec<String> = status.pod_ips.into_iter().map(|one| one.ip).collect();
    let pod = Pod {
        labels: object.metadata.labels.unwrap_or_default(),
        addresses: addresses(&texts),
    };
    let name = (object.metadata.namespace?, object.metadata.name?);
    Some((name, (!is_finished).then_some(pod)))
}

fn addresses(texts: &[String]) -> Vec<IpAddr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

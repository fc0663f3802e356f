//! The tables of Services, `EndpointSlice`s and Pods.

use kube::ResourceExt as _;

use super::Table;
use crate::context::Context;
use crate::egress;

pub(super) struct ServiceTable<'c> {
    pub(super) context: &'c Context,
}

impl Table for ServiceTable<'_> {
    type Object = egress::ServiceObject;
    type Key = egress::Name;

    fn set(&mut self, object: Self::Object) -> Option<egress::Name> {
        let (name, service) = egress::read_service(object)?;
        let change = self
            .context
            .world()
            .addresses
            .set_service(name.clone(), Some(service));
        self.context.address_changed(change);
        Some(name)
    }

    fn key(&self, object: &Self::Object) -> Option<egress::Name> {
        Some((object.namespace()?, object.name_any()))
    }

    fn remove(&mut self, key: &egress::Name) {
        let change = self.context.world().addresses.set_service(key.clone(), None);
        self.context.address_changed(change);
    }

    fn keys(&self) -> Vec<egress::Name> {
        self.context.world().addresses.services().cloned().collect()
    }
}

pub(super) struct SliceTable<'c> {
    pub(super) context: &'c Context,
}

impl Table for SliceTable<'_> {
    type Object = egress::SliceObject;
    type Key = egress::Name;

    fn set(&mut self, object: Self::Object) -> Option<egress::Name> {
        let name = self.key(&object)?;
        let slice = egress::read_slice(object).map(|(_, slice)| slice);
        let changes = self.context.world().addresses.set_slice(name.clone(), slice);
        self.context.address_changed(changes);
        Some(name)
    }

    fn key(&self, object: &Self::Object) -> Option<egress::Name> {
        Some((object.namespace()?, object.name_any()))
    }

    fn remove(&mut self, key: &egress::Name) {
        let changes = self.context.world().addresses.set_slice(key.clone(), None);
        self.context.address_changed(changes);
    }

    fn keys(&self) -> Vec<egress::Name> {
        self.context.world().addresses.slices().cloned().collect()
    }
}

pub(super) struct PodTable<'c> {
    pub(super) context: &'c Context,
}

impl Table for PodTable<'_> {
    type Object = egress::PodObject;
    type Key = egress::Name;

    fn set(&mut self, object: Self::Object) -> Option<egress::Name> {
        let (name, pod) = egress::read_pod(object)?;
        let change = self.context.world().addresses.set_pod(name.clone(), pod);
        self.context.address_changed(change);
        Some(name)
    }

    fn key(&self, object: &Self::Object) -> Option<egress::Name> {
        Some((object.namespace()?, object.name_any()))
    }

    fn remove(&mut self, key: &egress::Name) {
        let change = self.context.world().addresses.set_pod(key.clone(), None);
        self.context.address_changed(change);
    }

    fn keys(&self) -> Vec<egress::Name> {
        self.context.world().addresses.pods().cloned().collect()
    }
}

//! Which policies: where they come from and which version of each is in force.

mod catalog;
pub mod cluster;
pub mod folder;
mod last_good;
mod reading;

pub use catalog::{Catalog, FileState, FileStatus, PolicyObject};
use cluster::Cluster;
use folder::{Folder, FolderError};

/// Where the policies of this machine come from.
#[derive(Debug)]
pub enum Source {
    Folder(Folder),
    Cluster(Cluster),
}

/// What a scan found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Texts whose status changed.
    pub changed: Vec<String>,
    /// One was being written: scan again soon.
    pub unsettled: bool,
    /// Nothing is known yet of what there is.
    pub unread: bool,
}

impl Source {
    /// Takes in what changed. An error leaves everything as it was.
    pub fn scan(&mut self) -> Result<Scan, FolderError> {
        match self {
            Self::Folder(folder) => folder.scan(),
            Self::Cluster(cluster) => Ok(cluster.scan()),
        }
    }

    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        match self {
            Self::Folder(folder) => folder.catalog(),
            Self::Cluster(cluster) => cluster.catalog(),
        }
    }

    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Folder(_) => None,
            Self::Cluster(cluster) => Some(cluster),
        }
    }
}

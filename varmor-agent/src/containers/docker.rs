//! What Docker knows about its containers and does not tell containerd: labels, name and image, from the file that it
//! keeps for each (`config.v2.json`), written when the container is created.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// containerd's namespace of Docker's containers.
pub(super) const NAMESPACE: &str = "moby";
/// Where Docker keeps its data unless it is told otherwise.
pub(super) const ROOT: &str = "/var/lib/docker";
/// Docker's own limit of a request body is 4 MiB; so much of a container is configuration.
const MAX_FILE: u64 = 8 << 20;
const ID_LENGTH: usize = 64;

/// A container as Docker's command line shows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigFile {
    #[serde(default)]
    name: String,
    config: Config,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    #[serde(default)]
    image: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

/// Reads the file of a container. An error also where the id is none of Docker's: it becomes a path.
pub(super) fn describe(root: &Path, id: &str) -> io::Result<Described> {
    let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_id {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not an id of a Docker container",
        ));
    }
    let path: PathBuf = root.join("containers").join(id).join("config.v2.json");
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE).read_to_string(&mut text)?;
    let file: ConfigFile = serde_json::from_str(&text)?;
    Ok(Described {
        name: file.name.trim_start_matches('/').to_owned(),
        image: file.config.image,
        labels: file.config.labels.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn labels_name_and_image_are_in_the_file() {
        let root = tempfile::tempdir().unwrap();
        let id = "4a1f".repeat(16);
        let folder = root.path().join("containers").join(&id);
        fs::create_dir_all(&folder).unwrap();
        let text = r#"{"ID":"x","Name":"/web","Config":{"Image":"nginx:1","Labels":{"app":"web"},"Env":[]},"State":{}}"#;
        fs::write(folder.join("config.v2.json"), text).unwrap();
        let described = describe(root.path(), &id).unwrap();
        assert_eq!(
            (described.name.as_str(), described.image.as_str()),
            ("web", "nginx:1")
        );
        assert_eq!(described.labels["app"], "web");
        fs::write(folder.join("config.v2.json"), "{").unwrap();
        assert!(describe(root.path(), &id).is_err());
    }

    #[test]
    fn what_is_no_id_becomes_no_path() {
        let root = tempfile::tempdir().unwrap();
        for id in [
            "",
            "..",
            "../../etc",
            &"A".repeat(64),
            &"4".repeat(63),
            &format!("{}/", "4".repeat(63)),
        ] {
            let error = describe(root.path(), id).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{id}");
        }
    }
}

//! The list of what is in an image: SPDX 2.3 as JSON, from what cargo resolved.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{process, workspace};

/// The same input gives the same bytes, so the list has no time of its own.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// The list of one program: its own package, every package that is linked into it, and these Debian packages.
pub(crate) fn of(program: &str, debian: &[(String, String)]) -> Result<String> {
    let manifest = workspace::root().join("Cargo.toml");
    let text = process::output(
        "cargo",
        [
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
            "--manifest-path",
            &manifest.to_string_lossy(),
        ],
    )?;
    let metadata: Value = serde_json::from_str(&text).context("read what cargo resolved")?;
    let list = list(program, &metadata, debian).with_context(|| format!("list what {program} is made of"))?;
    Ok(serde_json::to_string_pretty(&list).context("print the list")? + "\n")
}

fn list(program: &str, metadata: &Value, debian: &[(String, String)]) -> Result<Value> {
    let packages: BTreeMap<&str, &Value> = array(&metadata["packages"])
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let root = packages
        .iter()
        .find(|(_, package)| package["name"] == program)
        .map(|(id, _)| *id)
        .context("cargo knows no package of that name")?;
    let mut listed = Vec::new();
    let mut relations = vec![json!({
        "spdxElementId": "SPDXRef-DOCUMENT",
        "relationshipType": "DESCRIBES",
        "relatedSpdxElement": identifier("cargo", program, text(&packages[root]["version"])),
    })];
    for id in linked(root, &metadata["resolve"]) {
        let package = packages
            .get(id.as_str())
            .context("cargo resolved a package that it does not describe")?;
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let licence = text(&package["license"]).replace('/', " OR ");
        listed.push(entry("cargo", name, version, &licence));
        if id != root {
            relations.push(contains(
                program,
                text(&packages[root]["version"]),
                &identifier("cargo", name, version),
            ));
        }
    }
    for (name, version) in debian {
        listed.push(entry("deb", name, version, ""));
        relations.push(contains(
            program,
            text(&packages[root]["version"]),
            &identifier("deb", name, version),
        ));
    }
    listed.sort_by_key(|entry| text(&entry["SPDXID"]).to_owned());
    relations.sort_by_key(|relation| text(&relation["relatedSpdxElement"]).to_owned());
    Ok(json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": program,
        "documentNamespace": format!("urn:varmor:{program}:{}", text(&packages[root]["version"])),
        "creationInfo": { "created": CREATED, "creators": ["Tool: cargo xtask image"] },
        "packages": listed,
        "relationships": relations,
    }))
}

/// The packages whose code is in the program: what only builds or tests it is not.
fn linked(root: &str, resolve: &Value) -> BTreeSet<String> {
    let nodes: BTreeMap<&str, &Value> = array(&resolve["nodes"])
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut found = BTreeSet::from([root.to_owned()]);
    let mut queue = VecDeque::from([root.to_owned()]);
    while let Some(id) = queue.pop_front() {
        let Some(node) = nodes.get(id.as_str()) else {
            continue;
        };
        for dependency in array(&node["deps"]) {
            let is_linked = array(&dependency["dep_kinds"])
                .iter()
                .any(|kind| kind["kind"].is_null());
            let package = text(&dependency["pkg"]);
            if is_linked && found.insert(package.to_owned()) {
                queue.push_back(package.to_owned());
            }
        }
    }
    found
}

fn entry(kind: &str, name: &str, version: &str, licence: &str) -> Value {
    let vendor = if kind == "deb" { "debian/" } else { "" };
    json!({
        "SPDXID": identifier(kind, name, version),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": if licence.is_empty() { "NOASSERTION" } else { licence },
        "copyrightText": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": format!("pkg:{kind}/{vendor}{name}@{}", version.replace('+', "%2B")),
        }],
    })
}

fn contains(program: &str, version: &str, other: &str) -> Value {
    json!({
        "spdxElementId": identifier("cargo", program, version),
        "relationshipType": "CONTAINS",
        "relatedSpdxElement": other,
    })
}

/// Letters, digits, dots and hyphens are all that an identifier may have.
fn identifier(kind: &str, name: &str, version: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        }
    };
    let words: String = format!("{name}-{version}").chars().map(plain).collect();
    format!("SPDXRef-{kind}-{words}")
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::list;

    #[test]
    fn what_only_builds_or_tests_a_program_is_not_in_it() {
        let package =
            |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0" });
        let dependency =
            |name: &str, kind: Option<&str>| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("app"), package("library"), package("tester"), package("builder")],
            "resolve": { "nodes": [
                { "id": "app", "deps": [
                    dependency("library", None), dependency("tester", Some("dev")), dependency("builder", Some("build")),
                ] },
                { "id": "library", "deps": [] },
            ] },
        });
        let debian = [("libc6".to_owned(), "2.36+x".to_owned())];
        let list = list("app", &metadata, &debian).expect("a list");
        let names: Vec<_> = list["packages"]
            .as_array()
            .expect("packages")
            .iter()
            .map(|one| one["name"].clone())
            .collect();
        assert_eq!(names, ["app", "library", "libc6"]);
        assert_eq!(list["packages"][1]["licenseDeclared"], "MIT OR Apache-2.0");
        assert_eq!(list["relationships"].as_array().map(Vec::len), Some(3));
    }
}

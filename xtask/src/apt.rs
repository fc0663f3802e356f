//! A private apt: packages of other Debian suites, without touching the machine's own apt.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{
    process::{self, Run},
    workspace,
};

const SOURCES: &str = "/etc/apt";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Suites that only the Debian archive itself has: they tell its entry from those of other vendors.
const DEBIAN_SUITES: &[&str] = &[
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];
const LISTS_MAX_AGE: Duration = Duration::from_hours(24);

/// The packages of one suite.
pub(crate) struct Suite {
    name: &'static str,
    folder: PathBuf,
}

impl Suite {
    /// Opens the suite and reads its package lists when they are older than a day.
    pub(crate) fn open(name: &'static str) -> Result<Self> {
        let folder = workspace::cache().join("apt").join(name);
        for part in ["lists/partial", "cache/archives/partial"] {
            workspace::make_dir(&folder.join(part))?;
        }
        let sources = archives()?
            .iter()
            .map(|uri| source_line(uri, name))
            .collect::<String>();
        workspace::write_file(&folder.join("sources.list"), sources)?;
        let suite = Self { name, folder };
        let stamp = suite.folder.join("updated");
        let age = fs::metadata(&stamp)
            .and_then(|about| about.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        if age.is_none_or(|age| age > LISTS_MAX_AGE) {
            Run::new(&format!("apt-{name}"), "apt-get")
                .args(suite.options())
                .args(["-o", "APT::Update::Error-Mode=any", "update"])
                .run()
                .with_context(|| format!("read the package lists of Debian {name}"))?;
            workspace::write_file(&stamp, "")?;
        }
        Ok(suite)
    }

    /// The packages that `package` depends on (itself included) whose names satisfy `wanted`.
    pub(crate) fn closure(&self, package: &str, wanted: impl Fn(&str) -> bool) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::from([package.to_owned()]);
        let mut level = vec![package.to_owned()];
        // One question for all packages of a level: each takes a second.
        while !level.is_empty() {
            let options = self.options();
            let arguments = options
                .iter()
                .map(String::as_str)
                .chain(["depends", "--important"])
                .chain(level.iter().map(String::as_str));
            let text = process::output("apt-cache", arguments)?;
            level = text
                .lines()
                .filter_map(dependency)
                .filter(|name| wanted(name) && found.insert((*name).to_owned()))
                .map(str::to_owned)
                .collect();
        }
        Ok(found)
    }

    /// The version that would be downloaded.
    pub(crate) fn version(&self, package: &str) -> Result<String> {
        let options = self.options();
        let arguments = options
            .iter()
            .map(String::as_str)
            .chain(["show", "--no-all-versions", package]);
        let text = process::output("apt-cache", arguments)?;
        let version = text.lines().find_map(|line| line.strip_prefix("Version: "));
        version
            .map(str::to_owned)
            .with_context(|| format!("Debian {} has no package {package}", self.name))
    }

    /// Downloads packages (apt checks their signatures) and unpacks them below `into`.
    pub(crate) fn unpack(&self, packages: &BTreeSet<String>, into: &Path) -> Result<()> {
        let archives = self.folder.join("download");
        if archives.exists() {
            fs::remove_dir_all(&archives).context("empty the download folder")?;
        }
        workspace::make_dir(&archives)?;
        Run::new(&format!("apt-download-{}", self.name), "apt-get")
            .args(self.options())
            .arg("download")
            .args(packages)
            .dir(&archives)
            .run()?;
        for entry in fs::read_dir(&archives).context("read the download folder")? {
            let archive = entry.context("read the download folder")?.path();
            Run::new("dpkg-x", "dpkg")
                .arg("-x")
                .args([&archive, &into.to_path_buf()])
                .run()?;
        }
        fs::remove_dir_all(&archives).context("remove the download folder")
    }

    fn options(&self) -> Vec<String> {
        let folder = self.folder.display();
        [
            format!("Dir::Etc::sourcelist={folder}/sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={folder}/lists"),
            format!("Dir::Cache={folder}/cache"),
            "Dir::State::status=/dev/null".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        ]
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
        .collect()
    }
}

/// A source line of the Debian archive for one suite, as apt reads it.
pub(crate) fn source_line(uri: &str, suite: &str) -> String {
    // Suites that are no longer updated have an expired date; their signatures are still checked.
    format!("deb [signed-by={KEYRING} check-valid-until=no] {uri} {suite} main\n")
}

/// The addresses of the Debian archive that the machine's own apt uses.
pub(crate) fn archives() -> Result<Vec<String>> {
    let mut files = vec![PathBuf::from(SOURCES).join("sources.list")];
    if let Ok(entries) = fs::read_dir(Path::new(SOURCES).join("sources.list.d")) {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let uris = match file.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => deb822(&text),
            Some("list") => one_line(&text),
            _ => continue,
        };
        for uri in uris {
            if !found.contains(&uri) {
                found.push(uri);
            }
        }
    }
    if found.is_empty() {
        bail!(
            "no Debian archive in {SOURCES}: the guests' kernels are Debian packages; run this on Debian or add its archive"
        );
    }
    Ok(found)
}

fn dependency(line: &str) -> Option<&str> {
    let (kind, name) = line.trim().trim_start_matches('|').split_once(": ")?;
    matches!(kind, "Depends" | "PreDepends").then_some(name)
}

fn one_line(text: &str) -> Vec<String> {
    let entry = |line: &str| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let rest = if rest.starts_with('[') {
            rest.split_once(']')?.1
        } else {
            rest
        };
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        (DEBIAN_SUITES.contains(&suite) && words.any(|word| word == "main")).then(|| uri.to_owned())
    };
    text.lines().filter_map(entry).collect()
}

fn deb822(text: &str) -> Vec<String> {
    let stanza = |stanza: &str| {
        let field = |name: &str| -> Vec<String> {
            let mut values = Vec::new();
            let mut inside = false;
            for line in stanza.lines().filter(|line| !line.starts_with('#')) {
                let continued = line.starts_with([' ', '\t']);
                let value = line
                    .split_once(':')
                    .filter(|(key, _)| !continued && key.eq_ignore_ascii_case(name));
                inside = if continued { inside } else { value.is_some() };
                if inside {
                    let words = value.map_or(line, |(_, value)| value).split_whitespace();
                    values.extend(words.map(str::to_owned));
                }
            }
            values
        };
        let ours = field("Types").iter().any(|kind| kind == "deb")
            && field("Suites")
                .iter()
                .any(|suite| DEBIAN_SUITES.contains(&suite.as_str()))
            && field("Components").iter().any(|component| component == "main")
            && !field("Enabled")
                .iter()
                .any(|value| value.eq_ignore_ascii_case("no"));
        if ours { field("URIs") } else { Vec::new() }
    };
    text.split("\n\n").flat_map(stanza).collect()
}

#[cfg(test)]
mod tests {
    use super::{deb822, dependency, one_line};

    #[test]
    fn one_line_sources_give_only_the_debian_archive() {
        let text = "# deb http://comment.example/debian bookworm main\n\
                    deb http://a.example/debian bookworm main contrib\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://b.example/debian trixie main\n\
                    deb http://c.example/debian-security bookworm-security main\n\
                    deb http://d.example/apt cloud-sdk-bookworm main\n\
                    deb-src http://e.example/debian bookworm main\n";
        assert_eq!(
            one_line(text),
            ["http://a.example/debian", "http://b.example/debian"]
        );
    }

    #[test]
    fn deb822_sources_give_only_the_debian_archive() {
        let text = "Types: deb\n# URIs: http://no.example\nURIs: http://a.example/debian\n http://mirror.example/debian\n\
                    Suites: bookworm bookworm-updates\nComponents: main\n\n\
                    Types: deb\nURIs: http://node.example\nSuites: nodistro\nComponents: main\n\n\
                    Types: deb\nEnabled: no\nURIs: http://off.example\nSuites: sid\nComponents: main\n";
        assert_eq!(
            deb822(text),
            ["http://a.example/debian", "http://mirror.example/debian"]
        );
    }

    #[test]
    fn only_depends_lines_are_dependencies() {
        assert_eq!(dependency("  Depends: linux-base"), Some("linux-base"));
        assert_eq!(dependency(" |PreDepends: dracut"), Some("dracut"));
        assert_eq!(dependency("  Recommends: apparmor"), None);
        assert_eq!(dependency("linux-image-cloud-amd64"), None);
    }
}

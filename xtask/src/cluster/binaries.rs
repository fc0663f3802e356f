//! The programs of a cluster: built once from the module proxy of Go, kept in the user's cache.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};

use super::go::Go;
use crate::{progress::Progress, workspace};

/// The version of Kubernetes.
pub(crate) const KUBERNETES: &str = "v1.34.4";
/// The same release of the libraries that Kubernetes keeps in its own repository.
const STAGING: &str = "v0.34.4";
const HELM: &str = "v3.19.4";
const DNS: &str = "v1.13.1";
/// A name server with what a cluster needs and nothing else.
const DNS_MAIN: &str = r#"package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func init() { dnsserver.Directives = []string{"errors", "kubernetes"} }

func main() { coremain.Run() }
"#;

/// A program and the package that it is built of.
#[derive(Clone, Copy)]
struct Program {
    name: &'static str,
    module: Module,
    package: &'static str,
}

/// A throw-away module that programs are built in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Module {
    Kubernetes,
    Helm,
    Dns,
}

const PROGRAMS: [Program; 8] = [
    kubernetes("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    kubernetes(
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    kubernetes("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    kubernetes("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
    kubernetes("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    kubernetes("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
    Program {
        name: "helm",
        module: Module::Helm,
        package: "helm.sh/helm/v3/cmd/helm",
    },
    Program {
        name: "coredns",
        module: Module::Dns,
        package: "lab.invalid/coredns",
    },
];

const fn kubernetes(name: &'static str, package: &'static str) -> Program {
    Program {
        name,
        module: Module::Kubernetes,
        package,
    }
}

/// Suites that run side by side need the same programs.
static BUILDING: Mutex<()> = Mutex::new(());

/// The finished programs.
pub(super) struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Where a program is, or will be.
pub(super) fn place(name: &str) -> PathBuf {
    base().join("bin").join(name)
}

fn base() -> PathBuf {
    workspace::cache().join(format!("kubernetes-{KUBERNETES}"))
}

/// The programs, built first where they are not there yet.
pub(super) fn ready() -> Result<Binaries> {
    ready_where(|_| true)
}

/// The API server alone.
pub(super) fn api_server() -> Result<Binaries> {
    ready_where(|name| name == "kube-apiserver")
}

fn ready_where(is_needed: impl Fn(&str) -> bool) -> Result<Binaries> {
    let _one = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let base = base();
    let binaries = Binaries {
        folder: base.join("bin"),
    };
    let missing: Vec<Program> = PROGRAMS
        .into_iter()
        .filter(|program| is_needed(program.name) && !is_built(&base, *program))
        .collect();
    if missing.is_empty() {
        return Ok(binaries);
    }
    let go = Go::find()?;
    workspace::make_dir(&binaries.folder)?;
    // Beside the finished programs, so that each is one rename away.
    let scratch = base.join(format!("building-{}", std::process::id()));
    let mut modules = Vec::new();
    for program in &missing {
        if !modules.contains(&program.module) {
            modules.push(program.module);
        }
    }
    let mut progress = Progress::new("programs of the cluster", modules.len() + missing.len());
    let built = (|| -> Result<()> {
        for module in modules {
            let folder = module.folder_in(&scratch);
            progress.step(
                &format!("the modules of {} {}", module.name(), module.version()),
                || module.prepare(&go, &folder),
            )?;
        }
        for program in missing {
            progress.step(program.name, || build(&go, program, &scratch, &base))?;
        }
        Ok(())
    })();
    // What a failure leaves is of no use to anybody; the modules themselves are in Go's own cache.
    let _ = fs::remove_dir_all(&scratch);
    built?;
    progress.finish();
    Ok(binaries)
}

impl Module {
    fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Helm => "helm",
            Self::Dns => "coredns",
        }
    }

    fn version(self) -> &'static str {
        match self {
            Self::Kubernetes => KUBERNETES,
            Self::Helm => HELM,
            Self::Dns => DNS,
        }
    }

    /// Writes the module and fetches what it needs.
    fn prepare(self, go: &Go, folder: &Path) -> Result<()> {
        workspace::make_dir(folder)?;
        let requirement = match self {
            Self::Kubernetes => "k8s.io/kubernetes",
            Self::Helm => "helm.sh/helm/v3",
            Self::Dns => "github.com/coredns/coredns",
        };
        let file = module_file(go, requirement, self.version())?;
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let content = write_module(
            &format!("lab.invalid/{}", self.name()),
            requirement,
            self.version(),
            &text,
        );
        workspace::write_file(&folder.join("go.mod"), content)?;
        match self {
            Self::Dns => workspace::write_file(&folder.join("main.go"), DNS_MAIN)?,
            Self::Kubernetes | Self::Helm => {
                let imports: String = PROGRAMS
                    .iter()
                    .filter(|program| program.module == self)
                    .map(|program| ["\t_ \"", program.package, "\"\n"].concat())
                    .collect();
                // Never compiled: it tells `go mod tidy` what is needed.
                let text = format!("//go:build tools\n\npackage tools\n\nimport (\n{imports})\n");
                workspace::write_file(&folder.join("tools.go"), text)?;
            }
        }
        go.run(&format!("go-modules-{}", self.name()))
            .args(["mod", "tidy"])
            .dir(folder)
            .run()
    }

    /// Apart from the programs, of which one has the module's name.
    fn folder_in(self, scratch: &Path) -> PathBuf {
        scratch.join("modules").join(self.name())
    }

    /// What the linker writes into the program, so that `--version` tells the truth.
    fn settings(self) -> String {
        match self {
            Self::Kubernetes => {
                let mut numbers = KUBERNETES.trim_start_matches('v').split('.');
                let (major, minor) = (
                    numbers.next().unwrap_or_default(),
                    numbers.next().unwrap_or_default(),
                );
                ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"]
                    .map(|package| {
                        format!(
                            " -X {package}.gitVersion={KUBERNETES} -X {package}.gitMajor={major} -X {package}.gitMinor={minor} \
                             -X {package}.gitTreeState=archive -X {package}.buildDate=1970-01-01T00:00:00Z"
                        )
                    })
                    .concat()
            }
            Self::Helm => format!(" -X helm.sh/helm/v3/internal/version.version={HELM}"),
            Self::Dns => String::new(),
        }
    }
}

fn build(go: &Go, program: Program, scratch: &Path, base: &Path) -> Result<()> {
    let fresh = scratch.join(program.name);
    go.run(&format!("go-build-{}", program.name))
        .args(["build", "-p", "2", "-trimpath", "-ldflags"])
        .arg(format!("-s -w{}", program.module.settings()))
        .arg("-o")
        .args([fresh.as_os_str(), program.package.as_ref()])
        .dir(&program.module.folder_in(scratch))
        .run()?;
    let finished = base.join("bin").join(program.name);
    fs::rename(&fresh, &finished).with_context(|| format!("rename to {}", finished.display()))?;
    workspace::write_file(&stamp(base, program), recipe(program))
}

fn is_built(base: &Path, program: Program) -> bool {
    let same = fs::read_to_string(stamp(base, program)).is_ok_and(|text| text == recipe(program));
    same && base.join("bin").join(program.name).is_file()
}

/// What a finished program was made of; a program of another recipe is built again.
fn recipe(program: Program) -> String {
    let Program {
        name,
        module,
        package,
    } = program;
    format!(
        "{name} {package} {} {}{}\n",
        module.name(),
        module.version(),
        module.settings()
    )
}

fn stamp(base: &Path, program: Program) -> PathBuf {
    base.join("recipes").join(program.name)
}

/// Where Go keeps the `go.mod` of a published module.
fn module_file(go: &Go, module: &str, version: &str) -> Result<PathBuf> {
    let text = go.output(
        &std::env::temp_dir(),
        &["mod", "download", "-json", &format!("{module}@{version}")],
    )?;
    let answer: serde_json::Value =
        serde_json::from_str(&text).context("read the answer of `go mod download`")?;
    match answer["GoMod"].as_str() {
        Some(file) => Ok(PathBuf::from(file)),
        None => bail!(
            "`go mod download` found no {module}@{version}: {}",
            answer["Error"]
        ),
    }
}

/// A module that needs one published module as that module is built by its makers: with their replacements, and with
/// the published libraries in place of those that they keep in their own repository.
fn write_module(name: &str, requirement: &str, version: &str, published: &str) -> String {
    let mut text = format!("module {name}\n\n");
    for line in published.lines().map(str::trim) {
        if line.starts_with("go ") || line.starts_with("godebug ") {
            text.extend([line, "\n\n"]);
        }
    }
    text.extend(["require ", requirement, " ", version, "\n"]);
    let replaced: Vec<&str> = published
        .lines()
        .filter_map(|line| line.trim().trim_start_matches("replace ").split_once(" => "))
        .filter(|(_, place)| place.starts_with("./staging/"))
        .map(|(library, _)| library.split_whitespace().next().unwrap_or(library))
        .collect();
    if !replaced.is_empty() {
        let lines: String = replaced
            .iter()
            .map(|library| ["\t", library, " => ", library, " ", STAGING, "\n"].concat())
            .collect();
        text.extend(["\nreplace (\n", &lines, ")\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::write_module;

    #[test]
    fn libraries_of_the_repository_become_published_ones() {
        let published = "module k8s.io/kubernetes\n\ngo 1.24.0\n\ngodebug default=go1.24\n\nrequire (\n\tk8s.io/api v0.0.0\n)\n\n\
                         replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tother => ../other\n)\n";
        let text = write_module("lab.invalid/x", "k8s.io/kubernetes", "v1.34.4", published);
        assert_eq!(
            text,
            "module lab.invalid/x\n\ngo 1.24.0\n\ngodebug default=go1.24\n\nrequire k8s.io/kubernetes v1.34.4\n\n\
             replace (\n\tk8s.io/api => k8s.io/api v0.34.4\n)\n"
        );
    }
}

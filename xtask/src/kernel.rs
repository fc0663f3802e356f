//! The kernels of the matrix: Debian's own, unpacked into the cache.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::{apt::Suite, process, progress, workspace};

const METAPACKAGE: &str = "linux-image-cloud-amd64";

/// A kernel of the matrix, named by the version that users say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Series {
    #[value(name = "5.10")]
    V5_10,
    #[value(name = "6.1")]
    V6_1,
    #[value(name = "6.12")]
    V6_12,
    #[value(name = "7.2")]
    V7_2,
}

impl Series {
    pub(crate) const ALL: [Self; 4] = [Self::V5_10, Self::V6_1, Self::V6_12, Self::V7_2];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V5_10 => "5.10",
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::V7_2 => "7.2",
        }
    }

    /// The Debian suite that has it.
    fn suite(self) -> &'static str {
        match self {
            Self::V5_10 => "bullseye",
            Self::V6_1 => "bookworm",
            Self::V6_12 => "trixie",
            Self::V7_2 => "sid",
        }
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unpacked kernel.
pub(crate) struct Kernel {
    pub(crate) series: Series,
    /// What `uname -r` says.
    pub(crate) release: String,
    pub(crate) image: PathBuf,
    /// The folder `lib/modules/RELEASE`; a kernel of the user's own has none.
    pub(crate) modules: Option<PathBuf>,
    /// The folder of the cache that belongs to this package version.
    pub(crate) folder: PathBuf,
}

static FETCHING: Mutex<()> = Mutex::new(());

impl Kernel {
    /// Opens a kernel of the cache, fetching it first if it is not there.
    pub(crate) fn open(series: Series) -> Result<Self> {
        let parent = workspace::cache().join("kernels").join(series.name());
        // Of two guests one fetches and the other waits: a suite's package lists have one reader at a time.
        let _one = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = newest_cached(series, &parent)? {
            return Ok(kernel);
        }
        progress::timed(&format!("fetch kernel {series}"), || fetch(series, &parent))
    }

    /// A kernel of the user's own, which has what it needs built in.
    pub(crate) fn own(series: Series, image: &Path) -> Self {
        Self {
            series,
            release: image.display().to_string(),
            image: image.to_owned(),
            modules: None,
            folder: PathBuf::new(),
        }
    }

    /// A kernel of the cache, if it is there.
    pub(crate) fn cached(series: Series) -> Result<Option<Self>> {
        newest_cached(series, &workspace::cache().join("kernels").join(series.name()))
    }

    /// The uncompressed content of a module, by its path below `kernel/` without the ending.
    pub(crate) fn module(&self, name: &str) -> Result<Vec<u8>> {
        let modules = self.modules.as_ref().context("this kernel has no modules")?;
        let stem = modules.join("kernel").join(name);
        for (ending, unpacker) in [("ko", None), ("ko.xz", Some("xz")), ("ko.zst", Some("zstd"))] {
            let file = PathBuf::from(format!("{}.{ending}", stem.display()));
            if !file.exists() {
                continue;
            }
            return match unpacker {
                None => fs::read(&file).with_context(|| format!("read {}", file.display())),
                Some(program) => {
                    let output = std::process::Command::new(program)
                        .arg("-dcq")
                        .arg(&file)
                        .output();
                    let output = output.with_context(|| format!("run {program}"))?;
                    if !output.status.success() {
                        bail!("{program} could not unpack {}", file.display());
                    }
                    Ok(output.stdout)
                }
            };
        }
        bail!("kernel {} has no module {name}", self.release)
    }

    fn inspect(series: Series, folder: &Path) -> Result<Self> {
        let tree = folder.join("tree");
        let libraries = ["usr/lib/modules", "lib/modules"].map(|path| tree.join(path));
        let library = libraries
            .iter()
            .find(|path| path.is_dir())
            .context("the package has no modules")?;
        let mut entries = fs::read_dir(library)
            .context("read the modules folder")?
            .flatten();
        let modules = entries.next().context("the modules folder is empty")?.path();
        let release = modules
            .file_name()
            .expect("an entry has a name")
            .to_string_lossy()
            .into_owned();
        let images = [
            tree.join(format!("boot/vmlinuz-{release}")),
            modules.join("vmlinuz"),
        ];
        let image = images
            .into_iter()
            .find(|path| path.is_file())
            .context("the package has no kernel image")?;
        Ok(Self {
            series,
            release,
            image,
            modules: Some(modules),
            folder: folder.to_path_buf(),
        })
    }
}

/// A version that was fetched stays in use: tests must not change under a running project. `cargo xtask setup
/// --fresh-kernels` asks the archive again.
fn newest_cached(series: Series, parent: &Path) -> Result<Option<Kernel>> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Ok(None);
    };
    let complete = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("complete").exists());
    let age = |path: &PathBuf| {
        fs::metadata(path.join("complete"))
            .and_then(|about| about.modified())
            .map_or(Duration::MAX, |time| time.elapsed().unwrap_or_default())
    };
    complete
        .min_by_key(age)
        .map(|path| Kernel::inspect(series, &path))
        .transpose()
}

/// Downloads the newest version of a kernel.
pub(crate) fn fetch(series: Series, parent: &Path) -> Result<Kernel> {
    let suite = Suite::open(series.suite())?;
    let packages = suite.closure(METAPACKAGE, |name| {
        name.starts_with("linux-") && name.ends_with("-cloud-amd64") && !name.starts_with("linux-headers")
    })?;
    let image = packages
        .iter()
        .find(|name| name.starts_with("linux-image-") && *name != METAPACKAGE);
    let image = image.with_context(|| format!("{METAPACKAGE} of {} names no kernel", series.suite()))?;
    let folder = parent.join(suite.version(image)?);
    let fresh = parent.join(format!("fresh-{}", std::process::id()));
    workspace::make_dir(&fresh.join("tree"))?;
    suite.unpack(&packages, &fresh.join("tree"))?;
    let kernel = Kernel::inspect(series, &fresh)?;
    let tree = fresh.join("tree");
    let tree = tree.to_string_lossy();
    // depmod wants lib/modules; newer packages have usr/lib/modules only.
    if !Path::new(&format!("{tree}/lib/modules")).exists() {
        workspace::make_dir(&Path::new(&*tree).join("lib"))?;
        std::os::unix::fs::symlink("../usr/lib/modules", format!("{tree}/lib/modules"))
            .context("link lib/modules")?;
    }
    process::output("depmod", ["-b", &tree, &kernel.release])?;
    workspace::write_file(&fresh.join("complete"), &kernel.release)?;
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("replace {}", folder.display()))?;
    }
    fs::rename(&fresh, &folder).with_context(|| format!("rename to {}", folder.display()))?;
    Kernel::inspect(series, &folder)
}

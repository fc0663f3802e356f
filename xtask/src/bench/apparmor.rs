//! `AppArmor` profiles in the form that a guest's kernel loads.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    kernel::{Kernel, Series},
    progress, tools,
    vm::{Guest, Share},
    workspace,
};

/// Compiles profiles for one kernel.
pub(super) struct Compiler {
    features: PathBuf,
    scratch: PathBuf,
}

impl Compiler {
    /// Asks the kernel what its `AppArmor` can do, once per kernel package.
    pub(super) fn new(
        kernel: Series,
        guest_program: &std::path::Path,
        scratch: &std::path::Path,
    ) -> Result<Self> {
        tools::need(tools::APPARMOR)?;
        let features = Kernel::open(kernel)?.folder.join("apparmor-features");
        if !features.exists() {
            let label = format!("ask kernel {kernel} what its AppArmor can do (once)");
            let text = progress::timed(&label, || ask(kernel, guest_program))?;
            workspace::write_file(&features, text)?;
        }
        Ok(Self {
            features,
            scratch: scratch.to_path_buf(),
        })
    }

    pub(super) fn compile(&self, profile: &str) -> Result<Vec<u8>> {
        let source = self.scratch.join("profile");
        fs::write(&source, profile).with_context(|| format!("write {}", source.display()))?;
        let output = Command::new("apparmor_parser")
            // No kernel, no cache, to standard output.
            .args(["-QTKS", "--kernel-features"])
            .args([&self.features, &source])
            .output()
            .context("run apparmor_parser")?;
        if !output.status.success() || output.stdout.is_empty() {
            bail!(
                "apparmor_parser: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(output.stdout)
    }
}

fn ask(kernel: Series, guest_program: &std::path::Path) -> Result<String> {
    let mut guest = Guest::new(kernel, ["/varmor-guest", "bench", "features"]);
    guest.timeout = Duration::from_mins(2);
    guest.shares = vec![Share::new(guest_program, "/varmor-guest")];
    let mut text = Vec::new();
    let outcome = guest.run(&mut |bytes| text.extend_from_slice(bytes))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    ensure!(
        outcome.code == 0 && text.contains("policy {"),
        "the guest did not tell its AppArmor's features: {text}"
    );
    Ok(text)
}

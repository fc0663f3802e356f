//! Which kernel modules a guest's initramfs loads, in which order.

use std::{collections::BTreeSet, fs};

use anyhow::{Context, Result};

use crate::kernel::Kernel;

/// Modules in the order in which they can be loaded: (path below `kernel/` without ending, content).
pub(crate) fn load_order(kernel: &Kernel, wanted: &[&str]) -> Result<Vec<(String, Vec<u8>)>> {
    let Some(modules) = &kernel.modules else {
        return Ok(Vec::new());
    };
    let table = fs::read_to_string(modules.join("modules.dep")).context("read modules.dep")?;
    let mut order = Vec::new();
    let mut seen = BTreeSet::new();
    for name in wanted {
        // What is not in modules.dep is built in.
        if let Some(line) = table
            .lines()
            .find(|line| line.split_once(':').is_some_and(|(path, _)| stem(path) == *name))
        {
            // depmod lists what a module needs nearest first.
            for path in line.replace(':', " ").split_whitespace().rev() {
                if seen.insert(path.to_owned()) {
                    order.push(path.to_owned());
                }
            }
        }
    }
    let load = |path: String| {
        let inside = path
            .strip_prefix("kernel/")
            .with_context(|| format!("module {path} is not below kernel/"))?;
        let inside = inside.split(".ko").next().unwrap_or(inside).to_owned();
        let content = kernel.module(&inside)?;
        Ok((inside, content))
    };
    order.into_iter().map(load).collect()
}

fn stem(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn stem_drops_folder_and_every_ending() {
        assert_eq!(stem("kernel/fs/overlayfs/overlay.ko.xz"), "overlay");
        assert_eq!(stem("kernel/drivers/virtio/virtio_pci.ko"), "virtio_pci");
    }
}

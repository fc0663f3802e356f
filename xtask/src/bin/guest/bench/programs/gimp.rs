//! GIMP edits photographs in a batch and saves each in its place.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};

use super::{Load, raw};

/// Its settings and its list of plug-ins, which it makes in its first run. No run of a suite begins without them, so they stay.
const HOME: &str = "/tmp/gimp";
/// The same as they were after the first runs: each run leaves them a little different, and now and then so that the next one asks
/// every plug-in anew, which is more than all its work.
const KEPT: &str = "/tmp/gimp-kept";
const PHOTOGRAPHS: &str = "/tmp/photographs";
const SIZE: (u32, u32) = (1600, 1200);
const QUALITY: &str = "0.9 0 1 0 \"\" 2 1 0 0";

pub(super) struct Gimp {
    folder: String,
    edit: &'static str,
    amount: u32,
}

impl Gimp {
    pub(super) fn start(test: &str, amount: u32, folder: &str) -> Result<Self> {
        let edit = match test {
            "resize" => "(gimp-image-scale image 600 400)",
            "rotate" => "(gimp-image-rotate image 0)",
            "levels" => "(gimp-drawable-levels-stretch drawable)",
            "unsharp" => "(plug-in-unsharp-mask 1 image drawable 15.0 0.6 0)",
            _ => bail!("gimp has no test {test}"),
        };
        fs::create_dir_all(HOME)?;
        fs::create_dir_all(PHOTOGRAPHS)?;
        for number in 0..amount {
            let file = format!("{PHOTOGRAPHS}/{number}.JPG");
            if !Path::new(&file).exists() {
                gimp(&photograph(number, &file))?;
                ensure!(Path::new(&file).exists(), "gimp made no {file}");
            }
        }
        if !Path::new(KEPT).exists() {
            copy(Path::new(HOME), Path::new(KEPT))?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            edit,
            amount,
        })
    }

    fn photographs(&self) -> impl Iterator<Item = (String, String)> {
        let files = (0..self.amount).map(|number| {
            let name = format!("{number}.JPG");
            (format!("{PHOTOGRAPHS}/{name}"), format!("{}/{name}", self.folder))
        });
        files.collect::<Vec<_>>().into_iter()
    }
}

impl Load for Gimp {
    fn ready(&mut self) -> Result<()> {
        for (from, to) in self.photographs() {
            fs::copy(&from, &to).with_context(|| format!("copy {from}"))?;
        }
        fs::remove_dir_all(HOME).with_context(|| format!("empty {HOME}"))?;
        copy(Path::new(KEPT), Path::new(HOME))
    }

    fn run(&mut self) -> Result<String> {
        gimp(&batch(&format!("{}/*.JPG", self.folder), self.edit))
    }

    fn done(&mut self, said: &str) -> Result<u64> {
        let mut changed = 0;
        for (from, to) in self.photographs() {
            changed += u64::from(fs::read(from)? != fs::read(to)?);
        }
        ensure!(
            changed == u64::from(self.amount),
            "gimp has changed {changed} photographs of {}: {said}",
            self.amount
        );
        Ok(changed)
    }
}

/// A folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| format!("copy {}", from.display()))?;
        }
    }
    Ok(())
}

fn gimp(script: &str) -> Result<String> {
    // It takes a plug-in that has come to its end at once for one that could not be started.
    let output = raw::urgent_alone(&mut Command::new("/usr/bin/gimp"))
        .args(["-i", "-b", script, "-b", "(gimp-quit 0)"])
        .env("HOME", HOME)
        .stdin(std::process::Stdio::null())
        .output()
        .context("run gimp")?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(
        output.status.success() && !said.contains("Error:"),
        "gimp: {}: {said}",
        output.status
    );
    Ok(said)
}

/// Every file that the pattern names is loaded, edited and saved in its place.
fn batch(pattern: &str, edit: &str) -> String {
    format!(
        "(let loop ((files (cadr (file-glob \"{pattern}\" 1)))) (if (pair? files) (let* ((file (car files)) \
         (image (car (gimp-file-load 1 file file))) (drawable (car (gimp-image-get-active-layer image)))) {edit} \
         (gimp-file-save 1 image (car (gimp-image-get-active-layer image)) file file) (gimp-image-delete image) \
         (loop (cdr files)))))"
    )
}

/// A photograph of clouds, another one for each number.
fn photograph(number: u32, file: &str) -> String {
    let (width, height) = SIZE;
    format!(
        "(let* ((image (car (gimp-image-new {width} {height} 0))) (layer (car (gimp-layer-new image {width} {height} 0 \"a\" 100 0)))) \
         (gimp-image-insert-layer image layer 0 0) (plug-in-plasma 1 image layer {number} 4.0) \
         (file-jpeg-save 1 image layer \"{file}\" \"{file}\" {QUALITY}))"
    )
}

#[cfg(test)]
mod tests {
    use super::{Gimp, batch, photograph};

    #[test]
    fn scripts_close_what_they_open() {
        for script in [
            batch("/f/*.JPG", "(gimp-image-rotate image 0)"),
            photograph(3, "/f/3.JPG"),
        ] {
            let count = |part| script.matches(part).count();
            assert_eq!(count("("), count(")"), "{script}");
        }
    }

    #[test]
    fn test_that_does_not_exist_is_refused() {
        assert!(Gimp::start("blur", 0, "/nonexistent").is_err());
    }
}

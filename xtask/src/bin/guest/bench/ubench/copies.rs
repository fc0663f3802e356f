//! Copies a file piece by piece, again and again.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
};

use anyhow::{Context, Result};

use super::FOLDER;
use crate::bench::operations::Operation;

/// One piece of `size` bytes is read from a file of so many KiB and written to another one; at the end of the first, both
/// begin anew. A copy has been made before, so that the second file has its pages.
pub(super) fn copy(size: usize, kibibytes: usize) -> Result<Operation> {
    let name = |which: &str| format!("{FOLDER}/copy-{which}-{size}");
    let (from, to) = (name("from"), name("to"));
    let content = vec![b'x'; kibibytes * 1024];
    for file in [&from, &to] {
        fs::write(file, &content).with_context(|| format!("write {file}"))?;
    }
    let open = |file: &String| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options.open(file).with_context(|| format!("open {file}"))
    };
    let mut copy = Copy {
        from: open(&from)?,
        to: open(&to)?,
        buffer: vec![0; size],
    };
    // As in the original, the files go when the test ends.
    fs::remove_file(&from)?;
    fs::remove_file(&to)?;
    Ok(Box::new(move || copy.piece()))
}

struct Copy {
    from: File,
    to: File,
    buffer: Vec<u8>,
}

impl Copy {
    fn piece(&mut self) -> io::Result<()> {
        let mut read = self.from.read(&mut self.buffer)?;
        if read == 0 {
            self.from.rewind()?;
            self.to.rewind()?;
            read = self.from.read(&mut self.buffer)?;
        }
        let written = self.to.write(&self.buffer[..read])?;
        if written == self.buffer.len() {
            Ok(())
        } else {
            Err(io::Error::other("a piece was cut"))
        }
    }
}

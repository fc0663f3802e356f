//! What a measuring program says, line by line: into the report, and into the file of the boot.

use anyhow::Result;

use super::{kept::Boot, protocol::Line, report::Report};
use crate::kernel::Series;

pub(super) struct Intake {
    pub(super) report: Report,
    /// What began a line that has not ended.
    text: Vec<u8>,
    boot: Option<Boot>,
    written: Result<()>,
}

impl Intake {
    pub(super) fn new(kernel: Option<Series>, boot: Option<Boot>) -> Self {
        Self {
            report: Report::new(kernel),
            text: Vec::new(),
            boot,
            written: Ok(()),
        }
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            let kernel = self.report.kernel_name();
            let Ok(line) = serde_json::from_slice::<Line>(&line) else {
                eprint!("{kernel}: {}", String::from_utf8_lossy(&line));
                continue;
            };
            if let (Some(boot), Ok(())) = (&mut self.boot, &self.written) {
                self.written = boot.add(&line);
            }
            if let Some(system) = self.report.take(line) {
                eprintln!("[bench {kernel}: measured under {system}]");
            }
        }
    }

    /// What came last and is no line.
    pub(super) fn rest(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// The report, when nothing more is to come. Only what ended well is marked as whole in the boot's file.
    pub(super) fn end(mut self, well: bool) -> Result<Report> {
        self.written?;
        if let (Some(boot), true) = (&mut self.boot, well) {
            boot.end(&self.report.release)?;
        }
        Ok(self.report)
    }
}

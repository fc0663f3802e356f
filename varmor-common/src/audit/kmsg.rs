//! A record of `/dev/kmsg`: `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;message`, odd bytes written as `\xNN`.

use thiserror::Error;

/// Priorities are `facility << 3 | level`.
const LEVEL_BITS: u32 = 3;

/// One message of the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLine {
    /// Counts every message of the log: a gap is a loss.
    pub sequence: u64,
    /// The kernel wrote it. A program that writes to the log can choose any text, but never this.
    pub is_of_kernel: bool,
    pub message: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the line of the kernel log has no head")]
pub struct LineError;

impl KernelLine {
    /// Reads what one `read` of `/dev/kmsg` gave.
    pub fn parse(bytes: &[u8]) -> Result<Self, LineError> {
        let (head, rest) = super::split(bytes, b';').ok_or(LineError)?;
        let mut head = std::str::from_utf8(head).map_err(|_| LineError)?.split(',');
        let mut number = || head.next()?.parse::<u64>().ok();
        let (priority, sequence) = (number().ok_or(LineError)?, number().ok_or(LineError)?);
        // What follows the first line is a dictionary of the device.
        let line = super::split(rest, b'\n').map_or(rest, |(line, _)| line);
        Ok(Self {
            sequence,
            is_of_kernel: priority >> LEVEL_BITS == 0,
            message: unescape(line),
        })
    }

    /// Records that the audit says it has lost, in all: it writes `audit: audit_lost=5 audit_rate_limit=0 ...`.
    #[must_use]
    pub fn audit_lost(&self) -> Option<u64> {
        number_after(&self.message, b"audit: audit_lost=")
    }

    /// Records that did not come into the log because there were too many at a time.
    #[must_use]
    pub fn suppressed(&self) -> Option<u64> {
        let text = std::str::from_utf8(&self.message).ok()?;
        let (who, rest) = text.split_once(": ")?;
        let count = rest.strip_suffix(" callbacks suppressed")?;
        (who == "kauditd_printk_skb" || who == "audit_printk_skb")
            .then(|| count.parse().ok())
            .flatten()
    }
}

fn number_after(text: &[u8], words: &[u8]) -> Option<u64> {
    let rest = text.strip_prefix(words)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit());
    std::str::from_utf8(&rest[..end.unwrap_or(rest.len())])
        .ok()?
        .parse()
        .ok()
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.strip_prefix(b"x").and_then(|code| {
            let code = std::str::from_utf8(code.get(..2)?).ok()?;
            u8::from_str_radix(code, 16).ok()
        });
        match escaped {
            Some(byte) if *first == b'\\' => {
                plain.push(byte);
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> KernelLine {
        KernelLine::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn head_and_message_are_told_apart() {
        let read = line("5,1021,73912345,-;audit: type=1400 audit(1.2:3): a=1\n SUBSYSTEM=x\n");
        assert_eq!((read.sequence, read.is_of_kernel), (1021, true));
        assert_eq!(read.message, b"audit: type=1400 audit(1.2:3): a=1");
    }

    #[test]
    fn what_programs_write_is_not_of_the_kernel() {
        assert!(!line("12,7,1,-;audit: type=1400 audit(1.2:3): a=1").is_of_kernel);
    }

    #[test]
    fn escapes_are_bytes_again() {
        assert_eq!(line(r"6,1,1,-;a\x5cb\x0ac\xzz\x4").message, b"a\\b\nc\\xzz\\x4");
    }

    #[test]
    fn losses_of_the_audit_are_read() {
        let lost = line("3,9,1,-;audit: audit_lost=17 audit_rate_limit=0 audit_backlog_limit=64");
        assert_eq!(lost.audit_lost(), Some(17));
        let suppressed = line("4,9,1,-;kauditd_printk_skb: 23 callbacks suppressed");
        assert_eq!(suppressed.suppressed(), Some(23));
        assert_eq!(suppressed.audit_lost(), None);
        assert_eq!(line("4,9,1,-;other: 23 callbacks suppressed").suppressed(), None);
    }

    #[test]
    fn text_without_a_head_is_an_error() {
        for text in ["", "no head", "x,1,1,-;m", ";", "6;m", "6,x;m"] {
            assert!(KernelLine::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}

//! Records of the kernel's audit: read from the text that netlink and the kernel log carry, without any trust in it.
//!
//! A record is `audit(SECONDS.MILLIS:SERIAL): key=value ...`. Values are bare, in quotes, or, where a workload chose
//! them and they have odd characters, the hexadecimal digits of their bytes.

mod kmsg;

use std::fmt;

use thiserror::Error;

pub use kmsg::{KernelLine, LineError};

/// `AUDIT_AVC`: what LSMs write, `AppArmor` among them.
pub const AVC: u32 = 1400;
/// `AUDIT_SECCOMP`.
pub const SECCOMP: u32 = 1326;

/// Keys whose values the kernel writes with `audit_log_untrustedstring`.
const UNTRUSTED: [&str; 14] = [
    "comm",
    "dev",
    "exe",
    "info",
    "label",
    "name",
    "namespace",
    "ocomm",
    "peer",
    "peer_addr",
    "addr",
    "profile",
    "srcname",
    "target",
];
/// Names that the kernel writes for types in its log, beside numbers.
const TYPES: [(&str, u32); 2] = [("AVC", AVC), ("SECCOMP", SECCOMP)];

/// One record, its fields in the order in which the kernel wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: u32,
    pub stamp: Stamp,
    /// The end is missing: the kernel log cuts long lines.
    pub is_cut: bool,
    fields: Vec<(String, Vec<u8>)>,
}

/// When, and the number that the kernel gave the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    pub seconds: u64,
    pub millis: u32,
    pub serial: u64,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    #[error("the record does not begin with its type")]
    Type,
    #[error("the record has no time and number")]
    Stamp,
}

/// Reads a record as the kernel log has it: `audit: type=1400 audit(1.2:3): ...`, with or without the first word.
pub fn parse(text: &[u8]) -> Result<Record, RecordError> {
    let text = text.strip_prefix(b"audit: ").unwrap_or(text);
    let text = text.strip_prefix(b"type=").ok_or(RecordError::Type)?;
    let (kind, body) = split(text, b' ').ok_or(RecordError::Type)?;
    let kind = std::str::from_utf8(kind).map_err(|_| RecordError::Type)?;
    let named = TYPES.iter().find(|(name, _)| *name == kind);
    let kind = match named {
        Some((_, number)) => *number,
        None => kind.parse().map_err(|_| RecordError::Type)?,
    };
    parse_body(kind, body)
}

/// Reads a record whose type is known, as netlink has it: `audit(1.2:3): ...`.
pub fn parse_body(kind: u32, text: &[u8]) -> Result<Record, RecordError> {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"msg=").unwrap_or(text);
    let text = text.strip_prefix(b"audit(").ok_or(RecordError::Stamp)?;
    let (stamp, rest) = split(text, b')').ok_or(RecordError::Stamp)?;
    let stamp = Stamp::read(stamp).ok_or(RecordError::Stamp)?;
    let rest = rest.strip_prefix(b":").ok_or(RecordError::Stamp)?;
    let mut record = Record {
        kind,
        stamp,
        is_cut: false,
        fields: Vec::new(),
    };
    record.read_fields(rest.trim_ascii_end());
    Ok(record)
}

impl Record {
    /// The value of a field, decoded; the first one if there are several.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.as_slice())
    }

    /// A field that is a decimal number.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        std::str::from_utf8(self.get(key)?).ok()?.parse().ok()
    }

    fn read_fields(&mut self, mut rest: &[u8]) {
        loop {
            rest = rest.trim_ascii_start();
            let Some((key, value)) = split(rest, b'=') else {
                return;
            };
            // Words without a value may stand between fields.
            let key = key.rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
            let key = String::from_utf8_lossy(key).into_owned();
            let (value, after) = if let Some(quoted) = value.strip_prefix(b"\"") {
                if let Some((value, after)) = split(quoted, b'"') {
                    (value.to_vec(), after)
                } else {
                    self.is_cut = true;
                    (quoted.to_vec(), &b""[..])
                }
            } else {
                let end = value.iter().position(u8::is_ascii_whitespace);
                let (bare, after) = value.split_at(end.unwrap_or(value.len()));
                let decoded = UNTRUSTED.contains(&key.as_str()).then(|| self.decode(bare));
                (decoded.flatten().unwrap_or_else(|| bare.to_vec()), after)
            };
            self.fields.push((key, value));
            rest = after;
        }
    }

    /// The bytes that hexadecimal digits stand for; `None` for another text.
    fn decode(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        if text.is_empty() {
            return None;
        }
        let digits: Vec<u8> = text.iter().map(|letter| digit(*letter)).collect::<Option<_>>()?;
        let (pairs, half) = digits.as_chunks::<2>();
        self.is_cut |= !half.is_empty();
        Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
    }
}

impl Stamp {
    /// `SECONDS.MILLIS:SERIAL`.
    fn read(text: &[u8]) -> Option<Self> {
        let (time, serial) = std::str::from_utf8(text).ok()?.split_once(':')?;
        let (seconds, millis) = time.split_once('.')?;
        Some(Self {
            seconds: seconds.parse().ok()?,
            millis: millis.parse().ok().filter(|millis| *millis < 1000)?,
            serial: serial.parse().ok()?,
        })
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub fn nanoseconds(self) -> u64 {
        let seconds = self.seconds.saturating_mul(1_000_000_000);
        seconds.saturating_add(u64::from(self.millis) * 1_000_000)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}:{}", self.seconds, self.millis, self.serial)
    }
}

/// What stands before and behind the first of these bytes.
fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = text.iter().position(|byte| *byte == at)?;
    Some((&text[..place], &text[place + 1..]))
}

/// The kernel writes capital letters; a small one is a word and no number.
fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'A'..=b'F' => Some(letter - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

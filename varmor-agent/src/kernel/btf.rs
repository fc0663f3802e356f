//! A reader of the kernel's own type information (`/sys/kernel/btf/vmlinux`): offsets of fields, parameters of
//! functions. Format: Documentation/bpf/btf.rst of the kernel.

use std::collections::HashMap;
use std::path::Path;

/// Kinds of BTF types that are looked up by name.
const KIND_ARRAY: u8 = 3;
const KIND_STRUCT: u8 = 4;
const KIND_UNION: u8 = 5;
const KIND_FUNC: u8 = 12;
const KIND_FUNC_PROTO: u8 = 13;
/// Kinds that only wrap another type: typedef, volatile, const, restrict, type tag.
const WRAPPERS: [u8; 5] = [8, 9, 10, 11, 18];

/// The type information of a kernel.
pub struct Btf {
    data: Vec<u8>,
    /// Index = type id; byte offset of the type.
    types: Vec<usize>,
    strings: usize,
    named: HashMap<(u8, Vec<u8>), u32>,
}

/// Why type information could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    #[error("read kernel type information {path} (the kernel needs CONFIG_DEBUG_INFO_BTF)")]
    Read { path: String, source: std::io::Error },
    #[error("kernel type information is damaged at byte {offset}")]
    Damaged { offset: usize },
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset from the start of the structure, in bytes.
    pub offset: u32,
    type_id: u32,
}

impl Btf {
    /// Reads the running kernel's types.
    pub fn of_running_kernel() -> Result<Self, BtfError> {
        Self::read(Path::new("/sys/kernel/btf/vmlinux"))
    }

    pub fn read(path: &Path) -> Result<Self, BtfError> {
        let data = std::fs::read(path).map_err(|source| BtfError::Read {
            path: path.display().to_string(),
            source,
        })?;
        Self::parse(data)
    }

    pub fn parse(data: Vec<u8>) -> Result<Self, BtfError> {
        let mut btf = Self {
            data,
            types: vec![0],
            strings: 0,
            named: HashMap::new(),
        };
        let header = btf.word(4)? as usize;
        let first = header + btf.word(8)? as usize;
        let end = first + btf.word(12)? as usize;
        btf.strings = header + btf.word(16)? as usize;
        let mut at = first;
        while at < end {
            let id = u32::try_from(btf.types.len()).map_err(|_| BtfError::Damaged { offset: at })?;
            btf.types.push(at);
            let info = btf.word(at + 4)?;
            let kind = kind_of(info);
            let name = btf.string(btf.word(at)?)?.to_vec();
            if !name.is_empty() {
                btf.named.entry((kind, name)).or_insert(id);
            }
            at += 12 + extra_size(kind, (info & 0xffff) as usize).ok_or(BtfError::Damaged { offset: at })?;
        }
        Ok(btf)
    }

    /// A field by its dotted path; anonymous structures and unions on the way are looked through.
    #[must_use]
    pub fn field(&self, structure: &str, path: &str) -> Option<Field> {
        let mut type_id = *self.named.get(&(KIND_STRUCT, structure.as_bytes().to_vec()))?;
        let mut bits = 0;
        for name in path.split('.') {
            let (offset, member) = self.member(self.strip(type_id)?, name.as_bytes())?;
            bits += offset;
            type_id = member;
        }
        (bits % 8 == 0).then_some(Field {
            offset: bits / 8,
            type_id,
        })
    }

    /// Number of elements of a field that is an array.
    #[must_use]
    pub fn array_length(&self, field: Field) -> Option<u32> {
        let id = self.strip(field.type_id)?;
        let at = *self.types.get(id as usize)?;
        (kind_of(self.word(at + 4).ok()?) == KIND_ARRAY)
            .then(|| self.word(at + 20).ok())
            .flatten()
    }

    /// Whether the kernel has a function of this name.
    #[must_use]
    pub fn has_function(&self, name: &str) -> bool {
        self.named.contains_key(&(KIND_FUNC, name.as_bytes().to_vec()))
    }

    /// The type id of a function.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<u32> {
        self.named.get(&(KIND_FUNC, name.as_bytes().to_vec())).copied()
    }

    /// The type id of a structure.
    #[must_use]
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.named.get(&(KIND_STRUCT, name.as_bytes().to_vec())).copied()
    }

    /// The position of a function's parameter, by its name.
    #[must_use]
    pub fn parameter(&self, function: &str, name: &str) -> Option<u32> {
        let function = *self.named.get(&(KIND_FUNC, function.as_bytes().to_vec()))?;
        let prototype = self.word(*self.types.get(function as usize)? + 8).ok()?;
        let at = *self.types.get(prototype as usize)?;
        let info = self.word(at + 4).ok()?;
        if kind_of(info) != KIND_FUNC_PROTO {
            return None;
        }
        (0..info & 0xffff).find(|index| {
            let parameter = at + 12 + 8 * *index as usize;
            let found = self.word(parameter).and_then(|offset| self.string(offset));
            found.is_ok_and(|found| found == name.as_bytes())
        })
    }

    fn member(&self, id: u32, name: &[u8]) -> Option<(u32, u32)> {
        let at = *self.types.get(id as usize)?;
        let info = self.word(at + 4).ok()?;
        if !matches!(kind_of(info), KIND_STRUCT | KIND_UNION) {
            return None;
        }
        let bitfields = info >> 31 == 1;
        for i in 0..(info & 0xffff) as usize {
            let member = at + 12 + 12 * i;
            let member_name = self.string(self.word(member).ok()?).ok()?;
            let type_id = self.word(member + 4).ok()?;
            let mut offset = self.word(member + 8).ok()?;
            if bitfields {
                offset &= 0x00ff_ffff;
            }
            if member_name == name {
                return Some((offset, type_id));
            }
            if member_name.is_empty()
                && let Some((inner, type_id)) = self.member(self.strip(type_id)?, name)
            {
                return Some((offset + inner, type_id));
            }
        }
        None
    }

    fn strip(&self, mut id: u32) -> Option<u32> {
        // Damaged information could make a ring of wrappers.
        for _ in 0..32 {
            let at = *self.types.get(id as usize)?;
            if at == 0 || !WRAPPERS.contains(&kind_of(self.word(at + 4).ok()?)) {
                return Some(id);
            }
            id = self.word(at + 8).ok()?;
        }
        None
    }

    fn word(&self, at: usize) -> Result<u32, BtfError> {
        let bytes = self
            .data
            .get(at..at + 4)
            .ok_or(BtfError::Damaged { offset: at })?;
        Ok(u32::from_le_bytes(
            bytes.try_into().map_err(|_| BtfError::Damaged { offset: at })?,
        ))
    }

    fn string(&self, offset: u32) -> Result<&[u8], BtfError> {
        let start = self.strings + offset as usize;
        let rest = self
            .data
            .get(start..)
            .ok_or(BtfError::Damaged { offset: start })?;
        let length = rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or(BtfError::Damaged { offset: start })?;
        Ok(&rest[..length])
    }
}

const fn kind_of(info: u32) -> u8 {
    ((info >> 24) & 0x1f) as u8
}

/// Bytes that follow the common part of a type.
const fn extra_size(kind: u8, count: usize) -> Option<usize> {
    match kind {
        1 | 14 | 17 => Some(4),
        3 => Some(12),
        4 | 5 | 15 | 19 => Some(12 * count),
        6 | 13 => Some(8 * count),
        2 | 7..=12 | 16 | 18 => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_information_is_an_error_and_no_panic() {
        for length in 0..24 {
            assert!(Btf::parse(vec![0xff; length]).is_err());
        }
    }

    #[test]
    fn the_running_kernel_has_a_file_with_a_path() {
        // Containers without /sys/kernel/btf still run the other tests.
        let Ok(btf) = Btf::of_running_kernel() else {
            assert!(!Path::new("/sys/kernel/btf/vmlinux").exists());
            return;
        };
        let path = btf.field("file", "f_path").expect("every kernel has file.f_path");
        let dentry = btf
            .field("file", "f_path.dentry")
            .expect("every kernel has file.f_path.dentry");
        assert_eq!(dentry.offset, path.offset + 8);
        assert!(btf.field("file", "no_such_field").is_none());
        assert_eq!(btf.parameter("vfs_open", "path"), Some(0));
        assert_eq!(btf.parameter("vfs_open", "no_such_parameter"), None);
    }
}

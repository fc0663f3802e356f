//! Finds the type id of a kernel function (format: Documentation/bpf/btf.rst of the kernel).

use std::{collections::HashMap, fs};

use anyhow::{Context, Result};

const FILE: &str = "/sys/kernel/btf/vmlinux";
const KIND_FUNCTION: u32 = 12;
/// The functions that LSM programs are attached to begin with this.
const PREFIX: &[u8] = b"bpf_lsm_";

/// Type ids of the functions `bpf_lsm_*`, by the name of the hook.
pub(super) fn hooks() -> Result<HashMap<String, u32>> {
    let data = fs::read(FILE).with_context(|| format!("read {FILE}"))?;
    functions(&data).context("the kernel's type information is damaged")
}

fn functions(data: &[u8]) -> Option<HashMap<String, u32>> {
    let word = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let header = word(4)? as usize;
    let mut at = header + word(8)? as usize;
    let end = at + word(12)? as usize;
    let strings = header + word(16)? as usize;
    let mut hooks = HashMap::new();
    for id in 1.. {
        if at >= end {
            break;
        }
        let info = word(at + 4)?;
        let kind = info >> 24 & 0x1f;
        if kind == KIND_FUNCTION {
            let name = data.get(strings + word(at)? as usize..)?;
            let name = &name[..name.iter().position(|byte| *byte == 0)?];
            if let Some(hook) = name.strip_prefix(PREFIX) {
                hooks.insert(String::from_utf8_lossy(hook).into_owned(), id);
            }
        }
        at += 12 + behind(kind, info as usize & 0xffff)?;
    }
    Some(hooks)
}

/// Bytes that follow the fixed part of a type.
fn behind(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // int, variable, declaration tag
        1 | 14 | 17 => 4,
        // array
        3 => 12,
        // structure, union, enumeration of 64 bit, data section
        4 | 5 | 15 | 19 => 12 * members,
        // enumeration, prototype
        6 | 13 => 8 * members,
        // pointer, forward, typedef, volatile, const, restrict, function, float, type tag
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

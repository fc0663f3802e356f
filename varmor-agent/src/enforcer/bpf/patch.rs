//! Facts of the kernel that are written into the instructions of the object before it is loaded.

use varmor_common::abi::patch::{CAST, FIELDS, FIRST};

use crate::kernel::Facts;

/// `SHF_EXECINSTR`.
const EXECUTABLE: u64 = 4;
/// `BPF_LDX | BPF_MEM`, without the size.
const LOAD: u8 = 0x61;
const SIZE: u8 = 0x18;
/// `BPF_JMP | BPF_CALL`, and the source that marks a call of a kernel function (`BPF_PSEUDO_KFUNC_CALL`).
const CALL: u8 = 0x85;
const KERNEL_FUNCTION: u8 = 0x20;

/// Why the object could not be prepared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum PatchError {
    #[error("the kernel object is no 64-bit ELF file of little-endian order")]
    NotElf,
    #[error("the instruction at byte {at} names the unknown field {number}")]
    UnknownField { at: usize, number: i32 },
    #[error("the field offset {offset} does not fit into an instruction")]
    FarField { offset: u32 },
}

/// The object with every stand-in replaced.
pub(super) fn patched(object: &[u8], facts: &Facts) -> Result<Vec<u8>, PatchError> {
    let mut bytes = object.to_vec();
    for (start, end) in code(object).ok_or(PatchError::NotElf)? {
        let section = bytes.get_mut(start..end).ok_or(PatchError::NotElf)?;
        for (index, instruction) in section.chunks_exact_mut(8).enumerate() {
            replace(instruction, start + index * 8, facts)?;
        }
    }
    Ok(bytes)
}

fn replace(instruction: &mut [u8], at: usize, facts: &Facts) -> Result<(), PatchError> {
    let immediate = u32::from_le_bytes([instruction[4], instruction[5], instruction[6], instruction[7]]);
    if instruction[0] == CALL && instruction[1] == 0 && immediate == CAST {
        // Without the function the call stays as it is: the programs do not reach it.
        if let Some(id) = facts.cast {
            instruction[1] = KERNEL_FUNCTION;
            instruction[4..].copy_from_slice(&id.to_le_bytes());
        }
        return Ok(());
    }
    let number = -i32::from(i16::from_le_bytes([instruction[2], instruction[3]]));
    if instruction[0] & !SIZE != LOAD || number < FIRST {
        return Ok(());
    }
    let known = FIELDS.iter().any(|(stand_in, _)| *stand_in == number);
    let field = facts.fields.iter().find(|(stand_in, _)| *stand_in == number);
    let (true, Some((_, offset))) = (known, field) else {
        return Err(PatchError::UnknownField { at, number });
    };
    let offset = i16::try_from(*offset).map_err(|_| PatchError::FarField { offset: *offset })?;
    instruction[2..4].copy_from_slice(&offset.to_le_bytes());
    Ok(())
}

/// Where the sections with instructions are.
fn code(object: &[u8]) -> Option<Vec<(usize, usize)>> {
    const CLASS_64_LITTLE: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
    if object.get(..6)? != CLASS_64_LITTLE {
        return None;
    }
    let word = |at: usize| -> Option<u64> {
        let bytes = object.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let half = |at: usize| -> Option<usize> {
        let bytes = object.get(at..at.checked_add(2)?)?;
        Some(usize::from(u16::from_le_bytes(bytes.try_into().ok()?)))
    };
    let table = usize::try_from(word(0x28)?).ok()?;
    let (entry, count) = (half(0x3a)?, half(0x3c)?);
    let mut sections = Vec::new();
    for index in 0..count {
        let header = table.checked_add(index.checked_mul(entry)?)?;
        if word(header + 8)? & EXECUTABLE == 0 {
            continue;
        }
        let start = usize::try_from(word(header + 0x18)?).ok()?;
        let size = usize::try_from(word(header + 0x20)?).ok()?;
        sections.push((start, start.checked_add(size)?));
    }
    Some(sections)
}

#[cfg(test)]
mod tests {
    use super::{CAST, Facts, PatchError, patched, replace};

    fn facts(fields: Vec<(i32, u32)>) -> Facts {
        Facts {
            offsets: Vec::new(),
            fields,
            cast: Some(4711),
        }
    }

    fn load(offset: i16) -> [u8; 8] {
        let [low, high] = offset.to_le_bytes();
        [0x79, 0x12, low, high, 0, 0, 0, 0]
    }

    #[test]
    fn a_stand_in_becomes_the_offset_of_its_field() {
        let facts = facts(vec![(super::FIRST, 152)]);
        let mut instruction = load(-20_000);
        replace(&mut instruction, 0, &facts).expect("known field");
        assert_eq!(instruction, load(152));
    }

    #[test]
    fn other_loads_stay_as_they_are() {
        let facts = facts(Vec::new());
        for offset in [0, 24, -8, -512, 32_000] {
            let mut instruction = load(offset);
            replace(&mut instruction, 0, &facts).expect("an ordinary load");
            assert_eq!(instruction, load(offset));
        }
    }

    #[test]
    fn an_unknown_stand_in_refuses_the_object() {
        let error = replace(&mut load(-29_999), 64, &facts(Vec::new()));
        assert_eq!(
            error,
            Err(PatchError::UnknownField {
                at: 64,
                number: 29_999
            })
        );
    }

    #[test]
    fn a_call_of_the_cast_becomes_a_call_of_the_kernel_function() {
        let mut instruction = [0x85, 0, 0, 0, 0, 0, 0, 0];
        instruction[4..].copy_from_slice(&CAST.to_le_bytes());
        replace(&mut instruction, 0, &facts(Vec::new())).expect("a cast");
        assert_eq!(instruction, [0x85, 0x20, 0, 0, 0x67, 0x12, 0, 0]);
    }

    #[test]
    fn bytes_that_are_no_object_are_refused() {
        assert_eq!(patched(b"#!/bin/sh", &facts(Vec::new())), Err(PatchError::NotElf));
    }
}

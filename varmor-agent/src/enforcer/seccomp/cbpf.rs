//! Classic BPF as far as seccomp has it: what a filter answers to a system call, without a kernel.

use thiserror::Error;

/// A filter as the kernel gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<Instruction>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    /// How many instructions are skipped if the test holds, and if not.
    jump_true: u8,
    jump_false: u8,
    operand: u32,
}

/// `struct seccomp_data` without the instruction pointer, which no filter of ours reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub number: u32,
    /// `AUDIT_ARCH_*`
    pub architecture: u32,
    pub arguments: [u64; 6],
}

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Allow,
    Log,
    Errno(u16),
    Trap,
    KillThread,
    KillProcess,
}

/// Why a filter gives no answer. The kernel would not have loaded such a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("the filter has {0} bytes, which is no whole number of instructions up to 4096")]
    Length(usize),
    #[error("instruction {at} has the unknown operation {code:#x}")]
    Operation { at: usize, code: u16 },
    #[error("instruction {at} reads the offset {offset}, where a system call has nothing")]
    Offset { at: usize, offset: u32 },
    #[error("instruction {at} leads out of the filter")]
    Out { at: usize },
    #[error("the filter answers {0:#x}, which is no action")]
    Action(u32),
}

/// `BPF_MAXINSNS`
const MOST: usize = 4096;
const SIZE: usize = 8;

const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

impl Program {
    /// Reads `struct sock_filter[]` of this machine.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let (chunks, rest) = bytes.as_chunks::<SIZE>();
        if !rest.is_empty() || chunks.is_empty() || chunks.len() > MOST {
            return Err(Fault::Length(bytes.len()));
        }
        let read = |[c0, c1, jump_true, jump_false, k0, k1, k2, k3]: &[u8; SIZE]| Instruction {
            code: u16::from_ne_bytes([*c0, *c1]),
            jump_true: *jump_true,
            jump_false: *jump_false,
            operand: u32::from_ne_bytes([*k0, *k1, *k2, *k3]),
        };
        Ok(Self(chunks.iter().map(read).collect()))
    }

    /// The number of instructions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: the kernel has no empty filters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the filter answers. It ends, because jumps lead forward only.
    pub fn run(&self, call: &Call) -> Result<Answer, Fault> {
        let mut accumulator = 0u32;
        let mut at = 0;
        loop {
            let instruction = *self.0.get(at).ok_or(Fault::Out { at })?;
            let operand = instruction.operand;
            let mut next = at + 1;
            let mut branch = |holds: bool| {
                next += usize::from(if holds {
                    instruction.jump_true
                } else {
                    instruction.jump_false
                });
            };
            match instruction.code {
                LOAD_WORD => {
                    accumulator = call.word(operand).ok_or(Fault::Offset { at, offset: operand })?;
                }
                AND => accumulator &= operand,
                JUMP => next = next.saturating_add(operand as usize),
                JUMP_EQUAL => branch(accumulator == operand),
                JUMP_GREATER => branch(accumulator > operand),
                JUMP_GREATER_OR_EQUAL => branch(accumulator >= operand),
                JUMP_SET => branch(accumulator & operand != 0),
                RETURN => return answer(operand),
                code => return Err(Fault::Operation { at, code }),
            }
            at = next;
        }
    }
}

impl Call {
    /// The word at an offset of `struct seccomp_data`.
    fn word(&self, offset: u32) -> Option<u32> {
        match offset {
            0 => Some(self.number),
            4 => Some(self.architecture),
            16..64 if offset.is_multiple_of(4) => {
                let argument = self.arguments[(offset as usize - 16) / 8].to_ne_bytes();
                let half = offset as usize % 8;
                Some(u32::from_ne_bytes(argument[half..half + 4].try_into().ok()?))
            }
            _ => None,
        }
    }
}

fn answer(value: u32) -> Result<Answer, Fault> {
    let data = u16::try_from(value & 0xffff).unwrap_or_default();
    match value & 0xffff_0000 {
        0x7fff_0000 => Ok(Answer::Allow),
        0x7ffc_0000 => Ok(Answer::Log),
        0x0005_0000 => Ok(Answer::Errno(data)),
        0x0003_0000 => Ok(Answer::Trap),
        0x0000_0000 => Ok(Answer::KillThread),
        0x8000_0000 => Ok(Answer::KillProcess),
        _ => Err(Fault::Action(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(instructions: &[(u16, u8, u8, u32)]) -> Program {
        let bytes: Vec<u8> = instructions
            .iter()
            .flat_map(|(code, yes, no, operand)| {
                let mut bytes = code.to_ne_bytes().to_vec();
                bytes.extend([*yes, *no]);
                bytes.extend(operand.to_ne_bytes());
                bytes
            })
            .collect();
        Program::parse(&bytes).unwrap()
    }

    #[test]
    fn both_halves_of_an_argument_are_read() {
        // Allow if the second argument is 5 in its low half and 1 in its high half.
        let filter = program(&[
            (LOAD_WORD, 0, 0, 24),
            (JUMP_EQUAL, 0, 3, 5),
            (LOAD_WORD, 0, 0, 28),
            (JUMP_EQUAL, 0, 1, 1),
            (RETURN, 0, 0, 0x7fff_0000),
            (RETURN, 0, 0, 0x0005_0026),
        ]);
        let call = |argument| Call {
            arguments: [0, argument, 0, 0, 0, 0],
            ..Call::default()
        };
        assert_eq!(filter.run(&call(0x1_0000_0005)), Ok(Answer::Allow));
        assert_eq!(filter.run(&call(5)), Ok(Answer::Errno(38)));
    }

    #[test]
    fn tests_and_masks_jump_as_they_say() {
        let after = |code, operand, value: u64| {
            let filter = program(&[
                (LOAD_WORD, 0, 0, 16),
                (AND, 0, 0, 0xff),
                (code, 1, 0, operand),
                (RETURN, 0, 0, 0),
                (RETURN, 0, 0, 0x7fff_0000),
            ]);
            let call = Call {
                arguments: [value, 0, 0, 0, 0, 0],
                ..Call::default()
            };
            filter.run(&call) == Ok(Answer::Allow)
        };
        assert!(after(JUMP_EQUAL, 7, 0x107) && !after(JUMP_EQUAL, 7, 8));
        assert!(after(JUMP_GREATER, 7, 8) && !after(JUMP_GREATER, 7, 7));
        assert!(after(JUMP_GREATER_OR_EQUAL, 7, 7) && !after(JUMP_GREATER_OR_EQUAL, 7, 6));
        assert!(after(JUMP_SET, 6, 4) && !after(JUMP_SET, 6, 8));
    }

    #[test]
    fn broken_filters_are_faults() {
        assert_eq!(Program::parse(&[0; 12]), Err(Fault::Length(12)));
        assert_eq!(Program::parse(&[]), Err(Fault::Length(0)));
        let run = |instruction| program(&[instruction]).run(&Call::default());
        assert_eq!(run((0x99, 0, 0, 0)), Err(Fault::Operation { at: 0, code: 0x99 }));
        assert_eq!(run((LOAD_WORD, 0, 0, 8)), Err(Fault::Offset { at: 0, offset: 8 }));
        assert_eq!(
            run((LOAD_WORD, 0, 0, 64)),
            Err(Fault::Offset { at: 0, offset: 64 })
        );
        assert_eq!(run((JUMP, 0, 0, u32::MAX)), Err(Fault::Out { at: 0x1_0000_0000 }));
        assert_eq!(run((RETURN, 0, 0, 0x7fc0_0000)), Err(Fault::Action(0x7fc0_0000)));
    }
}

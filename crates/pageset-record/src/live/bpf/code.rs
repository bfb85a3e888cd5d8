//! Instructions of the kernel's BPF virtual machine, and an assembler of programs.
//!
//! Source: the instruction set (RFC 9669). Only the instructions that the programs use.

/// An instruction in the kernel's layout, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Insn {
    code: u8,
    /// The destination in the low half, the source in the high.
    registers: u8,
    offset: i16,
    imm: i32,
}

/// A register. R0 has a call's result; R1 to R5 are a call's arguments, which the call clobbers; R6 to R9 are
/// preserved; R10 is the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct R(pub(super) u8);

pub(super) const R0: R = R(0);
pub(super) const R1: R = R(1);
pub(super) const R2: R = R(2);
pub(super) const R3: R = R(3);
pub(super) const R4: R = R(4);
pub(super) const R6: R = R(6);
pub(super) const R7: R = R(7);
pub(super) const R8: R = R(8);
pub(super) const R9: R = R(9);

/// The offset of a word in bytes.
pub(super) const fn offset(word: usize) -> i16 {
    (word * 8) as i16
}

/// The right side of a comparison.
#[derive(Clone, Copy)]
pub(super) enum With {
    Register(R),
    Number(i32),
}

impl From<R> for With {
    fn from(register: R) -> With {
        With::Register(register)
    }
}

impl From<i32> for With {
    fn from(number: i32) -> With {
        With::Number(number)
    }
}

/// The comparison of unsigned 64-bit numbers, except for `SignedLessEqual`.
#[derive(Clone, Copy)]
pub(super) enum When {
    Equal,
    NotEqual,
    Greater,
    Less,
    LessEqual,
    SignedLessEqual,
}

/// Kernel helper functions that programs call. Source: `linux/bpf.h`.
#[derive(Clone, Copy)]
pub(super) enum Helper {
    MapLookupElem = 1,
    MapUpdateElem = 2,
    KtimeGetNs = 5,
    GetPrandomU32 = 7,
    GetSmpProcessorId = 8,
    GetCurrentPidTgid = 14,
    GetCurrentComm = 16,
    GetStack = 67,
}

/// A jump target, which may be defined after the jump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(usize);

/// A program under construction.
#[derive(Default)]
pub(super) struct Code {
    insns: Vec<Insn>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Code {
    fn push(&mut self, code: u8, to: R, from: R, offset: i16, imm: i32) -> &mut Self {
        self.insns.push(Insn { code, registers: from.0 << 4 | to.0, offset, imm });
        self
    }

    /// `to = from`.
    pub(super) fn copy(&mut self, to: R, from: R) -> &mut Self {
        self.push(0xbf, to, from, 0, 0)
    }

    /// `to = number`.
    pub(super) fn set(&mut self, to: R, number: i32) -> &mut Self {
        self.push(0xb7, to, R(0), 0, number)
    }

    /// `to = number`, of 64 bits.
    pub(super) fn set_wide(&mut self, to: R, number: u64) -> &mut Self {
        self.push(0x18, to, R(0), 0, number as u32 as i32).push(0, R(0), R(0), 0, (number >> 32) as u32 as i32)
    }

    /// `to` = the map of this descriptor.
    pub(super) fn set_map(&mut self, to: R, fd: i32) -> &mut Self {
        self.push(0x18, to, R(1), 0, fd).push(0, R(0), R(0), 0, 0)
    }

    /// `to += number`.
    pub(super) fn add_number(&mut self, to: R, number: i32) -> &mut Self {
        self.push(0x07, to, R(0), 0, number)
    }

    /// `to += from`.
    pub(super) fn add(&mut self, to: R, from: R) -> &mut Self {
        self.push(0x0f, to, from, 0, 0)
    }

    /// `to -= from`.
    pub(super) fn subtract(&mut self, to: R, from: R) -> &mut Self {
        self.push(0x1f, to, from, 0, 0)
    }

    /// `to *= from`.
    pub(super) fn multiply(&mut self, to: R, from: R) -> &mut Self {
        self.push(0x2f, to, from, 0, 0)
    }

    /// `to &= bits`.
    pub(super) fn mask(&mut self, to: R, bits: i32) -> &mut Self {
        self.push(0x57, to, R(0), 0, bits)
    }

    /// `to >>= bits`, unsigned.
    pub(super) fn shift_right(&mut self, to: R, bits: i32) -> &mut Self {
        self.push(0x77, to, R(0), 0, bits)
    }

    /// `to <<= bits`.
    pub(super) fn shift_left(&mut self, to: R, bits: i32) -> &mut Self {
        self.push(0x67, to, R(0), 0, bits)
    }

    /// `to <<= by`; of `by`, only the low six bits count.
    pub(super) fn shift_left_by(&mut self, to: R, by: R) -> &mut Self {
        self.push(0x6f, to, by, 0, 0)
    }

    /// Clears the high 32 bits.
    pub(super) fn narrow(&mut self, to: R) -> &mut Self {
        self.push(0xbc, to, to, 0, 0)
    }

    /// `to` = the 64-bit word at `from + offset`.
    pub(super) fn load(&mut self, to: R, from: R, offset: i16) -> &mut Self {
        self.push(0x79, to, from, offset, 0)
    }

    /// The 64-bit word at `to + offset` = `from`.
    pub(super) fn store(&mut self, to: R, offset: i16, from: R) -> &mut Self {
        self.push(0x7b, to, from, offset, 0)
    }

    /// The 32-bit word at `to + offset` = `from`.
    pub(super) fn store_half(&mut self, to: R, offset: i16, from: R) -> &mut Self {
        self.push(0x63, to, from, offset, 0)
    }

    /// The 64-bit word at `to + offset` += `from`, as one atomic operation.
    pub(super) fn add_atomic(&mut self, to: R, offset: i16, from: R) -> &mut Self {
        self.push(0xdb, to, from, offset, 0)
    }

    pub(super) fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(0x85, R(0), R(0), 0, helper as i32)
    }

    pub(super) fn exit(&mut self) -> &mut Self {
        self.set(R(0), 0).push(0x95, R(0), R(0), 0, 0)
    }

    /// Creates a jump target; [`Self::here`] defines its position.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Defines the position of a label.
    pub(super) fn here(&mut self, label: Label) -> &mut Self {
        debug_assert!(self.labels[label.0].is_none(), "a label defined twice");
        self.labels[label.0] = Some(self.insns.len());
        self
    }

    pub(super) fn jump(&mut self, to: Label) -> &mut Self {
        self.jumps.push((self.insns.len(), to));
        self.push(0x05, R(0), R(0), 0, 0)
    }

    /// Jumps to the label if the comparison holds.
    pub(super) fn jump_if(&mut self, value: R, when: When, with: impl Into<With>, to: Label) -> &mut Self {
        let how = match when {
            When::Equal => 0x10,
            When::NotEqual => 0x50,
            When::Greater => 0x20,
            When::Less => 0xa0,
            When::LessEqual => 0xb0,
            When::SignedLessEqual => 0xd0,
        };
        self.jumps.push((self.insns.len(), to));
        match with.into() {
            With::Register(register) => self.push(how | 0x0d, value, register, 0, 0),
            With::Number(number) => self.push(how | 0x05, value, R(0), 0, number),
        }
    }

    /// Returns the program with resolved jumps.
    pub(super) fn done(mut self) -> Vec<Insn> {
        for (place, label) in self.jumps {
            let target = self.labels[label.0].expect("each label is defined");
            // Offsets count from the instruction after the jump. All jumps go forward by at most a few hundred
            // instructions.
            self.insns[place].offset = i16::try_from(target - place - 1).expect("programs are short");
        }
        self.insns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jump_offsets_count_from_the_next_instruction() {
        let mut code = Code::default();
        let (near, far) = (code.label(), code.label());
        code.jump_if(R(1), When::Equal, 7, near).jump_if(R(2), When::Less, R(3), far);
        code.here(near).set_wide(R(4), 0x1234_5678_9abc_def0).here(far).exit();
        let insns = code.done();
        let offsets: Vec<i16> = insns.iter().map(|insn| insn.offset).collect();
        assert_eq!(offsets, [1, 2, 0, 0, 0, 0]);
        assert_eq!(insns[0], Insn { code: 0x15, registers: 0x01, offset: 1, imm: 7 });
        assert_eq!(insns[1], Insn { code: 0xad, registers: 0x32, offset: 2, imm: 0 });
        assert_eq!((insns[2].imm as u32, insns[3].imm as u32), (0x9abc_def0, 0x1234_5678));
        assert_eq!(std::mem::size_of::<Insn>(), 8);
    }

    /// RFC 9669, 4.1 and 5.3: BPF_ALU64 | BPF_LSH | BPF_X, and BPF_STX | BPF_ATOMIC | BPF_DW with BPF_ADD.
    #[test]
    fn adds_are_atomic_and_shifts_take_registers() {
        let mut code = Code::default();
        code.shift_left_by(R(7), R(6)).add_atomic(R(0), 16, R(7)).call(Helper::GetCurrentComm);
        let insn = |code, registers, offset, imm| Insn { code, registers, offset, imm };
        assert_eq!(code.done(), [insn(0x6f, 0x67, 0, 0), insn(0xdb, 0x70, 16, 0), insn(0x85, 0, 0, 16)]);
    }
}

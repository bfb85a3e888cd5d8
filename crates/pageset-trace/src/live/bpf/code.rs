//! Instructions of the kernel's virtual machine, and programs put together from them.
//!
//! Source: the instruction set, which is a standard (RFC 9669). Only what the programs here use.

/// An instruction in the kernel's layout, little end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Insn {
    code: u8,
    /// The destination in the low half, the source in the high.
    registers: u8,
    offset: i16,
    imm: i32,
}

/// A register. R0 is what a call returns, R1 to R5 are its arguments and are lost by it, R6 to R9 are kept, R10 is the end
/// of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct R(pub(super) u8);

/// What a value is compared with.
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

/// How: all as 64-bit numbers without a sign, but for `SignedLessEqual`.
#[derive(Clone, Copy)]
pub(super) enum When {
    Equal,
    NotEqual,
    Greater,
    Less,
    LessEqual,
    SignedLessEqual,
}

/// Functions of the kernel that programs may call. Source: `linux/bpf.h`.
#[derive(Clone, Copy)]
pub(super) enum Helper {
    MapLookupElem = 1,
    KtimeGetNs = 5,
    GetSmpProcessorId = 8,
    GetStack = 67,
}

/// A place in a program that is not known yet when it is jumped to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(usize);

/// A program being written.
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

    /// `to >>= bits`, without a sign.
    pub(super) fn shift_right(&mut self, to: R, bits: i32) -> &mut Self {
        self.push(0x77, to, R(0), 0, bits)
    }

    /// `to <<= bits`.
    pub(super) fn shift_left(&mut self, to: R, bits: i32) -> &mut Self {
        self.push(0x67, to, R(0), 0, bits)
    }

    /// The low 32 bits alone.
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

    /// Calls a function of the kernel.
    pub(super) fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(0x85, R(0), R(0), 0, helper as i32)
    }

    /// Ends the program.
    pub(super) fn exit(&mut self) -> &mut Self {
        self.set(R(0), 0).push(0x95, R(0), R(0), 0, 0)
    }

    /// A place to jump to, which [`Self::here`] fixes.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub(super) fn here(&mut self, label: Label) -> &mut Self {
        debug_assert!(self.labels[label.0].is_none(), "a label in two places");
        self.labels[label.0] = Some(self.insns.len());
        self
    }

    /// Goes on at the label.
    pub(super) fn jump(&mut self, to: Label) -> &mut Self {
        self.jumps.push((self.insns.len(), to));
        self.push(0x05, R(0), R(0), 0, 0)
    }

    /// Goes on at the label when the comparison holds.
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

    /// The program, its jumps filled in.
    pub(super) fn done(mut self) -> Vec<Insn> {
        for (place, label) in self.jumps {
            let target = self.labels[label.0].expect("each label is somewhere");
            // Counted from the instruction after the jump. All jumps here go forwards, within a few hundred.
            self.insns[place].offset = i16::try_from(target - place - 1).expect("programs are short");
        }
        self.insns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_counted_from_the_next_instruction() {
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
}

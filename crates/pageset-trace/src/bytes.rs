//! Little-endian numbers and texts at the front of a slice.

/// Takes numbers and bytes from the front of a slice; `None` if it is too short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, bytes: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(bytes).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Takes a text that ends in a zero byte, without that byte.
    pub(crate) fn c_string(&mut self) -> Option<&'a [u8]> {
        let length = memchr::memchr(0, self.0)?;
        let text = self.take(length as u64)?;
        self.take(1)?;
        Some(text)
    }
}

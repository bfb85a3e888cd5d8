//! Varints: numbers with seven bits per byte, lowest first.

/// Appends `value`: 1 to 10 bytes.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number from the front; `None` if it is incomplete or does not fit 64 bits.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(first.into());
    }
    let mut value = u64::from(first & 0x7f);
    for (i, &byte) in rest.iter().enumerate().take(9) {
        let shift = 7 * (i as u32 + 1);
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            *bytes = &rest[i + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{put, take};

    #[test]
    fn numbers_decode_to_themselves() {
        let edges = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([u64::MAX]);
        for value in edges {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            for short in 0..bytes.len() {
                assert_eq!(take(&mut &bytes[..short]), None, "{value:#x} cut to {short} bytes");
            }
            bytes.push(7);
            let mut rest = &bytes[..];
            assert_eq!((take(&mut rest), rest), (Some(value), &[7][..]));
        }
    }

    #[test]
    fn too_large_numbers_are_refused() {
        assert_eq!(take(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..]), None);
        assert_eq!(take(&mut &[0x80; 12][..]), None);
    }
}

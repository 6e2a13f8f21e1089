//! Numbers and `key=value` fields of printed events.

use crate::event::Pid;
use schedlab_machine::{CPUS_MAX, CpuId};

/// The body of a known event does not have the fields that the event needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// The longest name the kernel keeps for a task (`TASK_COMM_LEN` without the final zero).
const COMM_BYTES_MAX: usize = 15;

/// The decimal number that `text` begins with, and what follows. `None` without a digit or above
/// 64 bits.
#[inline]
pub(super) fn decimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut digits = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        digits += 1;
    }
    (digits > 0).then(|| (value, &text[digits..]))
}

/// A whole word as a number: decimal, `0x` hexadecimal or negative. Negative ones wrap as the
/// kernel's `%llu` of a negative value does.
pub(super) fn number(word: &[u8]) -> Result<u64, Broken> {
    match word {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits),
        [b'-', digits @ ..] => Ok(number(digits)?.wrapping_neg()),
        _ => match decimal(word) {
            Some((value, [])) => Ok(value),
            _ => Err(Broken),
        },
    }
}

/// A kernel pointer, which releases print with and without `0x`.
pub(super) fn pointer(word: &[u8]) -> Result<u64, Broken> {
    match word {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits),
        b"(null)" | b"(nil)" => Ok(0),
        _ => hexadecimal(word),
    }
}

fn hexadecimal(digits: &[u8]) -> Result<u64, Broken> {
    if digits.is_empty() || digits.len() > 16 {
        return Err(Broken);
    }
    digits.iter().try_fold(0u64, |value, &byte| {
        let digit = char::from(byte).to_digit(16).ok_or(Broken)?;
        Ok(value << 4 | u64::from(digit))
    })
}

/// A number that fits the field it is for.
pub(super) fn narrow<T: TryFrom<u64>>(value: u64) -> Result<T, Broken> {
    T::try_from(value).map_err(|_| Broken)
}

/// A whole word as a signed number of 32 bits (a thread id, a priority, an interrupt).
pub(super) fn signed(word: &[u8]) -> Result<i32, Broken> {
    let value = number(word)?;
    // Both a printed minus and a printed unsigned -1 arrive here as a large number.
    i32::try_from(value as i64).or_else(|_| u32::try_from(value).map(|v| v as i32)).or(Err(Broken))
}

/// A whole word as a thread id.
pub(super) fn pid(word: &[u8]) -> Result<Pid, Broken> {
    signed(word).map(Pid)
}

/// A whole word as a CPU number.
pub(super) fn cpu(word: &[u8]) -> Result<CpuId, Broken> {
    let value = number(word)?;
    if value < CPUS_MAX as u64 { Ok(CpuId(value as u32)) } else { Err(Broken) }
}

/// A function's name without the offset that trace-cmd and `%pS` print behind it
/// (`tick_nohz_handler/0x0`, `wakeup_preempt+0x37`).
pub(super) fn symbol(word: &[u8]) -> &[u8] {
    let end = word.windows(3).position(|at| matches!(at, [b'/' | b'+', b'0', b'x']));
    &word[..end.unwrap_or(word.len())]
}

/// The fields of one printed event. Values run to the next blank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The value of `key`, which ends in `=`.
    #[inline]
    pub(super) fn get(self, key: &[u8]) -> Result<&'a [u8], Broken> {
        self.find(key).ok_or(Broken)
    }

    /// As [`Fields::get`], for a field that not every release prints.
    #[inline]
    pub(super) fn find(self, key: &[u8]) -> Option<&'a [u8]> {
        let from = self.after(key)?;
        let end = from.iter().position(|&byte| byte == b' ').unwrap_or(from.len());
        Some(&from[..end])
    }

    /// The number that field `key` holds.
    pub(super) fn number(self, key: &[u8]) -> Result<u64, Broken> {
        number(self.get(key)?)
    }

    /// The text behind `key`, where `key` begins a word.
    #[inline]
    fn after(self, key: &[u8]) -> Option<&'a [u8]> {
        let mut text = self.0;
        loop {
            if let Some(value) = text.strip_prefix(key) {
                return Some(value);
            }
            let blank = text.iter().position(|&byte| byte == b' ')?;
            text = &text[blank + 1..];
        }
    }

    /// The task's name behind `key` and the fields from `next` on, `next` being the blank and the
    /// key that follow the name. A name may hold blanks and even look like the next field; it is
    /// at most 15 bytes long, so the last possible end within these is the true one. Old kernels
    /// of some vendors kept longer names: then it is the first end of all.
    #[inline]
    pub(super) fn comm(self, key: &[u8], next: &[u8]) -> Result<(&'a [u8], Fields<'a>), Broken> {
        let text = self.after(key).ok_or(Broken)?;
        let ends_at = |at: &usize| {
            let at = *at;
            text.get(at) == Some(&b' ') && text[at..].starts_with(next)
        };
        let last = COMM_BYTES_MAX.min(text.len());
        let end = (0..=last)
            .rev()
            .find(ends_at)
            .or_else(|| (last + 1..text.len()).find(ends_at))
            .ok_or(Broken)?;
        Ok((&text[..end], Fields(&text[end + 1..])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_spelling() {
        assert_eq!(number(b"42"), Ok(42));
        assert_eq!(number(b"0x2a"), Ok(42));
        assert_eq!(number(b"-1"), Ok(u64::MAX));
        assert_eq!(signed(b"-1"), Ok(-1));
        assert_eq!(signed(b"4294967295"), Ok(-1));
        assert_eq!(signed(b"18446744073709551615"), Ok(-1));
        assert_eq!(signed(b"99999999999"), Err(Broken));
        assert_eq!(number(b""), Err(Broken));
        assert_eq!(number(b"4x"), Err(Broken));
        assert_eq!(number(b"99999999999999999999"), Err(Broken));
        assert_eq!(pointer(b"00000000d3b6f0b4"), Ok(0xd3b6_f0b4));
        assert_eq!(pointer(b"0xff1100007bca6418"), Ok(0xff11_0000_7bca_6418));
        assert_eq!(pointer(b"0x11112222333344445"), Err(Broken));
        assert_eq!(cpu(b"003"), Ok(CpuId(3)));
        assert_eq!(cpu(b"4096"), Err(Broken));
    }

    #[test]
    fn symbols_lose_their_offset() {
        assert_eq!(symbol(b"tick_nohz_handler/0x0"), b"tick_nohz_handler");
        assert_eq!(symbol(b"wakeup_preempt+0x37"), b"wakeup_preempt");
        assert_eq!(symbol(b"0xffffffff811cac00"), b"0xffffffff811cac00");
    }

    #[test]
    fn fields_are_found_at_word_starts_only() {
        let fields = Fields(b"child_pid=3 pid=4 comm=a pid=9");
        assert_eq!(fields.get(b"pid="), Ok(&b"4"[..]));
        assert_eq!(fields.get(b"child_pid="), Ok(&b"3"[..]));
        assert_eq!(fields.get(b"prio="), Err(Broken));
    }

    #[test]
    fn a_name_may_look_like_the_next_field() {
        for comm in ["", "a", "a b", "a pid=3", " pid=1 pid=2", "fifteen bytes ."] {
            let body = format!("comm={comm} pid=7 prio=120");
            let (seen, rest) = Fields(body.as_bytes()).comm(b"comm=", b" pid=").expect(comm);
            assert_eq!((seen, rest.0), (comm.as_bytes(), &b"pid=7 prio=120"[..]));
        }
        let long = Fields(b"comm=a name of more bytes pid=7");
        assert_eq!(
            long.comm(b"comm=", b" pid=").map(|seen| seen.0),
            Ok(&b"a name of more bytes"[..])
        );
        assert!(Fields(b"comm=x").comm(b"comm=", b" pid=").is_err());
    }
}

//! Sets of CPUs as fixed-size bitsets (`struct cpumask`).

use std::fmt;
use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Not, Sub, SubAssign};
use std::str::FromStr;

mod iter;

pub use iter::{Both, Iter};

use crate::{CPUS_MAX, CpuId};
use iter::{bits, lowest};

const WORDS: usize = CPUS_MAX / 64;

/// A set of CPUs: [`CPUS_MAX`] bits, copied like a number, with the kernel's way of writing. It
/// knows which of its words are in use, so that a search costs what a machine's CPUs need and not
/// what the widest machine would.
///
/// ```
/// use schedlab_machine::{CpuId, CpuSet};
///
/// let set: CpuSet = "0-3,8".parse()?;
/// assert_eq!(set.weight(), 5);
/// assert_eq!(set.next(CpuId(4)), Some(CpuId(8)));
/// assert_eq!(set.next_wrapping(CpuId(9)), Some(CpuId(0)));
/// assert_eq!(set.to_string(), "0-3,8");
/// assert_eq!(set.to_mask(), "10f");
/// # Ok::<(), schedlab_machine::CpuSetError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: [u64; WORDS],
    /// A bit for each word that is not 0.
    used: u32,
}

const _: () = assert!(WORDS <= u32::BITS as usize, "each word needs a bit");

/// Why a text is not a CPU list or mask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct CpuSetError {
    what: String,
}

impl CpuSetError {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }
}

impl CpuSet {
    /// The empty set.
    pub const EMPTY: Self = Self { words: [0; WORDS], used: 0 };

    /// The CPUs 0 to `count - 1` (at most [`CPUS_MAX`]).
    pub fn first_n(count: usize) -> Self {
        let mut set = Self::EMPTY;
        for index in 0..count.div_ceil(64).min(WORDS) {
            let bits = count - index * 64;
            set.set_word(index, if bits < 64 { (1 << bits) - 1 } else { u64::MAX });
        }
        set
    }

    /// The set of one CPU.
    ///
    /// # Panics
    /// When `cpu` is not below [`CPUS_MAX`].
    #[inline]
    pub fn of(cpu: CpuId) -> Self {
        let mut set = Self::EMPTY;
        set.insert(cpu);
        set
    }

    /// Puts `cpu` into the set; tells whether it is new.
    ///
    /// # Panics
    /// When `cpu` is not below [`CPUS_MAX`].
    #[inline]
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let index = cpu.index() / 64;
        let word = &mut self.words[index];
        let bit = 1 << (cpu.0 % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.used |= 1 << index;
        new
    }

    /// Takes `cpu` out of the set; tells whether it was in.
    #[inline]
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let was_in = self.contains(cpu);
        if was_in {
            let index = cpu.index() / 64;
            self.set_word(index, self.words[index] & !(1 << (cpu.0 % 64)));
        }
        was_in
    }

    /// Puts `cpu` into the set or takes it out.
    ///
    /// # Panics
    /// When `cpu` is not below [`CPUS_MAX`].
    #[inline]
    pub fn set(&mut self, cpu: CpuId, member: bool) {
        let index = cpu.index() / 64;
        let others = self.words[index] & !(1 << (cpu.0 % 64));
        self.set_word(index, others | u64::from(member) << (cpu.0 % 64));
    }

    /// Takes the CPUs of another set out (`cpumask_andnot()`).
    #[inline]
    pub fn subtract(&mut self, other: &Self) {
        for index in bits(self.used & other.used) {
            self.set_word(index, self.words[index] & !other.words[index]);
        }
    }

    /// Takes every CPU out of the set.
    #[inline]
    pub fn clear(&mut self) {
        for index in self.in_use() {
            self.words[index] = 0;
        }
        self.used = 0;
    }

    /// Whether `cpu` is in the set. A number beyond [`CPUS_MAX`] never is.
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.0 % 64) & 1 != 0)
    }

    /// How many CPUs are in the set (`cpumask_weight()`).
    #[inline]
    pub fn weight(&self) -> usize {
        self.in_use().map(|index| self.words[index].count_ones() as usize).sum()
    }

    /// Whether no CPU is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The lowest CPU of the set.
    #[inline]
    pub fn first(&self) -> Option<CpuId> {
        self.next(CpuId(0))
    }

    /// The highest CPU of the set.
    pub fn last(&self) -> Option<CpuId> {
        let index = self.used.checked_ilog2()?;
        Some(CpuId(index * 64 + self.words[index as usize].ilog2()))
    }

    /// The lowest CPU of the set that is not below `from`.
    #[inline]
    pub fn next(&self, from: CpuId) -> Option<CpuId> {
        let index = from.index() / 64;
        let word = self.words.get(index)? & (u64::MAX << (from.0 % 64));
        if word != 0 {
            return Some(lowest(index, word));
        }
        let beyond = self.used & (u32::MAX << index << 1);
        let index = (beyond != 0).then(|| beyond.trailing_zeros() as usize)?;
        Some(lowest(index, self.words[index]))
    }

    /// [`next`](Self::next), starting over at CPU 0 behind the end (`for_each_cpu_wrap()`'s step).
    #[inline]
    pub fn next_wrapping(&self, from: CpuId) -> Option<CpuId> {
        self.next(from).or_else(|| self.first())
    }

    /// [`next_wrapping`](Self::next_wrapping) among the CPUs that are in both sets, without building
    /// the cut.
    #[inline]
    pub fn next_wrapping_and(&self, other: &Self, from: CpuId) -> Option<CpuId> {
        let index = from.index() / 64;
        let both = self.used & other.used;
        if let (Some(a), Some(b)) = (self.words.get(index), other.words.get(index)) {
            let word = a & b & (u64::MAX << (from.0 % 64));
            if word != 0 {
                return Some(lowest(index, word));
            }
            let beyond = both & (u32::MAX << index << 1);
            let mut cut = bits(beyond).map(|index| (index, self.words[index] & other.words[index]));
            if let Some((index, word)) = cut.find(|(_, word)| *word != 0) {
                return Some(lowest(index, word));
            }
        }
        self.first_and(other)
    }

    /// The CPUs that are in both sets, in ascending order, without building the cut.
    #[inline]
    pub fn iter_and<'a>(&'a self, other: &'a Self) -> Iter<Both<'a>> {
        Iter::over(Both(self, other))
    }

    /// How many CPUs of the set a walk from `from` up, and behind the end from CPU 0 on, meets until
    /// it has met `cpu`, which is in the set.
    ///
    /// ```
    /// # use schedlab_machine::{CpuId, CpuSet};
    /// let set: CpuSet = "1-3,70".parse()?;
    /// assert_eq!(set.weight_wrapping(CpuId(3), CpuId(70)), 2);
    /// assert_eq!(set.weight_wrapping(CpuId(3), CpuId(1)), 3);
    /// # Ok::<(), schedlab_machine::CpuSetError>(())
    /// ```
    pub fn weight_wrapping(&self, from: CpuId, cpu: CpuId) -> usize {
        let until = self.weight_below(cpu.index() + 1);
        let before = self.weight_below(from.index());
        if cpu >= from { until - before } else { self.weight() - before + until }
    }

    /// How many CPUs of the set have numbers below `end`.
    fn weight_below(&self, end: usize) -> usize {
        let whole = self.words.iter().take(end / 64).map(|word| word.count_ones());
        let part = self.words.get(end / 64).map_or(0, |word| word & ((1 << (end % 64)) - 1));
        (whole.sum::<u32>() + part.count_ones()) as usize
    }

    /// The lowest CPU that is in both sets (`cpumask_first_and()`), without building the cut.
    #[inline]
    pub fn first_and(&self, other: &Self) -> Option<CpuId> {
        let mut cut = self.in_use().map(|index| (index, self.words[index] & other.words[index]));
        cut.find(|(_, word)| *word != 0).map(|(index, word)| lowest(index, word))
    }

    /// How many CPUs both sets share (`cpumask_weight_and()`).
    #[inline]
    pub fn weight_and(&self, other: &Self) -> usize {
        let cut = self.in_use().map(|index| self.words[index] & other.words[index]);
        cut.map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the sets share a CPU (`cpumask_intersects()`).
    #[inline]
    pub fn intersects(&self, other: &Self) -> bool {
        self.in_use().any(|index| self.words[index] & other.words[index] != 0)
    }

    /// Whether the sets share a CPU that is not in `without`.
    ///
    /// ```
    /// # use schedlab_machine::CpuSet;
    /// let (a, b): (CpuSet, CpuSet) = ("1-3,70".parse()?, "3,70".parse()?);
    /// assert!(a.intersects_beyond(&b, &"3".parse()?));
    /// assert!(!a.intersects_beyond(&b, &"3,70".parse()?));
    /// # Ok::<(), schedlab_machine::CpuSetError>(())
    /// ```
    #[inline]
    pub fn intersects_beyond(&self, other: &Self, without: &Self) -> bool {
        let shared = |index: usize| self.words[index] & other.words[index] & !without.words[index];
        bits(self.used & other.used).any(|index| shared(index) != 0)
    }

    /// Whether every CPU of this set is in `other` (`cpumask_subset()`).
    #[inline]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.in_use().all(|index| self.words[index] & !other.words[index] == 0)
    }

    /// The CPUs in ascending order.
    #[inline]
    pub fn iter(&self) -> Iter<&Self> {
        Iter::over(self)
    }

    /// The CPUs in ascending order from `from` on, and behind the end those below it
    /// (`for_each_cpu_wrap()`).
    pub fn iter_wrapping(&self, from: CpuId) -> impl Iterator<Item = CpuId> {
        let low = *self & Self::first_n(from.index());
        (*self - low).into_iter().chain(low)
    }

    /// The numbers of the words that are not 0.
    #[inline]
    fn in_use(&self) -> impl Iterator<Item = usize> + use<> {
        bits(self.used)
    }

    /// The CPUs 64 x `index` and up as bits; none beyond [`CPUS_MAX`].
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// Makes these bits the CPUs 64 x `index` and up of the set.
    ///
    /// # Panics
    /// When they are beyond [`CPUS_MAX`].
    #[inline]
    pub fn set_word(&mut self, index: usize, word: u64) {
        self.words[index] = word;
        self.used = (self.used & !(1 << index)) | (u32::from(word != 0) << index);
    }

    /// Reads a mask as sysfs prints it: hexadecimal, a comma between groups of 32 bits.
    ///
    /// ```
    /// # use schedlab_machine::CpuSet;
    /// assert_eq!(CpuSet::parse_mask("00000001,0000000f")?.to_string(), "0-3,32");
    /// # Ok::<(), schedlab_machine::CpuSetError>(())
    /// ```
    pub fn parse_mask(text: &str) -> Result<Self, CpuSetError> {
        let text = text.trim();
        let text = text.strip_prefix("0x").unwrap_or(text);
        let mut set = Self::EMPTY;
        let mut bit = 0_usize;
        let mut digits = 0_usize;
        for letter in text.chars().rev().filter(|letter| *letter != ',') {
            let digit = letter.to_digit(16).ok_or_else(|| {
                CpuSetError::new(format!("`{letter}` is no hexadecimal digit of a CPU mask"))
            })?;
            digits += 1;
            let index = bit / 64;
            match set.words.get(index) {
                Some(word) => set.set_word(index, word | (u64::from(digit) << (bit % 64))),
                None if digit != 0 => {
                    return Err(CpuSetError::new(format!(
                        "the CPU mask is wider than {CPUS_MAX} CPUs"
                    )));
                }
                None => {}
            }
            bit += 4;
        }
        if digits == 0 {
            return Err(CpuSetError::new("the CPU mask is empty"));
        }
        Ok(set)
    }

    /// The set as sysfs prints masks: hexadecimal, a comma between groups of 32 bits.
    pub fn to_mask(&self) -> String {
        let halves = self.words.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]);
        let halves: Vec<u32> = halves.collect();
        let top = halves.iter().rposition(|half| *half != 0).unwrap_or(0);
        let mut text = format!("{:x}", halves[top]);
        for half in halves[..top].iter().rev() {
            text.push_str(&format!(",{half:08x}"));
        }
        text
    }
}

impl Default for CpuSet {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Reads the kernel's list format: `0-3,8`, with strides as in `0-31:2/8` (`bitmap_parselist()`).
impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let mut set = Self::EMPTY;
        for part in text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty()) {
            let (range, stride) = match part.split_once(':') {
                None => (part, (1, 1)),
                Some((range, stride)) => {
                    let (used, group) = stride.split_once('/').ok_or_else(|| {
                        CpuSetError::new(format!("`{part}`: a stride is written used/group"))
                    })?;
                    (range, (number(part, used)?, number(part, group)?))
                }
            };
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(part, first)?, number(part, last)?);
            if last as usize >= CPUS_MAX {
                return Err(CpuSetError::new(format!(
                    "`{part}`: CPU {last} is beyond the {CPUS_MAX} CPUs that schedlab handles"
                )));
            }
            if first > last {
                return Err(CpuSetError::new(format!("`{part}` runs backwards")));
            }
            let (used, group) = stride;
            if used == 0 || used > group {
                return Err(CpuSetError::new(format!("`{part}`: a stride uses 1 to all CPUs")));
            }
            for cpu in (first..=last).filter(|cpu| (cpu - first) % group < used) {
                set.insert(CpuId(cpu));
            }
        }
        Ok(set)
    }
}

fn number(part: &str, digits: &str) -> Result<u32, CpuSetError> {
    digits.trim().parse().map_err(|_| {
        CpuSetError::new(format!("`{part}` is no CPU list; write numbers and ranges as in 0-3,8"))
    })
}

/// Writes the kernel's list format.
impl fmt::Display for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut from = CpuId(0);
        while let Some(first) = self.next(from) {
            let end = (!*self).next(first).map_or(CPUS_MAX as u32, |cpu| cpu.0);
            write!(formatter, "{separator}{first}")?;
            if end - first.0 > 1 {
                write!(formatter, "-{}", end - 1)?;
            }
            separator = ",";
            from = CpuId(end);
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CpuSet({self})")
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::EMPTY;
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl BitAndAssign for CpuSet {
    #[inline]
    fn bitand_assign(&mut self, other: Self) {
        for index in self.in_use() {
            self.set_word(index, self.words[index] & other.words[index]);
        }
    }
}

impl BitOrAssign for CpuSet {
    #[inline]
    fn bitor_assign(&mut self, other: Self) {
        for index in other.in_use() {
            self.words[index] |= other.words[index];
        }
        self.used |= other.used;
    }
}

/// The CPUs of the left set that are not in the right one (`cpumask_andnot()`).
impl SubAssign for CpuSet {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        self.subtract(&other);
    }
}

macro_rules! by_assignment {
    ($($operator:ident, $method:ident, $assign:ident;)*) => {$(
        impl $operator for CpuSet {
            type Output = Self;

            #[inline]
            fn $method(mut self, other: Self) -> Self {
                self.$assign(other);
                self
            }
        }
    )*};
}

by_assignment! {
    BitAnd, bitand, bitand_assign;
    BitOr, bitor, bitor_assign;
    Sub, sub, sub_assign;
}

/// The CPUs up to [`CPUS_MAX`] that are not in the set.
impl Not for CpuSet {
    type Output = Self;

    #[inline]
    fn not(mut self) -> Self {
        for index in 0..WORDS {
            self.set_word(index, !self.words[index]);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_the_kernels() {
        for (text, printed) in
            [("0-3,8", "0-3,8"), ("3,2,1", "1-3"), ("0-7:2/4", "0-1,4-5"), ("", ""), ("0\n", "0")]
        {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), printed);
        }
        for bad in ["x", "3-1", "2048", "0-", "-1", "0-7:0/4", "0-7:4", "99999999999"] {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad}");
        }
    }

    #[test]
    fn masks_are_the_kernels() {
        assert_eq!(CpuSet::parse_mask("ffffffff,00000000\n").unwrap().to_string(), "32-63");
        assert_eq!("32-63".parse::<CpuSet>().unwrap().to_mask(), "ffffffff,00000000");
        assert_eq!(CpuSet::EMPTY.to_mask(), "0");
        assert!(CpuSet::parse_mask("fg").is_err());
        assert!(CpuSet::parse_mask("").is_err());
        assert!(CpuSet::parse_mask(&format!("1{}", "0".repeat(CPUS_MAX / 4))).is_err());
        assert!(CpuSet::parse_mask(&format!("000{}", "f".repeat(CPUS_MAX / 4))).is_ok());
    }
}

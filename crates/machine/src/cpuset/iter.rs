//! Walks over sets of CPUs, word by word.

use super::CpuSet;
use crate::CpuId;
use std::borrow::Borrow;

/// The numbers of the bits that are set, ascending.
#[inline]
pub(super) fn bits(mut set: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

/// The lowest CPU of a word that is not 0.
#[inline]
pub(super) fn lowest(index: usize, word: u64) -> CpuId {
    CpuId(index as u32 * 64 + word.trailing_zeros())
}

/// What a walk goes over.
pub trait Words {
    /// The words that may not be 0, as bits.
    fn used(&self) -> u32;
    /// A word.
    fn word(&self, index: usize) -> u64;
}

impl<S: Borrow<CpuSet>> Words for S {
    #[inline]
    fn used(&self) -> u32 {
        self.borrow().used
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.borrow().words[index]
    }
}

/// The CPUs that are in two sets.
#[derive(Clone, Copy, Debug)]
pub struct Both<'a>(pub(super) &'a CpuSet, pub(super) &'a CpuSet);

impl Words for Both<'_> {
    #[inline]
    fn used(&self) -> u32 {
        self.0.used & self.1.used
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.0.words[index] & self.1.words[index]
    }
}

/// The CPUs of a set in ascending order.
#[derive(Clone, Debug)]
pub struct Iter<W> {
    words: W,
    /// What is left of the word at `index`.
    word: u64,
    index: usize,
    /// The words after it.
    beyond: u32,
}

impl<W: Words> Iter<W> {
    #[inline]
    pub(super) fn over(words: W) -> Self {
        let beyond = words.used();
        Iter { words, word: 0, index: 0, beyond }
    }
}

impl<W: Words> Iterator for Iter<W> {
    type Item = CpuId;

    #[inline]
    fn next(&mut self) -> Option<CpuId> {
        while self.word == 0 {
            if self.beyond == 0 {
                return None;
            }
            self.index = self.beyond.trailing_zeros() as usize;
            self.beyond &= self.beyond - 1;
            self.word = self.words.word(self.index);
        }
        let cpu = lowest(self.index, self.word);
        self.word &= self.word - 1;
        Some(cpu)
    }
}

impl<'a> IntoIterator for &'a CpuSet {
    type Item = CpuId;
    type IntoIter = Iter<&'a CpuSet>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for CpuSet {
    type Item = CpuId;
    type IntoIter = Iter<CpuSet>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        Iter::over(self)
    }
}

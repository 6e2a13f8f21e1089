//! Damage at random places.

use proptest::prelude::*;
use proptest::sample::Index;

/// Some places, and the bytes that are to stand there.
pub fn flips() -> impl Strategy<Value = Vec<(Index, u8)>> {
    prop::collection::vec((any::<Index>(), any::<u8>()), 1..30)
}

/// The bytes with these in their places.
pub fn flipped(mut bytes: Vec<u8>, flips: Vec<(Index, u8)>) -> Vec<u8> {
    for (place, value) in flips {
        let place = place.index(bytes.len());
        bytes[place] = value;
    }
    bytes
}

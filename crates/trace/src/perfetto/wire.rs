//! The protobuf wire format, as far as traces need it: fields are walked in place, nothing is
//! copied and no message is built.

/// One field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Numbers and enums; signed ones are two's complement.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64(u64),
    /// Text, bytes, messages and packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes, little-endian.
    Fixed32(u32),
}

impl<'a> Value<'a> {
    /// The number of an integer field; 0 for any other wire type.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        match self {
            Value::Varint(value) | Value::Fixed64(value) => value,
            Value::Fixed32(value) => u64::from(value),
            Value::Bytes(_) => 0,
        }
    }

    /// The bytes of a length-delimited field; empty for any other wire type.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            _ => &[],
        }
    }
}

/// Takes a varint off the front of `bytes`; `None` where it is cut off or longer than ten bytes.
#[inline]
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    if let [first @ 0..=0x7f, rest @ ..] = *bytes {
        *bytes = rest;
        return Some(u64::from(*first));
    }
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

/// The fields of one message in order, up to the first damage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    damaged: bool,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message, damaged: false }
    }

    /// Whether the walk ended because the bytes are no protobuf.
    pub(crate) fn damaged(&self) -> bool {
        self.damaged
    }

    #[inline]
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = take_varint(&mut self.rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|&number| number != 0)?;
        let value = match tag & 7 {
            0 => Value::Varint(take_varint(&mut self.rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(*self.take(8)?.first_chunk()?)),
            2 => {
                let length = take_varint(&mut self.rest)?;
                Value::Bytes(self.take(usize::try_from(length).ok()?)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(*self.take(4)?.first_chunk()?)),
            _ => return None,
        };
        Some((number, value))
    }

    #[inline]
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<(u32, Value<'a>)> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.damaged = true;
            self.rest = &[];
        }
        field
    }
}

/// The numbers of a repeated field's packed form, up to the first damage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packed<'a>(pub(crate) &'a [u8]);

impl Iterator for Packed<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        take_varint(&mut self.0)
    }
}

/// The fields 1 to 15 of a small flat message, by number. What is absent reads as 0 or empty, as
/// protobuf has it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slots<'a> {
    numbers: [u64; 16],
    texts: [&'a [u8]; 16],
    present: u16,
}

impl<'a> Slots<'a> {
    /// Reads `message`; `None` if it is damaged.
    #[inline]
    pub(crate) fn read(message: &'a [u8]) -> Option<Slots<'a>> {
        let mut slots = Slots::default();
        let mut fields = Fields::new(message);
        for (number, value) in fields.by_ref() {
            slots.set(number as usize, value);
        }
        (!fields.damaged()).then_some(slots)
    }

    /// Sets field `number`; any but 1 to 15 is ignored.
    #[inline]
    pub(crate) fn set(&mut self, number: usize, value: Value<'a>) {
        if let 1..=15 = number {
            self.present |= 1 << number;
            match value {
                Value::Bytes(bytes) => self.texts[number] = bytes,
                other => self.numbers[number] = other.number(),
            }
        }
    }

    #[inline]
    pub(crate) fn has(&self, number: usize) -> bool {
        self.present & (1 << number) != 0
    }

    #[inline]
    pub(crate) fn u64(&self, number: usize) -> u64 {
        self.numbers[number]
    }

    #[inline]
    pub(crate) fn i64(&self, number: usize) -> i64 {
        self.numbers[number] as i64
    }

    #[inline]
    pub(crate) fn i32(&self, number: usize) -> i32 {
        self.numbers[number] as i32
    }

    #[inline]
    pub(crate) fn u32(&self, number: usize) -> u32 {
        self.numbers[number] as u32
    }

    #[inline]
    pub(crate) fn text(&self, number: usize) -> &'a [u8] {
        self.texts[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_wire_type_are_walked() {
        let message = [
            0x08, 0x96, 0x01, // 1: varint 150
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x1d, 1, 0, 0, 0, // 3: fixed32 1
            0x21, 2, 0, 0, 0, 0, 0, 0, 0, // 4: fixed64 2
        ];
        let mut fields = Fields::new(&message);
        let seen: Vec<_> = fields.by_ref().collect();
        let expected = [
            (1, Value::Varint(150)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Fixed32(1)),
            (4, Value::Fixed64(2)),
        ];
        assert_eq!(seen, expected);
        assert!(!fields.damaged());
    }

    #[test]
    fn damage_ends_the_walk_and_is_told() {
        for message in [
            &[0x12, 0x05, b'h'][..],
            &[0x00, 0x01],
            &[0x0b, 0x01],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x80],
        ] {
            let mut fields = Fields::new(message);
            assert_eq!(fields.by_ref().count(), 0, "{message:?}");
            assert!(fields.damaged(), "{message:?}");
            assert!(Slots::read(message).is_none());
        }
    }

    #[test]
    fn negative_numbers_are_ten_bytes_of_two_s_complement() {
        let message = [0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let slots = Slots::read(&message).unwrap();
        assert_eq!((slots.i32(2), slots.i64(2)), (-1, -1));
        assert!(slots.has(2) && !slots.has(1));
        assert_eq!(Packed(&message[1..]).collect::<Vec<_>>(), [u64::MAX]);
    }
}

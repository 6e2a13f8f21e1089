//! The protobuf wire format, written.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Empties the message and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// An integer field. Negative numbers are two's complement of 64 bits, as protobuf has them.
    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.raw(u64::from(field) << 3);
        self.raw(value);
    }

    /// A text, bytes or ready-made message.
    pub(super) fn text(&mut self, field: u32, bytes: &[u8]) {
        self.raw(u64::from(field) << 3 | 2);
        self.raw(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A message that `build` fills.
    pub(super) fn nested(&mut self, field: u32, build: impl FnOnce(&mut Message)) {
        self.raw(u64::from(field) << 3 | 2);
        let length_at = self.0.len();
        self.0.push(0);
        build(self);
        let length = self.0.len() - length_at - 1;
        if length < 0x80 {
            self.0[length_at] = length as u8;
            return;
        }
        let mut prefix = Message::default();
        prefix.raw(length as u64);
        self.0.splice(length_at..=length_at, prefix.0);
    }

    /// A ready-made message's fields.
    pub(super) fn append(&mut self, message: &Message) {
        self.0.extend_from_slice(&message.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::wire::{Fields, Value};

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 126, 127, 128, 20_000] {
            let body = vec![7; length];
            let mut message = Message::default();
            message.number(5, u64::MAX);
            message.nested(3, |inner| inner.nested(600, |inner| inner.text(1, &body)));
            let seen: Vec<_> = Fields::new(message.bytes()).collect();
            assert_eq!(seen[0], (5, Value::Varint(u64::MAX)));
            let inner: Vec<_> = Fields::new(seen[1].1.bytes()).collect();
            assert_eq!(inner[0].0, 600);
            let innermost: Vec<_> = Fields::new(inner[0].1.bytes()).collect();
            assert_eq!(innermost, [(1, Value::Bytes(&body[..]))]);
        }
    }
}

//! Encodes protobuf messages field by field.

/// An integer field.
pub fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A text, bytes, packed or message field.
pub fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// A message field made of fields.
pub fn message(field: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(field, &fields.concat())
}

/// A packed field.
pub fn packed(field: u64, values: &[u64]) -> Vec<u8> {
    bytes(field, &values.iter().flat_map(|&value| varint(value)).collect::<Vec<_>>())
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A `Trace` with one packet.
pub fn packet(fields: &[Vec<u8>]) -> Vec<u8> {
    message(1, &[number(10, 1), fields.concat()])
}

/// A packet with a bundle of ftrace events of one CPU.
pub fn bundle(cpu: u64, fields: &[Vec<u8>]) -> Vec<u8> {
    packet(&[message(1, &[number(1, cpu), fields.concat()])])
}

/// An ftrace event in a bundle.
pub fn event(time: u64, pid: u64, field: u64, body: &[Vec<u8>]) -> Vec<u8> {
    message(2, &[number(1, time), number(2, pid), message(field, body)])
}

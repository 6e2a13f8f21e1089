//! One `FtraceEvent`: counted by its tracepoint's name, and decoded if the schema knows it.

use super::decode::Names;
use super::names::{FIELDS_MAX, FIRST_DESCRIBED_FIELD, event_name, field};
use super::points::Point;
use super::wire::{Fields, Slots, Value};
use crate::event::{Event, EventKind, Pid};
use rustc_hash::FxHashMap;
use schedlab_machine::CpuId;
use std::collections::BTreeMap;

/// Event types that a trace may describe or name itself; further ones are counted together.
const TYPES_MAX: usize = 1 << 14;

/// The event types of a trace, with their counts since the last update.
pub(super) struct EventTypes {
    /// By field number.
    known: Vec<KnownType>,
    described: FxHashMap<u32, DescribedType>,
    named: BTreeMap<Box<str>, (Option<Point>, u64)>,
}

#[derive(Clone, Copy, Default)]
struct KnownType {
    point: Option<Point>,
    count: u64,
}

/// A type that the trace describes with a `DescriptorProto`.
struct DescribedType {
    name: Box<str>,
    point: Option<Point>,
    /// Which field of the description stands for which field of the point.
    fields: Vec<(u32, usize)>,
    count: u64,
}

/// What the frame around an event says.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) cpu: CpuId,
    pub(super) sequence: u32,
}

/// An event of whatever type.
pub(super) struct Seen {
    pub(super) timestamp_ns: u64,
    /// For types of the schema.
    pub(super) event: Option<Event>,
}

impl Default for EventTypes {
    fn default() -> Self {
        let known = |number| KnownType { point: Point::of_field(number), count: 0 };
        EventTypes {
            known: (0..FIELDS_MAX as u32).map(known).collect(),
            described: FxHashMap::default(),
            named: BTreeMap::new(),
        }
    }
}

impl EventTypes {
    /// Learns a `GenericEventDescriptor`.
    pub(super) fn describe(&mut self, message: &[u8]) {
        let Some(slots) = Slots::read(message) else { return };
        if self.described.len() >= TYPES_MAX {
            return;
        }
        let mut name = String::new();
        let mut numbers = Vec::new();
        for (number, value) in Fields::new(slots.text(2)) {
            match number {
                1 => name = String::from_utf8_lossy(value.bytes()).into_owned(),
                2 => numbers.extend(Slots::read(value.bytes())),
                _ => {}
            }
        }
        let point = Point::of_name(&name);
        let field = |field: &Slots<'_>| Some((field.u32(3), point?.field_number(field.text(1))?));
        let fields = numbers.iter().filter_map(field).collect();
        let described = DescribedType { name: name.into(), point, fields, count: 0 };
        self.described.insert(slots.u32(1), described);
    }

    /// Reads one event. `None` if its bytes are damaged or hold no event.
    #[inline]
    pub(super) fn read(&mut self, message: &[u8], frame: Frame, names: &mut Names) -> Option<Seen> {
        let mut timestamp_ns = None;
        let mut pid = Pid::UNKNOWN;
        let mut body = None;
        let mut fields = Fields::new(message);
        for (number, value) in fields.by_ref() {
            match (number, value) {
                (1, Value::Varint(time)) => timestamp_ns = Some(time),
                (2, Value::Varint(number)) => pid = Pid(number as i32),
                (number, Value::Bytes(bytes)) => body = Some((number, bytes)),
                _ => {}
            }
        }
        let (timestamp_ns, (number, body)) = (timestamp_ns?, body?);
        if fields.damaged() {
            return None;
        }
        let kind = match self.known.get_mut(number as usize) {
            Some(_) if number == field::GENERIC => self.read_named(body, frame, names),
            Some(known) => {
                known.count += 1;
                known.point.and_then(|point| {
                    names.decode(point, point.name(), frame.sequence, &Slots::read(body)?)
                })
            }
            None => self.read_described(number, body, frame, names),
        };
        let event = kind.map(|kind| Event { timestamp_ns, cpu: frame.cpu, pid, kind });
        Some(Seen { timestamp_ns, event })
    }

    /// A `GenericFtraceEvent`: its name and its fields' names are in it.
    fn read_named(&mut self, body: &[u8], frame: Frame, names: &mut Names) -> Option<EventKind> {
        let mut fields = Fields::new(body);
        let name = fields.find(|(number, _)| *number == 1)?.1.bytes();
        let name = String::from_utf8_lossy(name);
        let point = match self.named.get_mut(&*name) {
            Some((point, count)) => {
                *count += 1;
                *point
            }
            None => self.add_named(&name),
        }?;
        let mut slots = Slots::default();
        for (_, value) in Fields::new(body).filter(|(number, _)| *number == 2) {
            let field = Slots::read(value.bytes())?;
            if let Some(number) = point.field_number(field.text(1)) {
                let value = match field {
                    field if field.has(3) => Value::Bytes(field.text(3)),
                    field if field.has(4) => Value::Varint(field.u64(4)),
                    field => Value::Varint(field.u64(5)),
                };
                slots.set(number, value);
            }
        }
        names.decode(point, &name, frame.sequence, &slots)
    }

    #[cold]
    fn add_named(&mut self, name: &str) -> Option<Point> {
        let name = if self.named.len() < TYPES_MAX { name } else { "further_events" };
        let point = Point::of_name(name);
        self.named.entry(name.into()).or_insert((point, 0)).1 += 1;
        point
    }

    /// An event whose type the trace described before.
    fn read_described(
        &mut self,
        number: u32,
        body: &[u8],
        frame: Frame,
        names: &mut Names,
    ) -> Option<EventKind> {
        let Some(described) = self.described.get_mut(&number) else {
            self.add_named(&unknown_name(number));
            return None;
        };
        described.count += 1;
        let point = described.point?;
        let mut slots = Slots::default();
        for (number, value) in Fields::new(body) {
            let known = described.fields.iter().find(|(known, _)| *known == number);
            if let Some(&(_, number)) = known {
                slots.set(number, value);
            }
        }
        names.decode(point, &described.name, frame.sequence, &slots)
    }

    /// Counts events that were read by other means.
    pub(super) fn count(&mut self, number: u32, count: u64) {
        if let Some(known) = self.known.get_mut(number as usize) {
            known.count += count;
        }
    }

    /// Brings the counts by name up to date.
    pub(super) fn update_counts(&mut self, counts: &mut BTreeMap<String, u64>) {
        let mut add = |name: &str, count: &mut u64| {
            let new = std::mem::take(count);
            if new == 0 {
                return;
            }
            match counts.get_mut(name) {
                Some(count) => *count += new,
                None => {
                    counts.insert(name.to_owned(), new);
                }
            }
        };
        let seen = self.known.iter_mut().enumerate().filter(|(_, known)| known.count > 0);
        for (number, known) in seen {
            match event_name(number as u32) {
                Some(name) => add(name, &mut known.count),
                None => add(&unknown_name(number as u32), &mut known.count),
            }
        }
        for described in self.described.values_mut() {
            add(&described.name, &mut described.count);
        }
        for (name, (_, count)) in &mut self.named {
            add(name, count);
        }
    }
}

/// Names an event type that nothing names.
fn unknown_name(number: u32) -> String {
    if number >= FIRST_DESCRIBED_FIELD {
        format!("undescribed_{number}")
    } else {
        format!("unknown_{number}")
    }
}

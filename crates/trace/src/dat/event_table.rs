//! The event types of a file: by number, with decoders and counts.

use crate::format::{Abi, Decoder, EventFormat, IntField};
use std::collections::BTreeMap;

/// No type has that number.
const NONE: u32 = u32::MAX;

/// One event type.
#[derive(Debug)]
pub(crate) struct EventType {
    name: Box<str>,
    /// For types of the schema.
    pub(crate) decoder: Option<Decoder>,
    /// Records seen.
    pub(super) count: u64,
}

/// All event types.
#[derive(Debug)]
pub(crate) struct EventTable {
    types: Vec<EventType>,
    /// Index into `types` by `common_type`.
    by_number: Box<[u32]>,
    number: Option<IntField>,
    pid: Option<IntField>,
    abi: Abi,
    /// Records whose number no format has.
    pub(crate) unknown: u64,
}

impl EventTable {
    /// Compiles all formats. Of two with the same number the first counts.
    pub(crate) fn new(formats: &[EventFormat], abi: Abi) -> EventTable {
        let mut table = EventTable {
            types: Vec::new(),
            by_number: vec![NONE; 1 << 16].into_boxed_slice(),
            number: None,
            pid: None,
            abi,
            unknown: 0,
        };
        for format in formats {
            // Every record begins alike, so one format's word on it is good for all.
            if table.number.is_none() {
                table.number = IntField::of(format, abi, &["common_type"]);
                table.pid = IntField::of(format, abi, &["common_pid"]);
            }
            match table.by_number.get_mut(format.id as usize) {
                Some(slot) if *slot == NONE => {
                    *slot = table.types.len() as u32;
                    let decoder = Decoder::compile(format, abi);
                    table.types.push(EventType { name: format.name.clone(), decoder, count: 0 });
                }
                _ => {}
            }
        }
        table
    }

    /// The type of a record, counted; `None` if the record is too short to have one.
    #[inline]
    pub(crate) fn count(&mut self, record: &[u8]) -> Option<&EventType> {
        let number = match self.number {
            Some(number) => number.get_u32(record)? as u16,
            None => self.abi.u16_at(record, 0)?,
        };
        let mut index = *self.by_number.get(usize::from(number))?;
        if index == NONE {
            index = self.add_unknown(number);
        }
        let event_type = self.types.get_mut(index as usize)?;
        event_type.count += 1;
        Some(event_type)
    }

    /// The task that the recording CPU was running.
    #[inline]
    pub(crate) fn pid(&self, record: &[u8]) -> Option<i32> {
        match self.pid {
            Some(pid) => pid.get_i32(record),
            None => self.abi.u32_at(record, 4).map(|pid| pid as i32),
        }
    }

    #[cold]
    fn add_unknown(&mut self, number: u16) -> u32 {
        let index = self.types.len() as u32;
        self.by_number[usize::from(number)] = index;
        let name = format!("unknown_{number}").into();
        self.types.push(EventType { name, decoder: None, count: 0 });
        index
    }

    /// Brings the counts by name up to date. Types of one name in several systems are added up.
    pub(crate) fn update_counts(&mut self, counts: &mut BTreeMap<String, u64>) {
        for event_type in &mut self.types {
            let new = std::mem::take(&mut event_type.count);
            if new == 0 {
                continue;
            }
            match counts.get_mut(&*event_type.name) {
                Some(count) => *count += new,
                None => {
                    counts.insert(event_type.name.to_string(), new);
                }
            }
            if event_type.name.starts_with("unknown_") {
                self.unknown += new;
            }
        }
    }
}

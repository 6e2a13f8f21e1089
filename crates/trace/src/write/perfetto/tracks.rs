//! What the viewer does not draw from ftrace events by itself: slices of idle states, and
//! counters of utilisation and of runnable tasks, each with a track per CPU.

use super::message::Message;
use schedlab_machine::CpuId;
use std::collections::BTreeMap;

/// A group of tracks, one a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Idle,
    Util,
    NrRunning,
}

/// `TrackEvent.Type`.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;

impl Group {
    fn title(self) -> &'static str {
        match self {
            Group::Idle => "Idle states",
            Group::Util => "util_avg of CPUs",
            Group::NrRunning => "nr_running of CPUs",
        }
    }

    fn track_title(self, cpu: CpuId) -> String {
        match self {
            Group::Idle => format!("CPU {cpu} idle state"),
            Group::Util => format!("CPU {cpu} util_avg"),
            Group::NrRunning => format!("CPU {cpu} nr_running"),
        }
    }

    /// Track ids need only differ from each other; 0 is the trace itself.
    fn uuid(self) -> u64 {
        (self as u64 + 1) << 32
    }
}

/// Tracks described so far, with what is open on them.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    /// Whether a slice is open, by track.
    known: BTreeMap<(Group, CpuId), bool>,
}

impl Tracks {
    /// The CPU enters an idle state.
    pub(super) fn enter_idle(
        &mut self,
        emit: &mut impl FnMut(Message),
        timestamp_ns: u64,
        cpu: CpuId,
        state: u32,
    ) {
        self.leave_idle(emit, timestamp_ns, cpu);
        let uuid = self.track(emit, Group::Idle, cpu);
        self.known.insert((Group::Idle, cpu), true);
        emit(track_event(timestamp_ns, uuid, SLICE_BEGIN, |event| {
            event.text(23, format!("state {state}").as_bytes());
        }));
    }

    /// The CPU leaves idle, or what it does is unknown from here on.
    pub(super) fn leave_idle(
        &mut self,
        emit: &mut impl FnMut(Message),
        timestamp_ns: u64,
        cpu: CpuId,
    ) {
        if let Some(open) = self.known.get_mut(&(Group::Idle, cpu))
            && std::mem::take(open)
        {
            let uuid = track_uuid(Group::Idle, cpu);
            emit(track_event(timestamp_ns, uuid, SLICE_END, |_| {}));
        }
    }

    /// A counter has a new value.
    pub(super) fn count(
        &mut self,
        emit: &mut impl FnMut(Message),
        timestamp_ns: u64,
        group: Group,
        cpu: CpuId,
        value: u32,
    ) {
        let uuid = self.track(emit, group, cpu);
        emit(track_event(timestamp_ns, uuid, COUNTER, |event| {
            event.number(30, u64::from(value));
        }));
    }

    /// The id of a track, which is described on first use.
    fn track(&mut self, emit: &mut impl FnMut(Message), group: Group, cpu: CpuId) -> u64 {
        let uuid = track_uuid(group, cpu);
        if self.known.contains_key(&(group, cpu)) {
            return uuid;
        }
        if !self.known.keys().any(|(known, _)| *known == group) {
            emit(descriptor(|track| {
                track.number(1, group.uuid());
                track.text(2, group.title().as_bytes());
            }));
        }
        self.known.insert((group, cpu), false);
        emit(descriptor(|track| {
            track.number(1, uuid);
            track.number(5, group.uuid());
            track.text(2, group.track_title(cpu).as_bytes());
            if group != Group::Idle {
                // CounterDescriptor; the defaults say all.
                track.text(8, &[]);
            }
        }));
        uuid
    }
}

fn track_uuid(group: Group, cpu: CpuId) -> u64 {
    group.uuid() + 1 + u64::from(cpu.0)
}

/// A packet with a `TrackDescriptor`.
fn descriptor(build: impl FnOnce(&mut Message)) -> Message {
    let mut packet = Message::default();
    packet.nested(60, build);
    packet
}

/// A packet with a `TrackEvent`.
fn track_event(
    timestamp_ns: u64,
    uuid: u64,
    kind: u64,
    build: impl FnOnce(&mut Message),
) -> Message {
    let mut packet = Message::default();
    packet.number(8, timestamp_ns);
    packet.nested(11, |event| {
        event.number(9, kind);
        event.number(11, uuid);
        build(event);
    });
    packet
}

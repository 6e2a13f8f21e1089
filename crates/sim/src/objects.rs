//! The state of shared objects: who holds, who waits.

use schedlab_kernel::fair::TaskId;
use schedlab_workload::program::ObjectKind;
use std::collections::VecDeque;

/// Tasks in the order in which they came.
pub type Waiters = VecDeque<TaskId>;

/// Tasks that a channel has room for on each side without allocating.
const CHANNEL_ROOM: usize = 32;

/// One shared object.
#[derive(Clone, Debug)]
pub enum Object {
    /// A mutex.
    Mutex {
        /// Who has it.
        holder: Option<TaskId>,
        /// Who sleeps for it.
        waiters: Waiters,
    },
    /// A semaphore.
    Semaphore {
        /// What is left.
        count: u64,
        /// Who sleeps for it.
        waiters: Waiters,
    },
    /// A futex or a condition: a queue and nothing else.
    Queue {
        /// Who sleeps there.
        waiters: Waiters,
    },
    /// A barrier.
    Barrier {
        /// How many must come.
        parties: u32,
        /// Who is there.
        waiters: Waiters,
    },
    /// A channel.
    Channel {
        /// Bytes that fit.
        capacity_bytes: u64,
        /// Bytes in it.
        filled_bytes: u64,
        /// Writers promise to sleep.
        sync_wakeup: bool,
        /// Who waits for data.
        readers: Waiters,
        /// Who waits for room.
        writers: Waiters,
    },
    /// A flag.
    Flag {
        /// It is set.
        set: bool,
        /// Who spins for it.
        spinners: Waiters,
    },
    /// A number.
    Counter {
        /// Its value.
        value: u64,
    },
    /// A bare cache line.
    Line,
    /// A block of memory.
    Block,
    /// A device.
    Device {
        /// When each of what serves requests is done with those that it has, ns.
        free_ns: Box<[u64]>,
    },
    /// A list of tasks that want to be served.
    Mailbox {
        /// Who is on it, in the order in which they came.
        posted: Vec<TaskId>,
        /// Who sleeps until somebody is.
        servers: Waiters,
    },
}

impl Object {
    /// The object before anyone used it.
    pub fn new(kind: ObjectKind) -> Object {
        let waiters = Waiters::new;
        match kind {
            ObjectKind::Mutex => Object::Mutex { holder: None, waiters: waiters() },
            ObjectKind::Semaphore(count) => {
                Object::Semaphore { count: u64::from(count), waiters: waiters() }
            }
            ObjectKind::Futex | ObjectKind::Condition => Object::Queue { waiters: waiters() },
            ObjectKind::Barrier(parties) => Object::Barrier { parties, waiters: waiters() },
            ObjectKind::Channel { capacity_bytes, sync_wakeup } => Object::Channel {
                capacity_bytes,
                filled_bytes: 0,
                sync_wakeup,
                readers: Waiters::with_capacity(CHANNEL_ROOM),
                writers: Waiters::with_capacity(CHANNEL_ROOM),
            },
            ObjectKind::Flag => Object::Flag { set: false, spinners: waiters() },
            ObjectKind::Counter => Object::Counter { value: 0 },
            ObjectKind::Line => Object::Line,
            ObjectKind::Block(_) => Object::Block,
            ObjectKind::Device(at_once) => {
                Object::Device { free_ns: vec![0; at_once as usize].into() }
            }
            ObjectKind::Mailbox => Object::Mailbox { posted: Vec::new(), servers: waiters() },
        }
    }

    /// What it is, for messages.
    pub fn noun(&self) -> &'static str {
        match self {
            Object::Mutex { .. } => "mutex",
            Object::Semaphore { .. } => "semaphore",
            Object::Queue { .. } => "futex or condition",
            Object::Barrier { .. } => "barrier",
            Object::Channel { .. } => "channel",
            Object::Flag { .. } => "flag",
            Object::Counter { .. } => "counter",
            Object::Line => "cache line",
            Object::Block => "block of memory",
            Object::Mailbox { .. } => "mailbox",
            Object::Device { .. } => "device",
        }
    }
}

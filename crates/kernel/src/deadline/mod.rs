//! Deadline tasks: so far the map of their deadlines over all CPUs.

pub mod cpudl;

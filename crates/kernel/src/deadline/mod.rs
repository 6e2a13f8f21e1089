//! Deadline scheduling: what a task reserves and how its run time is rationed, the queue of one CPU,
//! the map of deadlines over all CPUs, and the server that gives fair tasks their share. What the
//! scheduler core does with them is in [`crate::sched`].

pub mod cpudl;
pub mod entity;
pub mod fair_server;
pub mod queue;

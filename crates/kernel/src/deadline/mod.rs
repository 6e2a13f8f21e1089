//! Deadline scheduling: the map of deadlines over all CPUs, and the server that gives fair tasks
//! their share.

pub mod cpudl;
pub mod fair_server;

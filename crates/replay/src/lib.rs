//! A real trace driven through kernel mechanisms: what other idle governors would have done with
//! its idle periods, load tracking rebuilt from its switches, and its tasks as a workload.

pub mod idle;
pub mod pelt;
pub mod tasks;

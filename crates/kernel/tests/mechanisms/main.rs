//! Everything that is told of the mechanisms from outside, in one program, which is built sooner than
//! many. The priority map has programs of its own, for loom and Miri.

mod balancing;
mod cfs_properties;
mod classic;
mod cpuidle_properties;
mod domains;
mod nohz;
mod parity;
mod pelt_properties;
mod power_aware;
mod presets;
#[path = "../support/mod.rs"]
mod support;

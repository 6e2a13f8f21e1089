//! Kernel structures under real threads on the machine at hand: what their operations take, in
//! nanoseconds and, where the machine lets a process count them, in cycles.

mod cpupri;
mod cycles;
mod pin;

pub use cpupri::{Costs, Measurement, measure_cpupri};

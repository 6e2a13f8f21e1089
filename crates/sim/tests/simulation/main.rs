//! Everything that is told of the simulator from outside, in one program: the engine is compiled
//! once for all of it.

mod deadline;
mod draw;
mod energy_aware;
mod everywhere;
mod fork_storm;
mod frequency;
mod held;
mod idle_bound;
mod idle_time;
mod kernel_lines;
mod memory;
mod migrate_disable;
mod models;
mod nohz;
mod output;
mod power_bound;
mod primitives;
mod programs;
mod real_time;
mod stage;
mod support;
mod swarm;

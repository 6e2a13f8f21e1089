//! Everything that is told of machines from outside, in one program, which is built sooner than many.

mod contradictions;
mod cpuset;
mod imports;
mod robustness;

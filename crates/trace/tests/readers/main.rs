//! Everything that is told of the readers and writers from outside, in one program, which is built
//! sooner than many.

mod c2c_golden;
mod dat_golden;
mod dat_made_up;
mod dat_robust;
mod perf_golden;
mod perf_made_up;
mod perf_robust;
mod perfetto_golden;
mod perfetto_made_up;
mod perfetto_robust;
mod real_files;
mod support;
mod text_golden;
mod text_matches_dat;
mod text_robust;
#[cfg(feature = "write")]
mod write_perfetto;
#[cfg(feature = "write")]
mod write_tables;

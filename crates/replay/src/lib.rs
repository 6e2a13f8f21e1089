//! A real trace driven through kernel mechanisms: what other idle governors would have done with
//! its idle periods, and load tracking rebuilt from its switches.

pub mod idle;
pub mod pelt;

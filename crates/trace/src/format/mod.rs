//! Tracefs event formats: what a kernel says of its own binary records, and decoders compiled
//! from that. Every binary ftrace container (`trace.dat`, `perf.data`) carries these texts, so one
//! compiler serves them all and no offset of any kernel release is written down here.
//!
//! ```
//! use schedlab_trace::format::{Abi, Decoder, EventFormat, NameTable};
//! use schedlab_machine::CpuId;
//! use schedlab_trace::EventKind;
//!
//! let format = EventFormat::parse("power", "name: cpu_idle\nID: 538\nformat:\n\
//!     \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
//!     \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
//!     \tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n\
//!     \tfield:u32 cpu_id;\toffset:12;\tsize:4;\tsigned:0;\n\n\
//!     print fmt: \"state=%lu cpu_id=%lu\", REC->state, REC->cpu_id\n").unwrap();
//! let decoder = Decoder::compile(&format, Abi::LITTLE_64).unwrap();
//! let record = [26, 2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
//! assert_eq!(
//!     decoder.decode(&record, CpuId(3), &mut NameTable::default()),
//!     Some(EventKind::IdleEnter { cpu: CpuId(3), state: 2 }),
//! );
//! ```

mod access;
mod decoder;
mod event_format;
mod names;
mod print_fmt;
mod symbols;
mod utilisation;

pub use access::{Abi, IntField};
pub use decoder::Decoder;
pub(crate) use decoder::X86_VECTORS;
pub use event_format::{EventFormat, Field, FormatError, Location};
pub use names::NameTable;
pub use print_fmt::StateMap;
pub use symbols::{PrintkFormats, Symbols};

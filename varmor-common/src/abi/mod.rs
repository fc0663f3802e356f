//! Bytes that the kernel programs and user space share.
//!
//! Integers only, padding visible, sizes asserted: any byte is legal in a map, so no type here may have an
//! invalid bit pattern. Deliberately absent: `bool`, `enum`, `Option`, pointers.

mod automaton;
mod calls;
mod event;
mod identity;
mod network;
pub mod patch;
mod points;
mod profile;

pub use automaton::*;
pub use calls::*;
pub use event::*;
pub use identity::*;
pub use network::*;
pub use points::*;
pub use profile::*;

/// Version of the layouts in this module and of the meaning of the maps. It is stored in a pinned map; an
/// agent adopts pinned programs only when the number is its own.
pub const ABI_VERSION: u32 = 1;

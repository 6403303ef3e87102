//! The holding side: buffers.
//!
//! A buffer is a pointer into the store with the right to all of it, the lengths that belong to it, and a pointer to the
//! store's header.
//!
//! # Invariant
//! * **B1** A handle's region is taken, and the handle's alone (a frozen buffer's: its handles' together). The first `len` bytes (or
//!   elements) are initialised, and the region is that of `cap` bytes (or elements).

mod ext;
mod fixed;
mod frozen;
mod generic;
mod traits;

pub use ext::ExtBuf;
pub use fixed::FixedBufMut;
pub use frozen::FixedBuf;
pub use generic::GenericBufMut;

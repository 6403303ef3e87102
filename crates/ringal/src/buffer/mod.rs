//! Buffers: the handles that a ring returns.
//!
//! A handle contains a pointer to its bytes, its length, and a pointer to the store's header. A
//! frozen handle also contains a pointer to the guard. A writable handle contains its capacity
//! instead, and its pointer to the bytes may access the whole store, so code derives the pointer to
//! the guard from it.
//!
//! # Invariant
//! * **B1** A handle's region is taken, and only this handle accesses it. The handles of a frozen
//!   buffer instead share the region, and only read its payload. The length of the region is what
//!   `region_of` returns for the buffer's capacity in bytes. The first `len` bytes or elements that
//!   the handle points at are initialised. In a writable handle, `len` is at most the capacity.

mod fixed;
mod frozen;
mod generic;

pub use fixed::FixedBufMut;
pub use frozen::FixedBuf;
pub use generic::GenericBufMut;

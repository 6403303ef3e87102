//! A loom cell in a header, through which loom sees accesses to raw memory.
//!
//! Loom checks its own cells, but not the targets of raw pointers. Without a witness, models would
//! not detect that one thread frees a header while another reads it. Each header therefore contains
//! a [`Witness`]. A thread that accesses the header calls [`Witness::touch`], a thread that has
//! exclusive access calls [`Witness::write`], and a thread that frees the header calls
//! [`Witness::end`]. Loom then reports two accesses that nothing orders, and a flag in the witness
//! reveals an access after the free. The memory must outlive the model, so
//! [`raw::release`](crate::raw::release) leaks it.
//!
//! Outside loom a witness has size zero and its methods do nothing.

/// A stand-in for a header, through which loom sees the accesses to the header and its free.
#[derive(Debug)]
pub struct Witness {
    #[cfg(ephemera_loom)]
    cell: loom::cell::UnsafeCell<bool>,
}

impl Witness {
    crate::const_unless_loom! {
        /// Creates a witness of live memory.
        pub fn new() -> Self {
            Self {
                #[cfg(ephemera_loom)]
                cell: loom::cell::UnsafeCell::new(false),
            }
        }
    }

    /// Records a read or write of the header by a thread without exclusive access.
    #[inline]
    pub fn touch(&self) {
        #[cfg(ephemera_loom)]
        self.cell.with(|ended| {
            // SAFETY: loom runs one thread at a time and reports a race before this read.
            assert!(unsafe { !*ended }, "header touched after it was freed");
        });
    }

    /// Records a write of the header by a thread with exclusive access.
    #[inline]
    pub fn write(&self) {
        #[cfg(ephemera_loom)]
        self.cell.with_mut(|ended| {
            // SAFETY: loom runs one thread at a time and reports a race before this access.
            assert!(unsafe { !*ended }, "header written after it was freed");
        });
    }

    /// Records that the header is freed: no other thread accesses it now or later.
    #[inline]
    pub fn end(&self) {
        #[cfg(ephemera_loom)]
        self.cell.with_mut(|ended| {
            // SAFETY: loom runs one thread at a time and reports a race before this access.
            assert!(unsafe { !core::mem::replace(&mut *ended, true) }, "header freed twice");
        });
    }
}

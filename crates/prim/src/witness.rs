//! A loom cell in a header, through which loom sees accesses to raw memory.
//!
//! Loom checks its own cells, but not the targets of raw pointers. Without a witness, a header
//! that one thread frees while another reads it would pass every model. So each header contains a
//! [`Witness`]. A thread that accesses the header calls [`Witness::touch`], a thread that has
//! exclusive access calls [`Witness::write`], and a thread that frees the header calls
//! [`Witness::end`]. Loom then reports two accesses that nothing orders, and a flag reports an
//! access after the end. The memory must outlive the model, so
//! [`raw::release`](crate::raw::release) leaks it.
//!
//! Outside loom a witness has size zero and its methods do nothing.

/// Tells loom which threads access a header and which one frees it.
#[derive(Debug)]
pub struct Witness {
    #[cfg(ephemera_loom)]
    cell: loom::cell::UnsafeCell<bool>,
}

impl Witness {
    crate::const_unless_loom! {
        /// Creates a witness of live memory.
        #[must_use]
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

    /// Records a write by a thread that has exclusive access at this moment.
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

impl Default for Witness {
    fn default() -> Self {
        Self::new()
    }
}

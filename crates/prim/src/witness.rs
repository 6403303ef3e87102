//! A witness for raw memory: what loom cannot see by itself.
//!
//! Loom checks its own cells, not what raw pointers point at: a header that one thread frees while another
//! reads it passes every model. A [`Witness`] stands in each header. Whoever touches the header calls
//! [`Witness::touch`], whoever writes what only one may write calls [`Witness::write`], and whoever frees it
//! calls [`Witness::end`]; loom then reports the pair that no ordering separates, and the flag reports what
//! came after the end. The memory must outlast the model: [`raw::release`](crate::raw::release) keeps it.
//! Outside loom it has no size and its calls are nothing.

/// Stands in a header and tells loom who touches that header and who ends it.
#[derive(Debug)]
pub struct Witness {
    #[cfg(ephemera_loom)]
    cell: loom::cell::UnsafeCell<bool>,
}

impl Witness {
    crate::const_unless_loom! {
        /// A witness of memory that is in use.
        #[must_use]
        pub fn new() -> Self {
            Self {
                #[cfg(ephemera_loom)]
                cell: loom::cell::UnsafeCell::new(false),
            }
        }
    }

    /// The header is read or written here by a thread that does not have it for itself.
    #[inline]
    pub fn touch(&self) {
        #[cfg(ephemera_loom)]
        self.cell.with(|ended| {
            // SAFETY: loom runs one thread at a time and reports the race before this read.
            assert!(unsafe { !*ended }, "header touched after it was freed");
        });
    }

    /// What the witness stands for is written here, by a thread that has it for itself at this moment.
    #[inline]
    pub fn write(&self) {
        #[cfg(ephemera_loom)]
        self.cell.with_mut(|ended| {
            // SAFETY: loom runs one thread at a time and reports the race before this access.
            assert!(unsafe { !*ended }, "header written after it was freed");
        });
    }

    /// The header is freed here: no other thread may be touching it, nor touch it later.
    #[inline]
    pub fn end(&self) {
        #[cfg(ephemera_loom)]
        self.cell.with_mut(|ended| {
            // SAFETY: loom runs one thread at a time and reports the race before this access.
            assert!(unsafe { !core::mem::replace(&mut *ended, true) }, "header freed twice");
        });
    }
}

impl Default for Witness {
    fn default() -> Self {
        Self::new()
    }
}

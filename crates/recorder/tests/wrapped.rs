//! Tests that `TraceAlloc` records each kind of call. The test records its own process.
#![cfg(all(target_os = "linux", not(miri)))]

extern crate alloc;

use alloc::ffi::CString;
use core::alloc::{GlobalAlloc, Layout};
use std::alloc::System;

use ephemera_recorder::{Trace, TraceAlloc, What, start};

#[test]
fn every_kind_of_call_is_recorded() {
    let heap = TraceAlloc::new(System);
    let layout = Layout::from_size_align(7_777, 64).expect("a layout");
    let larger = Layout::from_size_align(9_999, 64).expect("a layout");
    // SAFETY: the size of the layout is not zero.
    let early = unsafe { heap.alloc(layout) };
    let path = std::env::temp_dir().join(format!("ephemera-wrapped-{}", std::process::id()));
    let name = CString::new(path.to_string_lossy().into_owned()).expect("the text contains no zero byte");
    start(&name, 1 << 20).expect("the directory for temporary files can be written");
    // SAFETY: the size of the layout is not zero.
    let one = unsafe { heap.alloc(layout) };
    // SAFETY: the size of the layout is not zero.
    let two = unsafe { heap.alloc_zeroed(layout) };
    // SAFETY: the block is live with this layout, and the new size is valid.
    let three = unsafe { heap.realloc(one, layout, 9_999) };
    for (block, layout) in [(three, larger), (two, layout), (early, layout)] {
        // SAFETY: the block is live with this layout, and is freed once.
        unsafe { heap.dealloc(block, layout) };
    }
    let file = format!("{}.{}", path.display(), std::process::id());
    let trace = Trace::open(file.as_ref()).expect("a trace");
    std::fs::remove_file(file).expect("the file exists");
    let found: Vec<What> = trace.events().map(|event| event.expect("a whole trace").what).collect();
    let [one, two, three, early] = [one, two, three, early].map(|block| block.addr() as u64);
    let alloc = |address, zeroed| What::Alloc { address, size: 7_777, align_log2: 6, zeroed };
    let expected = [
        alloc(one, false),
        alloc(two, true),
        What::Resize { address: one },
        What::Resized { address: three, size: 9_999 },
        What::Free { address: three },
        What::Free { address: two },
        What::Free { address: early },
    ];
    assert_eq!(found, expected);
}

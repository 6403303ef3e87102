//! Tests of the reports about memory errors. Each case runs in its own process, because a report
//! ends the process.

use ephemera_testkit::child;

use super::TAIL;
use crate::RingAl;

fn misuse(name: &str) {
    let mut ring = RingAl::new(1024);
    let mut buffer = ring.fixed(61).unwrap();
    let data = buffer.as_mut_ptr();
    match name {
        "overrun" => {
            // SAFETY: the bytes are in the store, after the buffer. Writing outside the buffer is
            // the purpose of this test.
            unsafe { data.wrapping_add(61).write_bytes(0, 3) };
            drop(buffer);
        }
        "underrun" => {
            // SAFETY: the bytes are the word in the guard of this buffer. Writing there is the
            // purpose of this test.
            unsafe { data.wrapping_sub(16).write_bytes(0x11, 8) };
            drop(buffer);
        }
        "far" => {
            let neighbour = ring.fixed(10).unwrap();
            // SAFETY: the bytes are in the store, from the margin of `buffer` to beyond the region
            // of `neighbour`. Writing there is the purpose of this test.
            unsafe { data.wrapping_add(61).write_bytes(0x22, 150) };
            core::mem::forget(buffer);
            drop(neighbour);
        }
        "look" => {
            // SAFETY: the bytes are in the store, in the margin of `buffer` and in the free region
            // after it. Writing there is the purpose of this test.
            unsafe { data.wrapping_add(61).write_bytes(0x33, 80) };
            core::mem::forget(buffer);
            drop(ring.fixed(1));
        }
        "twice" => {
            // SAFETY: the copy is a second handle to the buffer. Dropping both handles is the
            // purpose of this test.
            let copy = unsafe { core::ptr::read(&raw const buffer) };
            drop(buffer);
            drop(copy);
        }
        "frozen" => {
            // SAFETY: the byte is in the store, after the buffer. Writing outside the buffer is the
            // purpose of this test.
            unsafe { data.wrapping_add(61 + TAIL - 1).write_bytes(0, 1) };
            drop(buffer.freeze());
        }
        _ => drop(buffer),
    }
}

#[test]
#[cfg_attr(
    any(miri, ephemera_poison = "asan"),
    ignore = "starts processes, and a sanitizer would report the error first"
)]
fn misuse_is_reported_for_the_misused_buffer() {
    if let Some(name) = child::part() {
        child::end_unless_it_ends(|| misuse(&name));
    }
    let run = |name| child::run("checked::tests::misuse_is_reported_for_the_misused_buffer", name);
    let ended = run("none");
    assert!(ended.succeeded(), "{ended:?}");
    for (name, words) in [
        ("overrun", "a buffer of 61 bytes at"),
        ("overrun", "was overrun by 3 or more"),
        ("underrun", "the guard in front of a buffer of 61 bytes"),
        ("far", "the guard in front of a buffer of 10 bytes"),
        ("look", "was overwritten"),
        ("twice", "was released twice"),
        ("frozen", "was overrun by 32 or more"),
    ] {
        let ended = run(name);
        assert!(!ended.succeeded() && !ended.panicked() && ended.stderr.contains(words), "{name}: {ended:?}");
    }
}

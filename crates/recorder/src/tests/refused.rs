//! Tests with files that the reader refuses: traces with numbers that no recording reaches, and
//! files that are not regular.

use super::{Scratch, alloc, event, read};
use crate::format::{Clocks, FILE_HEADER, PACKET_HEADER, packet};
use crate::{Summary, Trace, TraceError, TraceEvent, What, Writer};

/// Returns the offset and the reason of the error that reading a file reports.
fn refusal(bytes: &[u8]) -> (u64, &'static str) {
    let file = Scratch::new("refused", bytes);
    let error = file.open().and_then(|trace| read(&trace)).expect_err("the trace is damaged");
    let TraceError::Corrupt { offset, why } = error else { panic!("{error}") };
    (offset, why)
}

/// Returns the bytes of a trace with these events.
fn written(events: &[TraceEvent]) -> Vec<u8> {
    let mut writer = Writer::new("x");
    events.iter().for_each(|event| writer.push(event));
    writer.bytes().to_vec()
}

const PLACE: u64 = (FILE_HEADER + PACKET_HEADER) as u64;

#[test]
fn a_size_that_no_address_space_has_is_refused() {
    let largest = (1 << 56) - 1;
    for (what, size) in [
        (alloc(16, 1 << 56), 1 << 56),
        (What::Alloc { address: 16, size: u64::MAX, align_log2: 0, zeroed: true }, u64::MAX),
        (What::Resized { address: 16, size: 1 << 56 }, 1 << 56),
    ] {
        let bytes = written(&[event(1, 1, what)]);
        let (offset, why) = refusal(&bytes);
        assert!(offset == PLACE && why.contains("size"), "{size}: {why} at {offset}");
    }
    let file = Scratch::new("largest", &written(&[event(1, 1, alloc(16, largest))]));
    assert_eq!(Summary::of(&file.open().expect("it is whole")).expect("it is whole").bytes, largest);
}

#[test]
fn the_sums_of_a_damaged_trace_do_not_overflow() {
    let size = (1 << 56) - 1;
    let events: Vec<_> = (0..600).map(|i| event(i, 1, alloc(16 * i, size))).collect();
    let frees = (0..600).map(|i| event(600 + i, 1, What::Free { address: 16 * i }));
    let file = Scratch::new("sums", &written(&events.into_iter().chain(frees).collect::<Vec<_>>()));
    let sum = Summary::of(&file.open().expect("it is whole")).expect("it is whole");
    assert_eq!((sum.bytes, sum.peak_bytes, sum.left), (u64::MAX, u64::MAX, 0));

    let mut writer = Writer::new("x");
    for _ in 0..3 {
        let clocks = Clocks { time: 64, thread: 64, process: 64, recorder: u64::MAX };
        writer.clocks(1, &clocks);
    }
    let file = Scratch::new("slow", writer.bytes());
    let trace = file.open().expect("it is whole");
    let mut events = trace.events();
    assert!(events.by_ref().all(|event| event.is_ok()));
    assert_eq!(events.timing().slow, u64::MAX);
}

#[test]
fn a_sequence_number_or_a_time_beyond_the_last_one_is_refused() {
    let whole = written(&[event(1, 1, alloc(16, 8)), event(3, 1, What::Free { address: 16 })]);
    for (field, value, event, why) in [
        (packet::SEQUENCE, u64::MAX, 0, "sequence"),
        (packet::SEQUENCE, u64::MAX - 2, 1, "sequence"),
        (packet::TIME, u64::MAX, 0, "time"),
        (packet::TIME, (u64::MAX >> 5) - 3, 1, "time"),
        (packet::TIME, (u64::MAX >> 5) + 1, 0, "time"),
    ] {
        let mut bytes = whole.clone();
        bytes[FILE_HEADER + field..][..8].copy_from_slice(&value.to_le_bytes());
        let (offset, said) = refusal(&bytes);
        // The first event has five bytes.
        assert!(said.contains(why) && offset == PLACE + 5 * event, "{field} {value}: {said} at {offset}");
    }
}

#[test]
fn a_note_beyond_the_last_time_is_refused() {
    let mut writer = Writer::new("x");
    writer.clocks(1, &Clocks { time: 64, ..Clocks::default() });
    let mut bytes = writer.bytes().to_vec();
    bytes[FILE_HEADER + packet::TIME..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let (offset, why) = refusal(&bytes);
    assert!(offset == PLACE && why.contains("time"), "{why} at {offset}");
}

/// [`Trace::open`] must not open a pipe: it would wait for a writer, and the test would not end.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_pipe_or_a_device_is_refused_without_opening_it() {
    use std::os::fd::AsRawFd;
    let path = std::env::temp_dir().join(format!("ephemera-{}-fifo", std::process::id()));
    let name =
        std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("the text contains no zero byte");
    // SAFETY: the path is NUL-terminated.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let fifo = Trace::open(&path);
    std::fs::remove_file(&path).expect("it was just made");
    let (pipe, _writer) = std::io::pipe().expect("the process has descriptors left");
    let pipe = Trace::open(format!("/proc/self/fd/{}", pipe.as_raw_fd()).as_ref());
    let device = Trace::open("/dev/zero".as_ref());
    for opened in [fifo, pipe, device] {
        let error = opened.expect_err("the path is not a regular file");
        assert!(matches!(error, TraceError::Foreign { .. }), "{error:?}");
        assert!(error.to_string().contains("to a file first"), "{error}");
    }
    let error = Trace::open(&std::env::temp_dir()).expect_err("the path is a directory");
    assert!(error.to_string().contains("directory"), "{error}");
}

//! Tests of the whole format: events are read as they were written, cut files are read up to the
//! cut, and damage is reported.

use std::path::PathBuf;

use proptest::prelude::*;

use crate::format::{Clocks, FILE_HEADER, PACKET, PACKET_HEADER, Stop, header};
use crate::{Book, BookStep, RunEnd, Summary, Trace, TraceError, TraceEvent, What, Writer};

mod refused;

/// A file that is removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("ephemera-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("the directory for temporary files can be written");
        Self(path)
    }

    fn open(&self) -> Result<Trace, TraceError> {
        Trace::open(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: the file may already be gone.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn event(sequence: u64, thread: u32, what: What) -> TraceEvent {
    TraceEvent { sequence, time: sequence * 64, thread, what }
}

fn alloc(address: u64, size: u64) -> What {
    What::Alloc { address, size, align_log2: 0, zeroed: false }
}

/// Returns a trace in which three threads take turns to allocate and free `count` blocks, and the
/// trace's events.
fn simple(count: u64) -> (Writer, Vec<TraceEvent>) {
    let mut writer = Writer::new("a test\0of it");
    let mut events = Vec::new();
    for i in 0..count {
        let thread = (i % 3) as u32 + 1;
        let address = 0x5555_0000_0000 + i % 100 * 64;
        events.push(event(2 * i, thread, alloc(address, i)));
        events.push(event(2 * i + 1, thread, What::Free { address }));
    }
    events.iter().for_each(|event| writer.push(event));
    (writer, events)
}

fn read(trace: &Trace) -> Result<Vec<TraceEvent>, TraceError> {
    trace.events().collect()
}

fn what() -> impl Strategy<Value = What> {
    let address = prop_oneof![any::<u64>(), (0..1000_u64).prop_map(|n| 0x7fff_0000_0000 + n * 16)];
    (address, 0..1_u64 << 56, 0..32_u8, any::<bool>(), 0..4).prop_map(
        |(address, size, align_log2, zeroed, op)| match op {
            0 => What::Alloc { address, size, align_log2, zeroed },
            1 => What::Free { address },
            2 => What::Resize { address },
            _ => What::Resized { address, size },
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, ..ProptestConfig::default() })]

    #[test]
    fn written_events_are_read_back(
        calls in prop::collection::vec((what(), 1..6_u32, 1..1_u64 << 40, 0..1_u64 << 40), 0..3000)
    ) {
        let mut writer = Writer::new("x");
        let (mut sequence, mut time) = (0, 0);
        let mut events = Vec::new();
        for (what, thread, step, pause) in calls {
            sequence += step;
            time += pause >> 5 << 5;
            events.push(TraceEvent { sequence, time, thread, what });
        }
        events.iter().for_each(|event| writer.push(event));
        let file = Scratch::new("round", writer.bytes());
        let trace = file.open().expect("it was just written");
        prop_assert_eq!(read(&trace).expect("it is whole"), events);
    }

    #[test]
    fn damage_causes_no_panic(at in 0..FILE_HEADER + 3 * PACKET, value: u8, many in 1..40_usize) {
        let (writer, _) = simple(2000);
        let mut bytes = writer.bytes().to_vec();
        let end = (at + many).min(bytes.len());
        bytes[at.min(end)..end].fill(value);
        let file = Scratch::new("damage", &bytes);
        if let Ok(trace) = file.open() {
            // The result may be a summary or an error.
            let _ = Summary::of(&trace);
        }
    }
}

#[test]
fn every_field_of_the_head_is_read() {
    let (mut writer, _) = simple(10);
    writer.stop(Stop::Limit, 15);
    let file = Scratch::new("header", writer.bytes());
    let trace = file.open().expect("it was just written");
    assert_eq!(trace.command, "a test of it");
    assert_eq!(trace.stop, Some(Stop::Limit));
    assert!(trace.caveats()[0].contains("limit"), "{:?}", trace.caveats());
    let events = read(&trace).expect("it is whole");
    assert_eq!(events.len(), 15, "the incomplete events after the stop are left out");
}

#[test]
fn control_characters_of_a_command_are_escaped() {
    let writer = Writer::new("evil\0\x1b]0;title\x07\u{9b}31m\r\n\u{202e}txt\0caf\u{e9}");
    let file = Scratch::new("escapes", writer.bytes());
    let trace = file.open().expect("it was just written");
    assert_eq!(trace.command, "evil \\u{1b}]0;title\\u{7}\\u{9b}31m\\r\\n\\u{202e}txt caf\u{e9}");
}

/// Opening the file must fail early, because reading all of its packets would take minutes. Up to
/// 8,192 consecutive packets without a header are valid, because a recording may leave them.
#[test]
fn a_sparse_file_of_eight_tebibytes_is_refused_without_reading_it() {
    let (writer, events) = simple(100);
    let file = Scratch::new("sparse", writer.bytes());
    let grow = |length: u64| {
        let open = std::fs::File::options().write(true).open(&file.0).expect("it was just written");
        open.set_len(length)
    };
    grow(128 << 20).expect("holes take no space");
    let trace = file.open().expect("a file that was extended in advance");
    assert_eq!(read(&trace).expect("it is whole"), events);
    // The test uses the largest of these sizes that the file system accepts.
    let large = [8 << 40, 4 << 40, 1 << 40, 16 << 30].into_iter().find(|&length| grow(length).is_ok());
    assert!(large.is_some(), "no file system for this test");
    match file.open() {
        Err(TraceError::Corrupt { offset, .. }) => assert!(offset < 1 << 30, "{offset}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cut_file_is_read_up_to_the_cut() {
    let (writer, events) = simple(4000);
    let bytes = writer.bytes();
    assert!(bytes.len() >= FILE_HEADER + 3 * PACKET);
    for cut in [
        FILE_HEADER + 1000,
        FILE_HEADER + PACKET + 777,
        FILE_HEADER + 2 * PACKET + 5,
        FILE_HEADER + PACKET_HEADER,
    ] {
        let file = Scratch::new("cut", &bytes[..cut]);
        let trace = file.open().expect("the header is whole");
        let read = read(&trace).expect("the trace is whole up to the cut");
        assert!(read.len() < events.len());
        assert!(read.iter().all(|event| events[event.sequence as usize] == *event), "cut at {cut}");
        if cut > FILE_HEADER + PACKET_HEADER {
            assert!(!read.is_empty());
            assert_eq!(trace.truncated, Some(cut as u64));
            assert!(trace.caveats().iter().any(|said| said.contains("cut off")));
        }
    }
}

/// Returns the trace of `simple(2000)` with notes among its events, and the events.
fn noted() -> (Writer, Vec<TraceEvent>) {
    let (_, events) = simple(2000);
    let mut writer = Writer::new("x");
    for event in &events {
        let thread = u64::from(event.thread);
        if event.sequence % 100 == 0 {
            let process = 1024 + event.sequence * 64;
            let clocks =
                Clocks { time: event.time, thread: event.sequence * 32 * thread, process, recorder: 96 };
            writer.clocks(event.thread, &clocks);
        }
        writer.push(event);
        if event.sequence % 10 == 1 {
            writer.took(event.thread, 30 + event.sequence % 3, 50);
        }
    }
    writer.start(20.5, 1024);
    (writer, events)
}

#[test]
fn notes_do_not_change_the_events() {
    let (mut writer, expected) = noted();
    writer.end(&RunEnd { time: 777_777, processor: 555_555 });
    let file = Scratch::new("noted", writer.bytes());
    let trace = file.open().expect("it was just written");
    assert_eq!(trace.end, Some(RunEnd { time: 777_777, processor: 555_555 }));
    assert_eq!((trace.clock_cost, trace.start_processor), (20.5, 1024));
    let mut events = trace.events();
    let read: Vec<TraceEvent> = events.by_ref().collect::<Result<_, _>>().expect("it is whole");
    assert_eq!(read, expected);
    let timing = events.timing();
    assert_eq!(timing.process, Some((3900 * 64, 1024 + 3900 * 64)));
    assert_eq!(timing.threads.len(), 3);
    let third = &timing.threads[&3].last;
    assert_eq!(third.thread, third.time / 64 * 32 * 3);
    assert_eq!(timing.slow, 40 * 96);
    let [blocks, zeroed, frees, resized] =
        [0, 1, 2, 3].map(|at| timing.kinds().nth(at).copied().unwrap_or_default());
    assert_eq!((blocks.events, zeroed.events, frees.events, resized.events), (2000, 0, 2000, 0));
    assert_eq!((blocks.allocator.count, frees.allocator.count), (0, 400), "a note is about the event before");
    assert!((30.0..32.0).contains(&frees.allocator.mean()) && frees.allocator.error() < 0.1);
    assert_eq!((timing.recorder().count, timing.recorder().mean()), (400, 50.0));
}

#[test]
fn a_recording_that_stopped_early_has_no_end_of_the_program() {
    let (mut writer, _) = noted();
    writer.end(&RunEnd { time: 777_777, processor: 555_555 });
    writer.stop(Stop::Limit, 100);
    let file = Scratch::new("stopped", writer.bytes());
    assert_eq!(file.open().expect("it was just written").end, None);
}

#[test]
fn version_1_is_read_without_notes() {
    let (writer, expected) = simple(2000);
    let mut bytes = writer.bytes().to_vec();
    bytes[header::VERSION] = 1;
    // In version 1, the command may extend to the end of the header.
    bytes[header::START_PROCESSOR..FILE_HEADER].fill(b'x');
    let file = Scratch::new("first", &bytes);
    let trace = file.open().expect("the version is known");
    assert_eq!(read(&trace).expect("it is whole"), expected);
    assert_eq!((trace.end, trace.start_processor, trace.clock_cost), (None, 0, 0.0));

    let (writer, _) = noted();
    let mut bytes = writer.bytes().to_vec();
    bytes[header::VERSION] = 1;
    let file = Scratch::new("first-noted", &bytes);
    let error = read(&file.open().expect("the header is whole")).expect_err("the old version has no notes");
    assert!(error.to_string().contains("operation"), "{error}");
}

#[test]
fn a_file_that_is_not_a_trace_is_refused() {
    for bytes in [&b""[..], b"short", &[7; 9000]] {
        assert!(matches!(Scratch::new("none", bytes).open(), Err(TraceError::Foreign { .. })));
    }
    let (writer, _) = simple(1);
    let mut newer = writer.bytes().to_vec();
    newer[header::VERSION] = 9;
    let error = Scratch::new("newer", &newer).open().expect_err("the version is unknown");
    assert!(matches!(error, TraceError::Version { found: 9 }), "{error}");
    assert!(error.to_string().contains("version 9"));
}

#[test]
fn a_damaged_byte_is_reported_with_its_offset() {
    let (writer, _) = simple(1000);
    let place = FILE_HEADER + PACKET_HEADER;
    for (at, value, why) in [
        (FILE_HEADER, b'X', "CHNK"),
        (FILE_HEADER + 11, 0xff, "more bytes than fit"),
        (FILE_HEADER + 7, 0xff, "thread"),
        (place, 7 | 9 << 3, "note"),
        (place, 0, "operation"),
    ] {
        let mut bytes = writer.bytes().to_vec();
        bytes[at] = value;
        let file = Scratch::new("places", &bytes);
        let error = file.open().and_then(|trace| read(&trace)).expect_err("a byte was changed");
        let TraceError::Corrupt { offset, why: said } = error else { panic!("{error}") };
        assert!(said.contains(why), "{said}");
        assert_eq!(offset, if at < place { FILE_HEADER as u64 } else { place as u64 });
    }
}

#[test]
fn blocks_are_found_by_address_after_reuse() {
    let mut book = Book::new();
    let mut now = 0;
    let mut step = |thread: u32, what: What| {
        now += 1;
        book.apply(&event(now, thread, what))
    };
    let BookStep::Alloc { id: first, lost: None } = step(1, alloc(16, 100)) else { panic!("a block") };
    assert_eq!(step(1, What::Free { address: 32 }), BookStep::Unknown);
    assert_eq!(step(2, What::Free { address: 16 }), BookStep::Free { id: first });
    assert_eq!(step(2, What::Free { address: 16 }), BookStep::Twice);
    let BookStep::Alloc { id: second, lost: None } = step(1, alloc(16, 8)) else { panic!("a block") };
    let BookStep::Alloc { id: third, lost } = step(1, alloc(16, 9)) else { panic!("a block") };
    assert_eq!(lost, Some(second), "its free is missing from the trace");
    // Another thread gets the same address during `realloc`.
    assert_eq!(step(1, What::Resize { address: 16 }), BookStep::Pending);
    let BookStep::Alloc { id: other, lost: None } = step(2, alloc(16, 5)) else { panic!("a block") };
    assert_eq!(
        step(1, What::Resized { address: 48, size: 90 }),
        BookStep::Resize { id: third, old: 9, lost: None }
    );
    assert_eq!(step(1, What::Resize { address: 48 }), BookStep::Pending);
    assert_eq!(step(1, What::Resized { address: 48, size: 0 }), BookStep::Refused { id: third, lost: None });
    assert_eq!(step(1, What::Resize { address: 999 }), BookStep::Unknown);
    assert!(matches!(step(1, What::Resized { address: 64, size: 7 }), BookStep::Found { lost: None, .. }));
    assert_eq!(step(1, What::Free { address: 16 }), BookStep::Free { id: other });
    assert_eq!(book.live(), 2);
    assert_eq!(book.block(third).size, 90);
}

#[test]
fn a_summary_counts_every_kind_of_call() {
    let mut writer = Writer::new("x");
    let calls = [
        (1, alloc(16, 100)),
        (1, alloc(160, 50)),
        (2, What::Free { address: 16 }),
        (1, What::Resize { address: 160 }),
        (1, What::Resized { address: 160, size: 70 }),
        (2, What::Free { address: 4096 }),
        (1, What::Free { address: 16 }),
    ];
    for (i, (thread, what)) in calls.into_iter().enumerate() {
        writer.push(&event(i as u64, thread, what));
    }
    let file = Scratch::new("sum", writer.bytes());
    let sum = Summary::of(&file.open().expect("it was just written")).expect("it is whole");
    let expected = Summary {
        events: 7,
        blocks: 2,
        frees: 1,
        resizes: 1,
        threads: 2,
        bytes: 220,
        peak_bytes: 150,
        peak_blocks: 2,
        time: 6 * 64,
        unknown: 1,
        twice: 1,
        lost: 0,
        left: 1,
    };
    assert_eq!(sum, expected);
    assert!(sum.to_string().contains("freed twice"));
}

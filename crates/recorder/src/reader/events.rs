//! Merges the events of all streams by their sequence numbers.
#![forbid(unsafe_code)]

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cursor::Cursor;
use super::{Trace, TraceEvent};
use crate::error::TraceError;
use crate::timing::Timing;

impl Trace {
    /// Returns an iterator over the complete events in the order of their sequence numbers, up to
    /// the number from which on events may be missing.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        let waiting =
            self.firsts.iter().enumerate().map(|(stream, &first)| Reverse((first, stream))).collect();
        let mut cursors = Vec::new();
        cursors.resize_with(self.streams.len(), Cursor::default);
        Events { trace: self, cursors, waiting, current: None, failed: false, timing: Timing::default() }
    }
}

/// An iterator over the events of a trace, in the order of their sequence numbers. It ends after
/// the first error.
#[derive(Debug)]
pub struct Events<'a> {
    trace: &'a Trace,
    cursors: Vec<Cursor>,
    /// The streams, ordered by a lower bound of their next sequence number.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The stream that the last event came from.
    current: Option<usize>,
    failed: bool,
    timing: Timing,
}

impl Iterator for Events<'_> {
    type Item = Result<TraceEvent, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.advance() {
            Ok(event) => {
                let whole = |event: &TraceEvent| {
                    event.sequence < self.trace.stop_sequence || weakened!("trace_ragged_end")
                };
                event.filter(whole).map(Ok)
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

impl Events<'_> {
    /// Returns the times read so far. They are complete when the iterator has ended without an
    /// error.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    fn advance(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        loop {
            if let Some(stream) = self.current {
                let cursor = &mut self.cursors[stream];
                if cursor.ahead.is_none() {
                    cursor.ahead = cursor.read(self.trace, &self.trace.streams[stream], &mut self.timing)?;
                }
                let Some(event) = cursor.ahead else {
                    self.current = None;
                    cursor.bytes = Vec::new();
                    continue;
                };
                if self.waiting.peek().is_none_or(|Reverse((next, _))| event.sequence < *next) {
                    return Ok(cursor.ahead.take());
                }
                self.waiting.push(Reverse((event.sequence, stream)));
                self.current = None;
            }
            let Some(Reverse((next, stream))) = self.waiting.pop() else { return Ok(None) };
            // Either the stream's next event is in memory and precedes the next events of all other
            // streams, or the stream's first packet has not been read yet.
            if let Some(event) = self.cursors[stream].ahead
                && event.sequence == next
            {
                self.current = Some(stream);
                return Ok(self.cursors[stream].ahead.take());
            }
            self.current = Some(stream);
        }
    }
}

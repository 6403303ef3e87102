//! The client of R3: one thread with a fixed number of connections and a fixed amount of memory.

use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::bodies::{self, PAGES};
use super::server::{HEAD, head};
use crate::tally;
use crate::workloads::{Load, load, mix};

/// The time that the open loop waits for the last answers after the end of its load.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request whose answer is not complete.
struct Waiting {
    page: usize,
    due: Duration,
}

struct Connection {
    stream: TcpStream,
    waiting: VecDeque<Waiting>,
    /// The number of received bytes of the answer to the first waiting request.
    got: usize,
}

/// The client: its connections, the pages that it expects, and its requests.
pub(super) struct Client {
    connections: Vec<Connection>,
    pages: &'static [Vec<u8>],
    requests: Vec<String>,
    scratch: Vec<u8>,
    /// Whether the client compares every received byte with the expected answer.
    checked: bool,
    /// Whether the client has its own processor, and so spins while it waits.
    alone: bool,
    sum: u64,
}

impl Client {
    /// Creates a client that sends its requests through `streams`.
    pub(super) fn new(streams: Vec<TcpStream>, checked: bool, alone: bool) -> Self {
        let open = |stream| Connection { stream, waiting: VecDeque::with_capacity(1024), got: 0 };
        let request = |page| {
            format!("GET /{page} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nUser-Agent: client\r\n\r\n")
        };
        Self {
            connections: streams.into_iter().map(open).collect(),
            pages: bodies::shared(),
            requests: (0..PAGES).map(request).collect(),
            scratch: vec![0; 64 * 1024],
            checked,
            alone,
            sum: 0,
        }
    }

    /// Sends the request with the number `index`. Requests ask for the pages in turn, and take the
    /// connections in turn.
    fn send(&mut self, index: usize, due: Duration) -> io::Result<()> {
        let (page, connections) = (index % PAGES, self.connections.len());
        let connection = &mut self.connections[index % connections];
        connection.stream.write_all(self.requests[page].as_bytes())?;
        connection.waiting.push_back(Waiting { page, due });
        Ok(())
    }

    /// Reads once from a connection. Returns the request whose answer is complete after this read,
    /// or `None` if no answer is complete.
    fn receive(&mut self, connection: usize) -> io::Result<Option<Waiting>> {
        let connection = &mut self.connections[connection];
        let Some(first) = connection.waiting.front() else { return Ok(None) };
        let body = &self.pages[first.page];
        let whole = HEAD + body.len();
        let room = (whole - connection.got).min(self.scratch.len());
        let count = connection.stream.read(&mut self.scratch[..room])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.checked {
            let head = head(body.len());
            let mut expected = head.iter().chain(body).skip(connection.got);
            if !self.scratch[..count].iter().all(|byte| expected.next() == Some(byte)) {
                tally::damaged();
            }
        }
        connection.got += count;
        if connection.got < whole {
            return Ok(None);
        }
        connection.got = 0;
        Ok(connection.waiting.pop_front())
    }

    /// Waits for the answer to the first waiting request of a connection, if there is one.
    fn answer(&mut self, connection: usize) -> io::Result<()> {
        while !self.connections[connection].waiting.is_empty() {
            if let Some(done) = self.receive(connection)? {
                self.sum = mix(self.sum, done.page as u64 + 1);
                break;
            }
        }
        Ok(())
    }

    /// Sends `requests` requests, each after the previous answer on its connection. Returns a
    /// checksum that depends on the order of the answers.
    ///
    /// # Errors
    ///
    /// Returns an error if a connection breaks.
    pub(super) fn closed_loop(&mut self, requests: u64) -> io::Result<u64> {
        self.sum = 0;
        let connections = self.connections.len();
        for index in 0..requests as usize {
            self.answer(index % connections)?;
            self.send(index, Duration::ZERO)?;
        }
        for index in 0..connections {
            self.answer((requests as usize + index) % connections)?;
        }
        Ok(self.sum)
    }

    /// Sends requests at a steady rate, however long the answers take. Returns the latencies in
    /// nanoseconds, each from the time at which its request was due.
    ///
    /// # Errors
    ///
    /// Returns an error if a connection breaks, or if answers do not arrive.
    pub(super) fn open_loop(&mut self, load: &Load) -> io::Result<Histogram<u64>> {
        let mut latencies = load::latencies();
        let requests = load.requests();
        for connection in &self.connections {
            connection.stream.set_nonblocking(true)?;
        }
        let start = Instant::now();
        let mut sent = 0;
        while latencies.len() < requests {
            let now = start.elapsed();
            if now > load.length + PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let due = load.due(sent);
            let mut idle = true;
            if sent < requests && due <= now {
                // Requests are short, and few of them wait for the server, so this request fits
                // into the socket's buffer.
                self.send(sent as usize, due)?;
                sent += 1;
                idle = false;
            }
            for connection in 0..self.connections.len() {
                match self.receive(connection) {
                    Ok(Some(done)) => {
                        latencies.saturating_record((start.elapsed() - done.due).as_nanos() as u64);
                        idle = false;
                    }
                    Ok(None) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            if idle {
                if self.alone {
                    core::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        }
        for connection in &self.connections {
            connection.stream.set_nonblocking(false)?;
        }
        Ok(latencies)
    }
}

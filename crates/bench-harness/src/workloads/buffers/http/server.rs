//! The server of R3: a thread for each connection, which ends when the client closes the
//! connection. The server keeps a request in one buffer and assembles the answer in another. It
//! drops the request before it sends the answer, and the answer afterwards.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::bodies::{self, LONGEST, PAGES};
use crate::buffers::{Demand, Readable, Source, give};

/// The largest number of bytes that the server reads from a connection at once. It is also the
/// length of the longest request.
const READ: usize = 4096;
/// The bytes that end the head of a request.
const BLANK: &[u8; 4] = b"\r\n\r\n";
/// The length of an answer's head, in bytes.
pub(super) const HEAD: usize = 44;

/// Returns the head of an answer, padded to a fixed length.
pub(super) fn head(length: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    // A slice of the array does not fail: the length of a page has at most seven digits.
    let _ = write!(&mut head[..], "HTTP/1.1 200 OK\r\nContent-Length: {length:7}\r\n\r\n");
    head
}

/// Returns the length of the first request in `arrived`, or `None` if the request is not complete.
fn end(arrived: &[u8]) -> Option<usize> {
    let blank = arrived.windows(BLANK.len()).position(|window| window == BLANK)?;
    Some(blank + BLANK.len())
}

/// Returns the page that a request names, such as 17 for `GET /17 HTTP/1.1`, or `None` if there is
/// no such page.
fn page(request: &impl Readable) -> Option<usize> {
    let mut page = None;
    request.read(|piece| {
        let number = piece.strip_prefix(b"GET /").and_then(|rest| rest.split(|&byte| byte == b' ').next());
        let number = number.and_then(|number| core::str::from_utf8(number).ok()?.parse().ok());
        page = page.or(number);
    });
    page.filter(|&page| page < PAGES)
}

/// Answers the requests of a connection until the client closes it.
///
/// # Errors
///
/// Returns an error if the connection breaks, or if a message is not a request.
pub(super) fn serve<S: Source>(mut stream: TcpStream) -> io::Result<()> {
    let pages = bodies::shared();
    let largest = HEAD + LONGEST;
    let mut source = S::create(&Demand { largest, buffers: 2, bytes: largest + READ });
    let mut arrived = [0; READ];
    let mut unread = 0..0;
    loop {
        let Some(length) = end(&arrived[unread.clone()]) else {
            if unread.len() == READ {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a request without an end"));
            }
            arrived.copy_within(unread.clone(), 0);
            unread = 0..unread.len();
            match stream.read(&mut arrived[unread.end..])? {
                0 => return Ok(()),
                count => unread.end += count,
            }
            continue;
        };
        // SAFETY: at most one request and its answer are live, which is the demand of `create`, and
        // the request is dropped before the answer.
        let request = unsafe { source.filled([&arrived[unread.start..unread.start + length]]) };
        unread.start += length;
        let asked =
            page(&request).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a request"))?;
        let body = &pages[asked];
        // SAFETY: at most one request and its answer are live, which is the demand of `create`, and
        // the request is dropped before the answer.
        let answer = unsafe { source.filled([&head(body.len()), body.as_slice()]) };
        give(request);
        let mut sent = Ok(());
        answer.read(|piece| {
            if sent.is_ok() {
                sent = stream.write_all(piece);
            }
        });
        sent?;
        give(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_states_the_length_of_its_body() {
        assert_eq!(&head(65_536), b"HTTP/1.1 200 OK\r\nContent-Length:   65536\r\n\r\n");
        assert_eq!(&head(0), b"HTTP/1.1 200 OK\r\nContent-Length:       0\r\n\r\n");
    }

    #[test]
    fn a_request_ends_at_the_blank_line() {
        assert_eq!(end(b"GET / HTTP/1.1\r\n\r"), None);
        assert_eq!(end(b"GET / HTTP/1.1\r\n\r\nGET"), Some(18));
        assert_eq!(end(b""), None);
    }

    #[test]
    fn a_request_names_an_existing_page() {
        let mut buffer = bytes::BytesMut::new();
        buffer.extend_from_slice(b"GET /17 HTTP/1.1\r\n\r\n");
        assert_eq!(page(&buffer), Some(17));
        for wrong in ["GET /6400 HTTP/1.1\r\n\r\n", "PUT /1 HTTP/1.1\r\n\r\n", "GET /x HTTP/1.1\r\n\r\n"] {
            buffer.clear();
            buffer.extend_from_slice(wrong.as_bytes());
            assert_eq!(page(&buffer), None, "{wrong}");
        }
    }
}

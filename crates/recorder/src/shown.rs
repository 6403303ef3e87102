//! Escapes text from a trace, so that terminals and reports can display it safely.
#![forbid(unsafe_code)]

/// Returns `text` with two kinds of characters escaped: control characters, and characters that
/// reorder the displayed text.
pub(crate) fn shown(text: &[u8]) -> String {
    let reorders =
        |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut out = String::with_capacity(text.len());
    for c in String::from_utf8_lossy(text).chars() {
        if c.is_control() || reorders(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

//! Text of a trace, made safe to show.
#![forbid(unsafe_code)]

/// `text` with each character escaped that a terminal or a page would obey: controls, and those
/// that reorder what is displayed.
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

//! Separates code from comments and from the contents of strings, line by line. The lexer knows
//! just enough Rust for this: nested comments, raw strings, and that `'a` may be a lifetime.

/// A line of a Rust file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct SourceLine {
    /// The code of the line. Strings and characters keep their quotes and lose their contents.
    pub(crate) code: String,
    /// The comment of the line, with the slashes. Several comments on one line are joined.
    pub(crate) comment: String,
}

impl SourceLine {
    /// Returns whether the line holds a comment and nothing else.
    pub(crate) fn only_comment(&self) -> bool {
        self.code.trim().is_empty() && !self.comment.is_empty()
    }
}

/// The part of the code that the next character belongs to.
enum LexerState {
    Code,
    LineComment,
    /// The number of open comments. Block comments nest.
    BlockComment(u32),
    Text,
    /// The number of `#` that close the string.
    RawText(usize),
}

/// Splits a file into lines, each with its code and its comment.
pub(crate) fn lex(text: &str) -> Vec<SourceLine> {
    let chars: Vec<char> = text.chars().collect();
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut lines = vec![SourceLine::default()];
    let mut state = LexerState::Code;
    let mut index = 0;
    while index < chars.len() {
        let (c, next) = (at(index), at(index + 1));
        if c == '\n' {
            if matches!(state, LexerState::LineComment) {
                state = LexerState::Code;
            }
            lines.push(SourceLine::default());
            index += 1;
            continue;
        }
        let Some(line) = lines.last_mut() else { break };
        let mut step = 1;
        match state {
            LexerState::Code => match (c, next) {
                ('/', '/') => {
                    state = LexerState::LineComment;
                    line.comment.push(c);
                }
                ('/', '*') => {
                    state = LexerState::BlockComment(1);
                    line.comment.push_str("/*");
                    step = 2;
                }
                ('"', _) => {
                    state = LexerState::Text;
                    line.code.push('"');
                }
                ('\'', _) => {
                    line.code.push('\'');
                    if let Some(length) = character(&chars[index..]) {
                        line.code.push('\'');
                        step = length;
                    }
                }
                ('r', '"' | '#') if !ends_in_word(&line.code) => match raw_text(&chars[index..]) {
                    Some(hashes) => {
                        state = LexerState::RawText(hashes);
                        line.code.push('"');
                        step = hashes + 2;
                    }
                    None => line.code.push(c),
                },
                _ => line.code.push(c),
            },
            LexerState::LineComment => line.comment.push(c),
            LexerState::BlockComment(depth) => {
                line.comment.push(c);
                match (c, next) {
                    ('/', '*') => {
                        state = LexerState::BlockComment(depth + 1);
                        line.comment.push(next);
                        step = 2;
                    }
                    ('*', '/') => {
                        state =
                            if depth == 1 { LexerState::Code } else { LexerState::BlockComment(depth - 1) };
                        line.comment.push(next);
                        step = 2;
                    }
                    _ => {}
                }
            }
            LexerState::Text => match (c, next) {
                // A backslash skips the next character, but not a line break, which begins a new
                // line.
                ('\\', '\n') => {}
                ('\\', _) => step = 2,
                ('"', _) => {
                    state = LexerState::Code;
                    line.code.push('"');
                }
                _ => {}
            },
            LexerState::RawText(hashes) => {
                if c == '"' && chars[index + 1..].iter().take_while(|c| **c == '#').count() >= hashes {
                    state = LexerState::Code;
                    line.code.push('"');
                    step = 1 + hashes;
                }
            }
        }
        index += step;
    }
    if text.ends_with('\n') {
        lines.pop();
    }
    lines
}

/// Returns whether an `r` after `code` continues a word. The prefixes of `br"…"` and `cr"…"` are
/// not words.
fn ends_in_word(code: &str) -> bool {
    let word: String = code.chars().rev().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    !matches!(word.as_str(), "" | "b" | "c")
}

/// Returns the length of the character literal at the start of `chars`, or `None` for a lifetime.
fn character(chars: &[char]) -> Option<usize> {
    match chars.get(1)? {
        '\\' => chars.iter().skip(3).position(|c| *c == '\'').map(|end| end + 4),
        _ => (chars.get(2) == Some(&'\'')).then_some(3),
    }
}

/// Returns the number of `#` of the raw string at the start of `chars`, or `None` for a raw
/// identifier.
fn raw_text(chars: &[char]) -> Option<usize> {
    let hashes = chars[1..].iter().take_while(|c| **c == '#').count();
    (chars.get(1 + hashes) == Some(&'"')).then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::lex;

    fn code(text: &str) -> String {
        lex(text).into_iter().map(|line| line.code).collect::<Vec<_>>().join("\n")
    }

    fn comments(text: &str) -> Vec<String> {
        lex(text).into_iter().map(|line| line.comment).collect()
    }

    #[test]
    fn comments_are_separated_from_code_on_each_line() {
        assert_eq!(comments("a(); // one\n/// two\nb"), ["// one", "/// two", ""]);
        assert_eq!(comments("a /* x /* y */ z\nend */ b"), ["/* x /* y */ z", "end */"]);
        assert_eq!(code("a /* x /* y */ z\nend */ b"), "a \n b");
        assert!(lex("  // only\n")[0].only_comment() && !lex("a // too\n")[0].only_comment());
    }

    #[test]
    fn strings_lose_their_contents() {
        assert_eq!(code(r#"f("// no \" comment", 'x')"#), r#"f("", '')"#);
        assert_eq!(code("f(r#\"a \" // b\"#, br\"c\", r#type)"), "f(\"\", b\"\", r#type)");
        assert_eq!(code("f(\"one\ntwo\\\n  three\") // c"), "f(\"\n\n\") ");
    }

    #[test]
    fn characters_are_distinguished_from_lifetimes() {
        assert_eq!(
            code(r"fn f<'a>(x: &'a str) { g('\'', '\u{1F}', '/', b'\\') }"),
            "fn f<'a>(x: &'a str) { g('', '', '', b'') }"
        );
        assert_eq!(code("'outer: loop { break 'outer } // c"), "'outer: loop { break 'outer } ");
    }

    #[test]
    fn no_line_is_lost_or_added() {
        assert_eq!(lex("a\nb\n").len(), 2);
        assert_eq!(lex("a\n\nb").len(), 3);
        assert!(lex("").len() <= 1);
    }
}

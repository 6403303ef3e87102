//! A recursive JSON parser with the allocations of a simple one: a box for each value, a vector for
//! each string, and vectors that double.

use allocator_api2::vec::Vec;

use super::tree::{JsonNode, Member, Storage, Text};

/// The deepest nesting of values that the parser accepts, in levels.
const DEPTH: usize = 256;

/// A parse error: its offset and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    /// The offset of the error in the document, in bytes.
    pub(crate) at: usize,
    /// A description of the text that the parser expected.
    pub(crate) expected: &'static str,
}

/// Parses a whole document.
///
/// # Errors
///
/// Returns an error if the parser finds a text that it does not expect, or if values are nested
/// deeper than 256 levels.
pub(crate) fn parse<S: Storage>(text: &[u8], storage: S) -> Result<JsonNode<S>, ParseError> {
    let mut parser = Parser { text, at: 0, depth: 0, storage };
    let root = parser.value()?;
    parser.blank();
    if parser.at == text.len() { Ok(root) } else { Err(parser.expected("the end")) }
}

struct Parser<'t, S> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    storage: S,
}

impl<S: Storage> Parser<'_, S> {
    fn expected(&self, expected: &'static str) -> ParseError {
        ParseError { at: self.at, expected }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Skips the next byte if it is `byte`. Returns whether it was.
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &'static str, node: JsonNode<S>) -> Result<JsonNode<S>, ParseError> {
        if self.text[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(node)
        } else {
            Err(self.expected(word))
        }
    }

    fn value(&mut self) -> Result<JsonNode<S>, ParseError> {
        self.blank();
        match self.peek() {
            Some(b'{') => self.nested(Self::map),
            Some(b'[') => self.nested(Self::list),
            Some(b'"') => self.string().map(JsonNode::Text),
            Some(b't') => self.word("true", JsonNode::Bool(true)),
            Some(b'f') => self.word("false", JsonNode::Bool(false)),
            Some(b'n') => self.word("null", JsonNode::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.expected("a value")),
        }
    }

    fn boxed(&mut self) -> Result<S::Boxed, ParseError> {
        let node = self.value()?;
        Ok(self.storage.boxed(node))
    }

    fn nested(
        &mut self,
        inner: fn(&mut Self) -> Result<JsonNode<S>, ParseError>,
    ) -> Result<JsonNode<S>, ParseError> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.expected("at most 256 levels"));
        }
        self.at += 1;
        let node = inner(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn list(&mut self) -> Result<JsonNode<S>, ParseError> {
        let mut items = Vec::new_in(self.storage.alloc());
        self.items(b']', "`,` or `]`", |parser| {
            items.push(parser.boxed()?);
            Ok(())
        })?;
        Ok(JsonNode::List(items))
    }

    fn map(&mut self) -> Result<JsonNode<S>, ParseError> {
        let mut members = Vec::new_in(self.storage.alloc());
        self.items(b'}', "`,` or `}`", |parser| {
            parser.blank();
            let key = parser.string()?;
            parser.blank();
            if !parser.eat(b':') {
                return Err(parser.expected("`:`"));
            }
            members.push(Member { key, value: parser.boxed()? });
            Ok(())
        })?;
        Ok(JsonNode::Map(members))
    }

    /// Parses items with commas between them, up to `close`.
    #[inline(always)]
    fn items(
        &mut self,
        close: u8,
        expected: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<(), ParseError>,
    ) -> Result<(), ParseError> {
        self.blank();
        if self.eat(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            self.blank();
            if self.eat(close) {
                return Ok(());
            }
            if !self.eat(b',') {
                return Err(self.expected(expected));
            }
        }
    }

    fn number(&mut self) -> Result<JsonNode<S>, ParseError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = core::str::from_utf8(&self.text[start..self.at]).ok();
        let value = digits.and_then(|digits| digits.parse().ok());
        value.map(JsonNode::Number).ok_or(ParseError { at: start, expected: "a number" })
    }

    /// Parses a string. Copies the part before the first escape in one call, and the rest byte by
    /// byte.
    fn string(&mut self) -> Result<Text<S::Alloc>, ParseError> {
        if !self.eat(b'"') {
            return Err(self.expected("`\"`"));
        }
        let start = self.at;
        let plain = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1F);
        let length = self.text[start..].iter().position(plain).ok_or_else(|| self.expected("`\"`"))?;
        let mut text = Vec::with_capacity_in(length, self.storage.alloc());
        text.extend_from_slice(&self.text[start..start + length]);
        self.at += length;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut text)?;
                }
                None | Some(0..=0x1F) => return Err(self.expected("`\"`")),
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Text<S::Alloc>) -> Result<(), ParseError> {
        let byte = match self.peek() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'u') => {
                self.at += 1;
                return self.unicode(text);
            }
            _ => return Err(self.expected("an escape")),
        };
        text.push(byte);
        self.at += 1;
        Ok(())
    }

    /// Parses the four digits of a `\u` escape, and after the first half of a surrogate pair also
    /// the escape of the second half. Appends the character to `text`.
    fn unicode(&mut self, text: &mut Text<S::Alloc>) -> Result<(), ParseError> {
        let mut code = self.hex()?;
        if (0xD800..0xDC00).contains(&code) && self.text[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.hex()?;
            if !(0xDC00..0xE000).contains(&low) {
                return Err(self.expected("the second half of a surrogate pair"));
            }
            code = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        let symbol = char::from_u32(code).ok_or_else(|| self.expected("a Unicode scalar"))?;
        text.extend_from_slice(symbol.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn hex(&mut self) -> Result<u32, ParseError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            code = code << 4 | digit.ok_or_else(|| self.expected("four hexadecimal digits"))?;
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use allocator_api2::alloc::Global;
    use serde_json::Value;

    use super::super::document::generate;
    use super::*;

    fn same(ours: &JsonNode<Global>, theirs: &Value) -> bool {
        match (ours, theirs) {
            (JsonNode::Null, Value::Null) => true,
            (JsonNode::Bool(a), Value::Bool(b)) => a == b,
            (JsonNode::Number(a), Value::Number(b)) => b.as_f64() == Some(*a),
            (JsonNode::Text(a), Value::String(b)) => a.as_slice() == b.as_bytes(),
            (JsonNode::List(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
            }
            (JsonNode::Map(a), Value::Object(b)) => {
                let found = |m: &Member<Global>| core::str::from_utf8(&m.key).ok().and_then(|key| b.get(key));
                a.len() == b.len() && a.iter().all(|m| found(m).is_some_and(|value| same(&m.value, value)))
            }
            _ => false,
        }
    }

    #[test]
    fn agrees_with_serde_json_on_the_generated_document() {
        let text = generate(1, 200_000);
        let theirs: Value = serde_json::from_slice(&text).expect("the generator writes JSON");
        let ours = parse(&text, Global).expect("the same text");
        assert!(same(&ours, &theirs));
    }

    #[test]
    fn agrees_with_serde_json_on_corner_cases() {
        for text in [
            r#"{}"#,
            r#"[]"#,
            r#" [ 1 , -2.5e3 , 0 , 1E-2, true, false, null ] "#,
            r#""é \u00e9 \ud83d\ude00 \"\\\/\b\f\n\r\t""#,
            r#"{"a":{"b":[[],{},""]},"a b":"x"}"#,
        ] {
            let theirs: Value = serde_json::from_str(text).expect(text);
            assert!(same(&parse(text.as_bytes(), Global).expect(text), &theirs), "{text}");
        }
    }

    #[test]
    fn invalid_json_is_refused_with_its_offset() {
        for (text, at) in [
            ("", 0),
            ("[1,]", 3),
            ("{\"a\" 1}", 5),
            ("[1", 2),
            ("\"a", 1),
            ("\"\\x\"", 2),
            ("1 2", 2),
            ("-", 0),
        ] {
            let error = parse(text.as_bytes(), Global).err().expect(text);
            assert_eq!(error.at, at, "{text}: {error:?}");
        }
        let deep = "[".repeat(300);
        assert_eq!(parse(deep.as_bytes(), Global).err().expect("the parser refuses the depth").at, 256);
    }
}

//! JSON as rt-app's files have it: with comments, trailing commas, keys used more than once and
//! keys without a value. Order and line numbers are kept.

use crate::error::WorkloadError;
use std::path::Path;

/// Objects in objects, at most.
const DEPTH_MAX: u32 = 16;

/// A value and the line on which it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// From 1.
    pub line: usize,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `null`, or a key without a value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Integer(i64),
    /// A text.
    Text(String),
    /// A list.
    Array(Vec<Value>),
    /// Keys with their values, in the file's order.
    Object(Vec<Member>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The line of the key, from 1.
    pub line: usize,
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Value,
}

/// Reads a whole file.
pub fn parse(text: &str, path: &Path) -> Result<Value, WorkloadError> {
    let mut parser = Parser { rest: text, line: 1, path };
    let value = parser.value(0)?;
    parser.space()?;
    match parser.rest.chars().next() {
        None => Ok(value),
        Some(c) => Err(parser.error(format!("{c:?} after the end; remove it"))),
    }
}

struct Parser<'a> {
    rest: &'a str,
    line: usize,
    path: &'a Path,
}

impl<'a> Parser<'a> {
    fn error(&self, what: impl Into<String>) -> WorkloadError {
        WorkloadError::line(self.path, self.line, what)
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.bytes().filter(|&byte| byte == b'\n').count();
        self.rest = rest;
        taken
    }

    /// Skips blanks and comments.
    fn space(&mut self) -> Result<(), WorkloadError> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.advance(blank);
            if self.rest.starts_with("//") {
                self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(self.error("a comment without end; close it with */"));
                };
                self.advance(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    /// Takes a character if it comes next.
    fn take(&mut self, c: char) -> Result<bool, WorkloadError> {
        self.space()?;
        let found = self.rest.starts_with(c);
        if found {
            self.advance(c.len_utf8());
        }
        Ok(found)
    }

    fn value(&mut self, depth: u32) -> Result<Value, WorkloadError> {
        self.space()?;
        let line = self.line;
        if depth > DEPTH_MAX {
            return Err(self.error(format!("nested deeper than {DEPTH_MAX}")));
        }
        let kind = match self.rest.chars().next() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => Kind::Text(self.text()?),
            Some(c) if c.is_ascii_alphanumeric() || c == '-' => self.word()?,
            Some(c) => return Err(self.error(format!("{c:?} where a value belongs"))),
            None => return Err(self.error("the file ends where a value belongs")),
        };
        Ok(Value { line, kind })
    }

    fn object(&mut self, depth: u32) -> Result<Kind, WorkloadError> {
        self.advance(1);
        let mut members = Vec::new();
        while !self.take('}')? {
            let line = self.line;
            if !self.rest.starts_with('"') {
                return Err(self.error("a key in quotes or } belongs here"));
            }
            let key = self.text()?;
            let value = if self.take(':')? {
                self.value(depth + 1)?
            } else {
                Value { line, kind: Kind::Null }
            };
            members.push(Member { line, key, value });
            if !self.take(',')? && !self.rest.starts_with('}') {
                return Err(self.error("a comma or } belongs here"));
            }
        }
        Ok(Kind::Object(members))
    }

    fn array(&mut self, depth: u32) -> Result<Kind, WorkloadError> {
        self.advance(1);
        let mut values = Vec::new();
        while !self.take(']')? {
            values.push(self.value(depth + 1)?);
            if !self.take(',')? && !self.rest.starts_with(']') {
                return Err(self.error("a comma or ] belongs here"));
            }
        }
        Ok(Kind::Array(values))
    }

    /// A text in quotes. Names have no need of escapes, so none is known.
    fn text(&mut self) -> Result<String, WorkloadError> {
        self.advance(1);
        let Some(end) = self.rest.find(['"', '\n', '\\']) else {
            return Err(self.error("a text without end; close it with \""));
        };
        if !self.rest[end..].starts_with('"') {
            return Err(self.error("a text must end on its line and have no backslash"));
        }
        let text = self.advance(end).to_owned();
        self.advance(1);
        Ok(text)
    }

    fn word(&mut self) -> Result<Kind, WorkloadError> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-+._".contains(c));
        let word = &self.rest[..end.unwrap_or(self.rest.len())];
        let kind = match word {
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            "null" => Kind::Null,
            _ => match word.parse() {
                Ok(number) => Kind::Integer(number),
                Err(_) => return Err(self.error(format!("{word} is no whole number"))),
            },
        };
        self.advance(word.len());
        Ok(kind)
    }
}

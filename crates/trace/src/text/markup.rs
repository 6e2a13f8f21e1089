//! Finds the trace inside a systrace or Chrome HTML file.
//!
//! Since 2015 the text stands as it is in `<script class="trace-data" type="application/text">`;
//! before, it was a JavaScript string, `var linuxPerfData = "\` with `\n\` at each line's end.

use super::header::trim_start;
use memchr::{memchr, memmem};

/// Where a line of an HTML file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Outside the trace: markup and the viewer's own program.
    Outside,
    /// After the opening tag, where the first line tells the trace from other data.
    Opening,
    /// Inside the trace text.
    Text,
    /// Inside the JavaScript string.
    Quoted,
    /// Inside other data: Chrome's own JSON, systrace's dumps of processes and control groups.
    Other,
}

/// Follows an HTML file line by line.
pub(super) struct Markup {
    place: Place,
    unescaped: Vec<u8>,
    found: bool,
}

/// What begins a block of data. Chrome's own exporter writes the attributes in this order.
const DATA_TAG: &[u8] = b"<script class=\"trace-data\"";
const DATA_VARIABLE: &[u8] = b"linuxPerfData = \"";

/// True when a file begins like HTML.
pub(super) fn sniff(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
    begins(b"<!doctype html") || begins(b"<html")
}

impl Markup {
    pub(super) fn new() -> Self {
        Self { place: Place::Outside, unescaped: Vec::new(), found: false }
    }

    /// True once a block of trace data was seen.
    pub(super) fn found(&self) -> bool {
        self.found
    }

    /// True outside the trace text, where lines of any length are welcome.
    pub(super) fn is_outside(&self) -> bool {
        !matches!(self.place, Place::Text | Place::Quoted)
    }

    /// The trace's part of a line, or `None` for markup.
    pub(super) fn content<'a>(&'a mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        match self.place {
            Place::Outside => {
                let rest = self.enter(line)?;
                let is_quoted = self.place == Place::Quoted;
                if is_quoted { self.quoted(rest) } else { self.opened(rest) }
            }
            Place::Quoted => self.quoted(line),
            Place::Opening => self.opened(line),
            Place::Text | Place::Other => match memmem::find(line, b"</script>") {
                Some(end) => {
                    let is_text = self.place == Place::Text;
                    self.place = Place::Outside;
                    let rest = &line[..end];
                    (is_text && !trim_start(rest).is_empty()).then_some(rest)
                }
                None => (self.place == Place::Text).then_some(line),
            },
        }
    }

    fn enter<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        if let Some(tag) = memmem::find(line, DATA_TAG) {
            let close = tag + memchr(b'>', &line[tag..])?;
            self.place = Place::Opening;
            return Some(&line[close + 1..]);
        }
        let variable = memmem::find(line, DATA_VARIABLE)?;
        self.place = Place::Quoted;
        self.found = true;
        Some(&line[variable + DATA_VARIABLE.len()..])
    }

    fn opened<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        let text = trim_start(line);
        let is_other = matches!(text.first()?, b'{' | b'[')
            || [&b"PROCESS DUMP"[..], b"CGROUP DUMP"].iter().any(|title| text.starts_with(title));
        if is_other {
            self.place = Place::Other;
        } else {
            self.place = Place::Text;
            self.found = true;
        }
        if let Some(end) = memmem::find(line, b"</script>") {
            let is_text = self.place == Place::Text;
            self.place = Place::Outside;
            return is_text.then_some(&line[..end]);
        }
        (self.place == Place::Text).then_some(line)
    }

    /// Undoes the escapes of one line of a JavaScript string.
    fn quoted(&mut self, line: &[u8]) -> Option<&[u8]> {
        self.unescaped.clear();
        let mut rest = line;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => {
                    self.place = Place::Outside;
                    break;
                }
                b'\\' => {
                    let Some((&escaped, after)) = rest.split_first() else { break };
                    rest = after;
                    match escaped {
                        // The line feed itself is the end of the line that was handed in.
                        b'n' => {}
                        b't' => self.unescaped.push(b'\t'),
                        other => self.unescaped.push(other),
                    }
                }
                other => self.unescaped.push(other),
            }
        }
        (!trim_start(&self.unescaped).is_empty()).then_some(&self.unescaped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(html: &str) -> (Vec<String>, bool) {
        let mut markup = Markup::new();
        let mut seen = Vec::new();
        for line in html.lines() {
            if let Some(content) = markup.content(line.as_bytes()) {
                seen.push(String::from_utf8_lossy(content).into_owned());
            }
        }
        (seen, markup.found())
    }

    #[test]
    fn data_blocks_are_found_and_other_data_is_left_out() {
        let html = "<!DOCTYPE html>\n<script>x</script>\n\
            <script class=\"trace-data\" type=\"application/text\">\n# tracer: nop\nline 1\n  </script>\n\
            <script class=\"trace-data\" type=\"application/text\">\n{\"traceEvents\": []}  </script>\n\
            <script class=\"trace-data\" type=\"application/text\">\nPROCESS DUMP\nroot 1\n</script>\n\
            <script class=\"trace-data\" type=\"application/text\">line 2</script>\n</html>\n";
        assert!(sniff(html.as_bytes()));
        let lines = ["# tracer: nop", "line 1", "line 2"].map(String::from).to_vec();
        assert_eq!(contents(html), (lines, true));
    }

    #[test]
    fn the_old_string_is_unescaped() {
        let html = "<html>\n  var linuxPerfData = \"\\\n# tracer: nop\\n\\\n a\\\\b \\\"c\\\"\\n\\\n\";\n</html>";
        let lines = ["# tracer: nop", " a\\b \"c\""].map(String::from).to_vec();
        assert_eq!(contents(html), (lines, true));
    }

    #[test]
    fn html_without_a_trace_has_none() {
        assert_eq!(contents("<html><script>var x = 1;</script></html>"), (Vec::new(), false));
        assert!(!sniff(b"# tracer: nop"));
        assert!(sniff(b"\xef\xbb\xbf\n<HTML>"));
    }
}

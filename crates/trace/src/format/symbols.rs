//! Addresses to names, from the tables that a trace carries.

/// `/proc/kallsyms` as the trace keeps it. The text is kept as it is and sorted on first use,
/// which a trace without timer events never makes.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    text: Vec<u8>,
    /// Addresses in order, with the place of the name in `text`.
    index: Option<Vec<(u64, u32)>>,
}

impl Symbols {
    /// Longer texts are cut here: all of a distribution kernel with every module loaded takes
    /// some 15 MB.
    pub const TEXT_MAX: usize = 64 << 20;

    /// Takes the text of `/proc/kallsyms`.
    pub fn new(mut text: Vec<u8>) -> Symbols {
        text.truncate(Self::TEXT_MAX);
        Symbols { text, index: None }
    }

    /// Whether there are any symbols.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The name of the function that `address` lies in: the nearest symbol at or below. Of
    /// several symbols at one address the first listed counts, as in libtraceevent.
    pub fn name(&mut self, address: u64) -> Option<&[u8]> {
        let index = self.index.get_or_insert_with(|| index(&self.text));
        let after = index.partition_point(|(start, _)| *start <= address);
        let start = index.get(after.checked_sub(1)?)?.0;
        let first = index.partition_point(|(other, _)| *other < start);
        name_at(&self.text, index.get(first)?.1)
    }
}

fn index(text: &[u8]) -> Vec<(u64, u32)> {
    let mut index = Vec::new();
    let mut line_start = 0_usize;
    for line in text.split(|&byte| byte == b'\n') {
        if let Some((address, name_offset)) = symbol(line) {
            index.push((address, (line_start + name_offset) as u32));
        }
        line_start += line.len() + 1;
    }
    index.sort_by_key(|(address, _)| *address);
    index
}

/// `ADDRESS TYPE NAME [MODULE]`. As libtraceevent does, leaves out absolute symbols (x86 shows
/// per-CPU offsets as such) and the `$` marks of arm.
fn symbol(line: &[u8]) -> Option<(u64, usize)> {
    let space = line.iter().position(|&byte| byte == b' ')?;
    let address = u64::from_str_radix(std::str::from_utf8(&line[..space]).ok()?, 16).ok()?;
    let kind = *line.get(space + 1)?;
    let name_offset = space + 3;
    let name_first = *line.get(name_offset)?;
    (!matches!(kind, b'a' | b'A') && name_first != b'$').then_some((address, name_offset))
}

fn name_at(text: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = text.get(offset as usize..)?;
    let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\t' | b' ' | b'\r'));
    rest.get(..end.unwrap_or(rest.len()))
}

/// `printk_formats`: the constant texts that records point to instead of copying them.
#[derive(Clone, Debug, Default)]
pub struct PrintkFormats {
    /// Sorted by address.
    texts: Vec<(u64, Box<[u8]>)>,
}

impl PrintkFormats {
    /// Reads lines of `0xADDRESS : "TEXT"`.
    pub fn parse(text: &[u8]) -> PrintkFormats {
        let lines = text.split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let address = std::str::from_utf8(&line[..colon]).ok()?.trim();
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).ok()?;
            let shown = line.get(colon + 1..)?.trim_ascii();
            let shown = shown.strip_prefix(b"\"").unwrap_or(shown);
            let shown = shown.strip_suffix(b"\"").unwrap_or(shown);
            let shown = shown.strip_suffix(b"\\n").unwrap_or(shown);
            Some((address, shown.into()))
        });
        let mut texts: Vec<(u64, Box<[u8]>)> = lines.collect();
        texts.sort_by_key(|(address, _)| *address);
        PrintkFormats { texts }
    }

    /// The text at exactly that address.
    pub fn text(&self, address: u64) -> Option<&[u8]> {
        let at = self.texts.binary_search_by_key(&address, |(address, _)| *address).ok()?;
        self.texts.get(at).map(|(_, text)| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_symbol_below() {
        let text =
            b"0000000000000000 A fixed\nffffffff81000000 T _text\nffffffff81000000 T startup\n\
            ffffffff81000100 t tick_nohz_handler\nffffffffc0000000 t helper\t[module]\nbroken\n\
            ffffffff81000180 t $x\n";
        let mut symbols = Symbols::new(text.to_vec());
        assert_eq!(symbols.name(0xffff_ffff_8100_0000), Some(&b"_text"[..]));
        assert_eq!(symbols.name(0xffff_ffff_8100_01ff), Some(&b"tick_nohz_handler"[..]));
        assert_eq!(symbols.name(0xffff_ffff_c000_0004), Some(&b"helper"[..]));
        assert_eq!(symbols.name(5), None);
    }

    #[test]
    fn constant_texts() {
        let formats = PrintkFormats::parse(
            b"0xffff01 : \"Rescheduling interrupts\"\n0x02 : \"x: %d\\n\"\nbad\n",
        );
        assert_eq!(formats.text(0xffff01), Some(&b"Rescheduling interrupts"[..]));
        assert_eq!(formats.text(2), Some(&b"x: %d"[..]));
        assert_eq!(formats.text(3), None);
    }
}

//! What `perf c2c report --stdio` prints: cache lines that CPUs contend for, by offset and function
//! (the table "Shared Cache Line Distribution Pareto"). Versions differ in their columns, and mails
//! quote tables with columns left out; what is there tells which.
//!
//! ```
//! let text = "
//!   -------------------------------------------------------------
//!       0       10       30       20        0  0xff11000000000000
//!   -------------------------------------------------------------
//!    50.00%  100.00%   25.00%    0.00%   0x38     0       1  0xffffffffab344052   900   400   350   60   12  [k] cpupri_set  [kernel.kallsyms]  cpupri.c:200   0
//! ";
//! let table = schedlab_trace::c2c::parse(text);
//! let place = &table.lines[0].places[0];
//! assert_eq!((place.offset, place.symbol.as_str(), place.load_cycles), (0x38, "cpupri_set", Some(350)));
//! ```

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct C2cTable {
    /// Its cache lines, in its order.
    pub lines: Vec<C2cLine>,
    /// Lines of text that begin like a row of the table, but are none: number, from 1, and text.
    pub unread: Vec<(usize, String)>,
}

/// A cache line.
#[derive(Clone, Debug, PartialEq)]
pub struct C2cLine {
    /// Its address.
    pub address: u64,
    /// Loads that hit it modified in another node's cache.
    pub remote_hitm: u64,
    /// The same in a cache of the own node.
    pub local_hitm: u64,
    /// Loads that a peer's cache answered, where the tool counts these.
    pub peer: Option<u64>,
    /// Stores that hit the first-level cache.
    pub stores_l1_hit: u64,
    /// Stores that missed it, where they are told.
    pub stores_l1_miss: Option<u64>,
    /// Stores of which nothing is known, where they are told.
    pub stores_unknown: Option<u64>,
    /// By offset, function and code address.
    pub places: Vec<C2cPlace>,
}

/// A place in a line and the code that touched it.
#[derive(Clone, Debug, PartialEq)]
pub struct C2cPlace {
    /// Share of the line's remote hits, percent.
    pub remote_hitm_pct: f64,
    /// Share of its local hits, percent.
    pub local_hitm_pct: f64,
    /// Share of its stores that hit, percent.
    pub stores_l1_hit_pct: f64,
    /// Share of its stores that missed, percent.
    pub stores_l1_miss_pct: Option<f64>,
    /// Bytes from the line's start, or from that of the first of two lines.
    pub offset: u64,
    /// Where the code is.
    pub code_address: Option<u64>,
    /// Cycles of remote hits, on average; 0 without any.
    pub remote_hitm_cycles: Option<u64>,
    /// Cycles of local hits, on average.
    pub local_hitm_cycles: Option<u64>,
    /// Cycles of other loads, on average.
    pub load_cycles: Option<u64>,
    /// Samples.
    pub records: u64,
    /// CPUs that came.
    pub cpus: Option<u64>,
    /// The function.
    pub symbol: String,
    /// The file that it is in.
    pub object: Option<String>,
}

/// Lines of text that are kept where they cannot be read.
const UNREAD_MAX: usize = 20;

/// Reads every table of a text.
pub fn parse(text: &str) -> C2cTable {
    let mut table = C2cTable::default();
    for (index, line) in text.lines().enumerate() {
        // Mails quote.
        let line = line.trim_start_matches(['>', ' ', '\t']).trim_end();
        if let Some(header) = header(line) {
            table.lines.push(header);
        } else if line.split_ascii_whitespace().next().is_some_and(|word| percent(word).is_some()) {
            match (place(line), table.lines.last_mut()) {
                (Some(place), Some(last)) => last.places.push(place),
                _ if table.unread.len() < UNREAD_MAX => {
                    table.unread.push((index + 1, line.chars().take(200).collect()));
                }
                _ => {}
            }
        }
    }
    table
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

fn percent(word: &str) -> Option<f64> {
    let number = word.strip_suffix('%')?;
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    number.parse().ok().filter(|_| plain)
}

/// A line's counts and its address. All but the shortest form begin with the line's number.
fn header(line: &str) -> Option<C2cLine> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, counts) = words.split_last()?;
    let address = hex(address)?;
    let counts: Option<Vec<u64>> = counts.iter().map(|word| word.parse().ok()).collect();
    let counts = counts?;
    let (peer, hitm, stores) = match *counts.as_slice() {
        [remote, local, hit] => (None, (remote, local), (hit, None, None)),
        [_, remote, local, hit, miss] => (None, (remote, local), (hit, Some(miss), None)),
        [_, remote, local, hit, miss, unknown] => {
            (None, (remote, local), (hit, Some(miss), Some(unknown)))
        }
        [_, remote, local, peer, hit, miss, unknown] => {
            (Some(peer), (remote, local), (hit, Some(miss), Some(unknown)))
        }
        _ => return None,
    };
    Some(C2cLine {
        address,
        remote_hitm: hitm.0,
        local_hitm: hitm.1,
        peer,
        stores_l1_hit: stores.0,
        stores_l1_miss: stores.1,
        stores_unknown: stores.2,
        places: Vec::new(),
    })
}

fn place(line: &str) -> Option<C2cPlace> {
    let mut words = line.split_ascii_whitespace().peekable();
    let mut shares = Vec::new();
    while let Some(share) = words.peek().and_then(|word| percent(word)) {
        shares.push(share);
        words.next();
    }
    // Remote and local hits, those of peers where there are six, then stores.
    let has_peer = shares.len() == 6;
    let stores = if has_peer { 3 } else { 2 };
    let offset = hex(words.next()?)?;
    let mut before = Vec::new();
    let mut code_address = None;
    let mut after = Vec::new();
    while let Some(word) = words.peek() {
        if let (None, Some(address)) = (code_address, hex(word)) {
            code_address = Some(address);
        } else if let Ok(number) = word.parse::<u64>() {
            if code_address.is_some() { after.push(number) } else { before.push(number) }
        } else if *word == "N/A" && code_address.is_none() {
            before.push(0);
        } else {
            break;
        }
        words.next();
    }
    let (cycles, records, cpus) = match (code_address, after.as_slice(), before.as_slice()) {
        (Some(_), [remote, local, load, records, cpus], _) if !has_peer => {
            ((Some(*remote), Some(*local), Some(*load)), *records, Some(*cpus))
        }
        (Some(_), [remote, local, load, _, records, cpus], _) if has_peer => {
            ((Some(*remote), Some(*local), Some(*load)), *records, Some(*cpus))
        }
        // As mails cut it: cycles of loads and records.
        (None, _, [load, records]) => ((None, None, Some(*load)), *records, None),
        _ => return None,
    };
    let (symbol, object) = symbol(line, words.peek()?)?;
    Some(C2cPlace {
        remote_hitm_pct: *shares.first()?,
        local_hitm_pct: *shares.get(1)?,
        stores_l1_hit_pct: *shares.get(stores)?,
        stores_l1_miss_pct: shares.get(stores + 1).copied(),
        offset,
        code_address,
        remote_hitm_cycles: cycles.0,
        local_hitm_cycles: cycles.1,
        load_cycles: cycles.2,
        records,
        cpus,
        symbol,
        object,
    })
}

/// The function behind a mark such as `[k]`, which names may follow that have spaces; two spaces end
/// it. Without a mark it is the word that was found.
fn symbol(line: &str, word: &str) -> Option<(String, Option<String>)> {
    let is_mark = word.len() == 3 && word.starts_with('[') && word.ends_with(']');
    if !is_mark {
        return Some((word.to_owned(), None));
    }
    let from = line.find(&format!("{word} "))? + word.len();
    let mut columns = line[from..].split("  ").map(str::trim).filter(|column| !column.is_empty());
    let symbol = columns.next()?;
    Some((symbol.to_owned(), columns.next().map(str::to_owned)))
}

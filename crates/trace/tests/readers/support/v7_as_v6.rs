//! Turns a version 7 file that is compressed with zstd into an uncompressed version 6 file: the
//! same pages and descriptions in the other arrangement.

/// What the options of a little-endian version 7 file point to.
struct Places {
    sections: Vec<(u16, usize)>,
    cpus: Vec<(usize, usize)>,
}

/// The same trace as version 6, without its options.
pub fn v7_as_v6(file: &[u8]) -> Option<Vec<u8>> {
    let page_bytes = number(file, 14, 4)?;
    let name_end = 18 + file[18..].iter().position(|&byte| byte == 0)? + 1;
    let version_end = name_end + file[name_end..].iter().position(|&byte| byte == 0)? + 1;
    let places = places(file, number(file, version_end, 8)?)?;

    let mut out = b"\x17\x08Dtracing6\0".to_vec();
    out.extend(&file[12..18]);
    for id in 16..=21 {
        let (_, place) = places.sections.iter().find(|(known, _)| *known == id)?;
        let packed = number(file, place + 16, 4)?;
        let length = number(file, place + 20, 4)?;
        let content = file.get(place + 24..place + 24 + packed)?;
        out.extend(zstd::bulk::decompress(content, length).ok()?);
    }
    out.extend((places.cpus.len() as u32).to_le_bytes());
    out.extend(b"options  \0\0\0flyrecord\0");
    let table = out.len();
    out.resize((table + 16 * places.cpus.len()).next_multiple_of(page_bytes), 0);
    for (cpu, (place, length)) in places.cpus.into_iter().enumerate() {
        let start = out.len();
        if length > 0 {
            let mut at = place + 4;
            for _ in 0..number(file, place, 4)? {
                let (packed, length) = (number(file, at, 4)?, number(file, at + 4, 4)?);
                let content = file.get(at + 8..at + 8 + packed)?;
                out.extend(zstd::bulk::decompress(content, length).ok()?);
                at += 8 + packed;
            }
        }
        let place = [start as u64, (out.len() - start) as u64].map(u64::to_le_bytes).concat();
        out[table + cpu * 16..][..16].copy_from_slice(&place);
    }
    Some(out)
}

fn places(file: &[u8], first: usize) -> Option<Places> {
    let mut places = Places { sections: Vec::new(), cpus: Vec::new() };
    let mut next = first;
    while next != 0 {
        let mut at = next + 16;
        loop {
            let (id, length) = (number(file, at, 2)? as u16, number(file, at + 2, 4)?);
            at += 6;
            match id {
                0 => {
                    next = number(file, at, 8)?;
                    break;
                }
                3 => {
                    // Place, empty name, clock, page size, count, then 20 bytes for each CPU.
                    let clock_end = at + 9 + file[at + 9..].iter().position(|&byte| byte == 0)? + 1;
                    for cpu in 0..number(file, clock_end + 4, 4)? {
                        let entry = clock_end + 8 + cpu * 20;
                        places
                            .cpus
                            .push((number(file, entry + 4, 8)?, number(file, entry + 12, 8)?));
                    }
                }
                16..=21 => places.sections.push((id, number(file, at, 8)?)),
                _ => {}
            }
            at += length;
        }
    }
    Some(places)
}

fn number(file: &[u8], at: usize, size: usize) -> Option<usize> {
    let bytes = file.get(at..at + size)?;
    Some(bytes.iter().rev().fold(0, |sum, &byte| (sum << 8) | usize::from(byte)))
}

//! Writes `trace.dat` files of both versions.

use super::ring_buffer::number;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use schedlab_trace::format::Abi;
use std::io::Write;

/// A file to be written.
pub struct DatFile {
    /// 6 or 7.
    pub version: u8,
    pub abi: Abi,
    pub page_bytes: u32,
    /// Version 7: `zstd`, `zlib` or `none`.
    pub compression: &'static str,
    /// Option numbers and data.
    pub options: Vec<(u16, Vec<u8>)>,
    /// System and format text.
    pub formats: Vec<(&'static str, String)>,
    pub kallsyms: &'static str,
    pub printk: &'static str,
    pub task_names: &'static str,
    /// Name and each CPU's pages; the first is the top buffer and has no name.
    pub buffers: Vec<(&'static str, Vec<Vec<u8>>)>,
}

impl DatFile {
    pub fn new(version: u8, abi: Abi) -> DatFile {
        DatFile {
            version,
            abi,
            page_bytes: 4096,
            compression: "none",
            options: Vec::new(),
            formats: super::records::formats(abi),
            kallsyms: "",
            printk: "",
            task_names: "",
            buffers: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"\x17\x08Dtracing".to_vec();
        out.extend([b'0' + self.version, 0, u8::from(self.abi.big_endian), self.abi.long_size]);
        out.extend(self.u32(self.page_bytes));
        if self.version == 6 { self.finish_v6(out) } else { self.finish_v7(out) }
    }

    fn u16(&self, value: u16) -> Vec<u8> {
        number(self.abi, u64::from(value), 2)
    }

    fn u32(&self, value: u32) -> Vec<u8> {
        number(self.abi, u64::from(value), 4)
    }

    fn u64(&self, value: u64) -> Vec<u8> {
        number(self.abi, value, 8)
    }

    fn block64(&self, content: &str) -> Vec<u8> {
        [self.u64(content.len() as u64), content.as_bytes().to_vec()].concat()
    }

    fn block32(&self, content: &str) -> Vec<u8> {
        [self.u32(content.len() as u32), content.as_bytes().to_vec()].concat()
    }

    fn headers(&self) -> Vec<u8> {
        let long = self.abi.long_size;
        let data = 8 + u32::from(long);
        let page = format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{data};\tsize:{};\tsigned:0;\n",
            self.page_bytes - data
        );
        let event = "# compressed entry header\n\ttype_len    :    5 bits\n\
             \ttime_delta  :   27 bits\n\tarray       :   32 bits\n";
        let tags = [b"header_page\0".to_vec(), b"header_event\0".to_vec()];
        [&tags[0][..], &self.block64(&page), &tags[1], &self.block64(event)].concat()
    }

    fn ftrace_formats(&self) -> Vec<u8> {
        self.u32(0)
    }

    fn event_formats(&self) -> Vec<u8> {
        let systems = self.formats.iter().map(|(system, text)| {
            let system = [system.as_bytes(), b"\0"].concat();
            [system, self.u32(1), self.block64(text)].concat()
        });
        [self.u32(self.formats.len() as u32), systems.collect::<Vec<_>>().concat()].concat()
    }

    fn option(&self, id: u16, data: &[u8]) -> Vec<u8> {
        [self.u16(id), self.u32(data.len() as u32), data.to_vec()].concat()
    }

    fn align(&self, out: &mut Vec<u8>) {
        out.resize(out.len().next_multiple_of(self.page_bytes as usize), 0);
    }

    fn finish_v6(&self, mut out: Vec<u8>) -> Vec<u8> {
        out.extend(self.headers());
        out.extend(self.ftrace_formats());
        out.extend(self.event_formats());
        out.extend(self.block32(self.kallsyms));
        out.extend(self.block32(self.printk));
        out.extend(self.block64(self.task_names));
        out.extend(self.u32(self.buffers[0].1.len() as u32));
        out.extend(b"options  \0");
        for (id, data) in &self.options {
            out.extend(self.option(*id, data));
        }
        let mut places = Vec::new();
        for (name, _) in &self.buffers[1..] {
            places.push(out.len() + 6);
            out.extend(self.option(3, &[&[0; 8], name.as_bytes(), b"\0"].concat()));
        }
        out.extend(self.u16(0));
        for (index, (_, cpus)) in self.buffers.iter().enumerate() {
            if index > 0 {
                let place = places[index - 1];
                let offset = self.u64(out.len() as u64);
                out[place..place + 8].copy_from_slice(&offset);
            }
            out.extend(b"flyrecord\0");
            let table = out.len();
            out.resize(table + 16 * cpus.len(), 0);
            // The clock's name, where the options promise it, follows the top buffer's table.
            if index == 0 && self.options.iter().any(|(id, data)| *id == 4 && data.is_empty()) {
                out.extend(self.block64("local [mono]"));
            }
            self.align(&mut out);
            for (cpu, pages) in cpus.iter().enumerate() {
                let place = [self.u64(out.len() as u64), self.u64(pages.len() as u64)].concat();
                out[table + cpu * 16..][..16].copy_from_slice(&place);
                out.extend(pages);
            }
        }
        out
    }

    fn finish_v7(&self, mut out: Vec<u8>) -> Vec<u8> {
        out.extend([self.compression.as_bytes(), b"\x001.0\0"].concat());
        let first_options = out.len();
        out.extend(self.u64(0));
        let mut options = Vec::new();
        for (id, content) in [
            (16, self.headers()),
            (17, self.ftrace_formats()),
            (18, self.event_formats()),
            (19, self.block32(self.kallsyms)),
            (20, self.block32(self.printk)),
            (21, self.block64(self.task_names)),
        ] {
            options.extend(self.option(id, &self.u64(out.len() as u64)));
            out.extend(self.section(id, &content));
        }
        for (id, data) in &self.options {
            options.extend(self.option(*id, data));
        }
        // Two options sections, linked: metadata first, buffers after their data.
        let first = self.u64(out.len() as u64);
        out[first_options..][..8].copy_from_slice(&first);
        options.extend(self.option(0, &self.u64(0)));
        let link = out.len() + 16 + options.len() - 8;
        out.extend([self.section_header(0, 0, options.len()), options].concat());
        let buffers = self.buffers.iter().map(|buffer| self.buffer(buffer, &mut out));
        let buffers = buffers.collect::<Vec<_>>().concat();
        let second = self.u64(out.len() as u64);
        out[link..][..8].copy_from_slice(&second);
        let buffers = [buffers, self.option(0, &self.u64(0))].concat();
        out.extend([self.section_header(0, 0, buffers.len()), buffers].concat());
        out
    }

    fn section_header(&self, id: u16, flags: u16, length: usize) -> Vec<u8> {
        [self.u16(id), self.u16(flags), self.u32(0), self.u64(length as u64)].concat()
    }

    fn section(&self, id: u16, content: &[u8]) -> Vec<u8> {
        if self.compression == "none" {
            return [self.section_header(id, 0, content.len()), content.to_vec()].concat();
        }
        let chunk = self.chunk(content);
        [self.section_header(id, 1, chunk.len()), chunk].concat()
    }

    /// Packed and unpacked length, and the packed bytes.
    fn chunk(&self, content: &[u8]) -> Vec<u8> {
        let packed = match self.compression {
            "zlib" => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(content).expect("writing to memory");
                encoder.finish().expect("writing to memory")
            }
            _ => zstd::bulk::compress(content, 3).expect("writing to memory"),
        };
        [self.u32(packed.len() as u32), self.u32(content.len() as u32), packed].concat()
    }

    /// Appends a buffer's section and gives the option that describes it.
    fn buffer(&self, (name, cpus): &(&str, Vec<Vec<u8>>), out: &mut Vec<u8>) -> Vec<u8> {
        let compressed = self.compression != "none";
        let section = out.len();
        out.extend(self.section_header(3, u16::from(compressed), 0));
        let mut option = [&self.u64(section as u64)[..], name.as_bytes(), b"\0mono\0"].concat();
        option.extend(self.u32(self.page_bytes));
        option.extend(self.u32(cpus.len() as u32));
        for (cpu, pages) in cpus.iter().enumerate() {
            self.align(out);
            let start = out.len();
            if compressed {
                let chunks: Vec<_> = pages.chunks(2 * self.page_bytes as usize).collect();
                out.extend(self.u32(chunks.len() as u32));
                out.extend(chunks.iter().flat_map(|chunk| self.chunk(chunk)));
            } else {
                out.extend(pages);
            }
            // As trace-cmd does, the count of chunks is not part of the length.
            let length = out.len() - start - if compressed { 4 } else { 0 };
            option.extend(self.u32(cpu as u32));
            option.extend(self.u64(start as u64));
            option.extend(self.u64(length as u64));
        }
        let length = self.u64((out.len() - section - 16) as u64);
        out[section + 8..][..8].copy_from_slice(&length);
        self.option(3, &option)
    }
}

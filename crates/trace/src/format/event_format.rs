//! The text of `/sys/kernel/tracing/events/SYSTEM/EVENT/format`.

/// Where a field's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// At the field's offset.
    Fixed,
    /// `__data_loc`: the field holds `length << 16 | offset from the record's start`.
    Data,
    /// `__rel_loc` (5.17 on): the same, with the offset counted from the field's own end.
    Relative,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The C identifier.
    pub name: Box<str>,
    /// The C type as the kernel printed it, without `__data_loc` and array bounds.
    pub type_name: Box<str>,
    /// Bytes from the record's start.
    pub offset: u32,
    /// Bytes; the kernel's word. (The bound in the declaration may lie: some old kernels print
    /// `char comm[32]` for 16 bytes.)
    pub size: u32,
    /// Whether the number is signed.
    pub signed: bool,
    /// Where the bytes are.
    pub location: Location,
}

/// One event type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The tracepoint's system, such as `sched`.
    pub system: Box<str>,
    /// The tracepoint's name, such as `sched_switch`.
    pub name: Box<str>,
    /// The number that records carry in `common_type`.
    pub id: u32,
    /// All fields, the `common_` ones first, as listed.
    pub fields: Vec<Field>,
    /// What follows `print fmt:`.
    pub print_fmt: Box<str>,
}

/// Why a format text is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// No `name:` line.
    #[error("the event format has no `name:` line")]
    NoName,
    /// No `ID:` line with a number.
    #[error("the event format has no `ID:` line")]
    NoId,
}

impl EventFormat {
    /// Reads a format text. Fields that cannot be understood are left out, so that events which
    /// do not need them still decode.
    ///
    /// # Errors
    /// When the name or the number is missing.
    pub fn parse(system: &str, text: &str) -> Result<EventFormat, FormatError> {
        let mut name = None;
        let mut id = None;
        let mut fields = Vec::new();
        let mut print_fmt = "";
        for line in text.lines() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id = rest.trim().parse().ok();
            } else if line.starts_with("field") {
                fields.extend(Field::parse(line));
            } else if let Some(rest) = line.strip_prefix("print fmt:") {
                print_fmt = rest.trim();
            }
        }
        Ok(EventFormat {
            system: system.into(),
            name: name.filter(|name| !name.is_empty()).ok_or(FormatError::NoName)?.into(),
            id: id.ok_or(FormatError::NoId)?,
            fields,
            print_fmt: print_fmt.into(),
        })
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }

    /// The first field that bears one of the names, in the order of the names.
    pub fn field_of(&self, names: &[&str]) -> Option<&Field> {
        names.iter().find_map(|name| self.field(name))
    }
}

impl Field {
    /// `field:TYPE NAME[N];\toffset:O;\tsize:S;\tsigned:B;` (`field special:` in old ftrace events).
    fn parse(line: &str) -> Option<Field> {
        let mut parts = line.split(';').map(str::trim);
        let (_, declaration) = parts.next()?.split_once(':')?;
        let (mut offset, mut size, mut signed) = (None, None, None);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", number)) => offset = number.trim().parse().ok(),
                Some(("size", number)) => size = number.trim().parse().ok(),
                Some(("signed", number)) => signed = Some(number.trim() != "0"),
                _ => {}
            }
        }
        let declaration = declaration.trim();
        let (location, declaration) = match declaration.split_once(' ') {
            Some(("__data_loc", rest)) => (Location::Data, rest.trim()),
            Some(("__rel_loc", rest)) => (Location::Relative, rest.trim()),
            _ => (Location::Fixed, declaration),
        };
        let unbounded = declaration.split('[').next().unwrap_or(declaration).trim_end();
        let (type_name, name) = if location == Location::Fixed {
            unbounded.rsplit_once([' ', '*'])?
        } else {
            let (_, name) = declaration.rsplit_once([' ', '*', ']'])?;
            (unbounded, name)
        };
        Some(Field {
            name: name.trim().into(),
            type_name: type_name.trim().into(),
            offset: offset?,
            size: size?,
            signed: signed.unwrap_or_else(|| is_signed_type(type_name.trim())),
            location,
        })
    }
}

/// Kernels before 2.6.32 do not print `signed:`.
fn is_signed_type(type_name: &str) -> bool {
    let first = type_name.split(' ').next().unwrap_or("");
    matches!(first, "int" | "long" | "short" | "s8" | "s16" | "s32" | "s64" | "pid_t" | "ssize_t")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(line: &str) -> Field {
        Field::parse(line).expect("a valid line")
    }

    #[test]
    fn old_kernels_print_a_wrong_bound() {
        let comm = field("\tfield:char prev_comm[32];\toffset:8;\tsize:16;\tsigned:0;".trim());
        assert_eq!((&*comm.name, &*comm.type_name), ("prev_comm", "char"));
        assert_eq!((comm.offset, comm.size, comm.signed), (8, 16, false));
        assert_eq!(comm.location, Location::Fixed);
    }

    #[test]
    fn dynamic_fields() {
        let filename = field("field:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!((&*filename.name, filename.location), ("filename", Location::Data));
        let mask = field("field:__data_loc cpumask_t cpumask;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!((&*mask.name, &*mask.type_name), ("cpumask", "cpumask_t cpumask"));
        let relative = field("field:__rel_loc char[] msg;\toffset:12;\tsize:4;\tsigned:0;");
        assert_eq!((&*relative.name, relative.location), ("msg", Location::Relative));
    }

    #[test]
    fn pointers_and_unsigned_words() {
        let reason = field("field:const char * reason;\toffset:8;\tsize:8;\tsigned:0;");
        assert_eq!((&*reason.name, &*reason.type_name), ("reason", "const char *"));
        let tight = field("field:void *timer;\toffset:8;\tsize:8;\tsigned:0;");
        assert_eq!(&*tight.name, "timer");
        assert!(field("field:int x;\toffset:0;\tsize:4;").signed);
        assert!(!field("field:unsigned int x;\toffset:0;\tsize:4;").signed);
    }

    #[test]
    fn a_format_needs_name_and_number() {
        assert_eq!(EventFormat::parse("s", "ID: 3\n"), Err(FormatError::NoName));
        assert_eq!(EventFormat::parse("s", "name: x\nID: \n"), Err(FormatError::NoId));
    }
}

//! YAML as a tree of texts: tags are passed over, aliases stay unexpanded (LISA's energy models
//! are cyclic), so that the tree is never larger than its text.

use saphyr_parser::{Event, Parser};

/// Nesting beyond this is no description of a machine.
const DEPTH_MAX: usize = 128;

/// A node of a YAML document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Yaml {
    /// A scalar, whatever its type, or an alias, which is empty.
    Scalar(String),
    /// A sequence.
    List(Vec<Yaml>),
    /// A mapping in its order.
    Map(Vec<(Yaml, Yaml)>),
}

impl Yaml {
    /// Reads the first document of `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut open: Vec<Open> = Vec::new();
        for event in Parser::new_from_str(text) {
            let (event, _) = event.map_err(|error| {
                let place = error.marker();
                format!("line {}: {}", place.line(), error.info())
            })?;
            let done = match event {
                Event::Scalar(value, ..) => Self::Scalar(value.into_owned()),
                Event::Alias(_) => Self::Scalar(String::new()),
                Event::SequenceStart(..) => {
                    open.push(Open::List(Vec::new()));
                    Self::check_depth(&open)?;
                    continue;
                }
                Event::MappingStart(..) => {
                    open.push(Open::Map(Vec::new(), None));
                    Self::check_depth(&open)?;
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                    Some(Open::List(items)) => Self::List(items),
                    Some(Open::Map(pairs, _)) => Self::Map(pairs),
                    None => continue,
                },
                _ => continue,
            };
            match open.last_mut() {
                None => return Ok(done),
                Some(Open::List(items)) => items.push(done),
                Some(Open::Map(pairs, key)) => match key.take() {
                    None => *key = Some(done),
                    Some(key) => pairs.push((key, done)),
                },
            }
        }
        Err("no YAML document".to_owned())
    }

    fn check_depth(open: &[Open]) -> Result<(), String> {
        if open.len() > DEPTH_MAX {
            return Err(format!("YAML nested more than {DEPTH_MAX} deep"));
        }
        Ok(())
    }

    /// The value of `key` in a mapping.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.pairs().iter().find(|(known, _)| known.text() == key).map(|(_, value)| value)
    }

    /// The value at the end of a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// A scalar's text, else nothing.
    pub fn text(&self) -> &str {
        match self {
            Self::Scalar(text) => text,
            _ => "",
        }
    }

    /// A scalar that is a number.
    pub fn number<T: std::str::FromStr>(&self) -> Option<T> {
        self.text().trim().parse().ok()
    }

    /// A sequence's items, else none.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// A mapping's pairs, else none.
    pub fn pairs(&self) -> &[(Self, Self)] {
        match self {
            Self::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// The pairs of a mapping, or of a list of one-pair mappings, as `!!omap` has it.
    pub fn ordered_pairs(&self) -> Vec<(&Self, &Self)> {
        let lists = self.items().iter().flat_map(Self::pairs);
        self.pairs().iter().chain(lists).map(|(key, value)| (key, value)).collect()
    }
}

enum Open {
    List(Vec<Yaml>),
    Map(Vec<(Yaml, Yaml)>, Option<Yaml>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_cycles_are_passed_over() {
        let text = "a: &x !!python/tuple\n- 1\n- !!omap\n  - 5: {c: *x}\nb: 2\n";
        let tree = Yaml::parse(text).unwrap();
        assert_eq!(tree.get("b").and_then(Yaml::number::<u32>), Some(2));
        let list = tree.get("a").unwrap().items();
        assert_eq!(list[0].text(), "1");
        assert_eq!(list[1].ordered_pairs()[0].0.text(), "5");
    }

    #[test]
    fn bombs_and_rubbish_are_errors() {
        assert!(Yaml::parse(&"[".repeat(100_000)).is_err());
        assert!(Yaml::parse("").is_err());
        assert!(Yaml::parse("a: [1, 2").is_err());
    }
}

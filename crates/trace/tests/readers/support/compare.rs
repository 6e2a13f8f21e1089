//! Events of two readers, side by side.

use super::Contents;
use schedlab_trace::{Event, StrId};

/// An event with its texts in place of their numbers, which differ from reader to reader.
pub fn shown(event: &Event, contents: &Contents) -> String {
    let mut text = format!("{event:?}");
    while let Some(start) = text.find("StrId(") {
        let end = start + text[start..].find(')').unwrap();
        let id = StrId(text[start + 6..end].parse().unwrap());
        text.replace_range(start..=end, &format!("{:?}", contents.strings.get(id)));
    }
    text
}

/// Fails at the first event in which the two differ.
pub fn assert_same_events(mine: &Contents, theirs: &Contents) {
    for (index, (a, b)) in mine.events.iter().zip(&theirs.events).enumerate() {
        assert_eq!(shown(a, mine), shown(b, theirs), "event {index}");
    }
    assert_eq!(mine.events.len(), theirs.events.len());
}

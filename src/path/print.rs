//! The one canonical form: what must be escaped, and how.

use super::Marker;

pub(super) fn marker(marker: Option<Marker>, out: &mut String) {
    let Some(marker) = marker else { return };
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(match marker {
        Marker::Keys => "#keys",
        Marker::Order => "#order",
    });
}

pub(super) fn key(key: &str, axis: bool, out: &mut String) {
    if key.is_empty() {
        out.push_str("\\e");
        return;
    }
    text(key, axis, true, out);
}

/// A prefix is followed by `*`, so a space at its end is not at the edge.
pub(super) fn prefix(prefix: &str, axis: bool, out: &mut String) {
    text(prefix, axis, false, out);
}

fn text(plain: &str, axis: bool, edge_after: bool, out: &mut String) {
    let last = plain.chars().count().saturating_sub(1);
    for (index, c) in plain.chars().enumerate() {
        let edge = index == 0 || (edge_after && index == last);
        let special = matches!(c, '.' | '@' | '*' | '\\')
            || (axis && matches!(c, '+' | '='))
            || (!axis && index == 0 && c == '#');
        if special {
            out.push('\\');
            out.push(c);
        } else if c.is_control() || is_bidi(c) || (edge && c.is_whitespace()) {
            out.push_str("\\u{");
            out.push_str(&format!("{:x}", u32::from(c)));
            out.push('}');
        } else {
            out.push(c);
        }
    }
}

/// Characters that reorder the text around them (Unicode TR 9): printed as escapes so that what is read is what is meant.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

//! Paths as the procedures compare them: items by range and axes, open patterns as regular expressions.

use crate::path::{AxisMatch, Path, Pattern, Segment, Tail};

/// One key of a path as written: escapes count as one character each.
const KEY: &str = r"(?:[^.@\\]|\\.)";
/// One axis of a path as written.
const AXIS: &str = r"[^+=@\\]+=(?:[^+\\]|\\.)*";

/// The keys of an item as written, and a LIKE over its axes (`None` when it names none), as `fl_apply` wants them.
pub(super) fn item(path: &Path) -> (String, Option<String>) {
    let keys = keys_text(path);
    if path.axes().is_empty() {
        return (keys, None);
    }
    let mut like = "%".to_owned();
    for (name, value) in path.axes() {
        like.push('+');
        for c in plain_axes(&axis_text(name, value)).chars() {
            if matches!(c, '%' | '_' | '!') {
                like.push('!');
            }
            like.push(c);
        }
        like.push_str("+%");
    }
    (keys, Some(like))
}

/// The axes of a path between and around doubled plus signs, as the procedures take them out of a stored path.
pub(super) fn axes(path: &Path) -> String {
    let mut text = "+".to_owned();
    for (index, (name, value)) in path.axes().iter().enumerate() {
        if index > 0 {
            text.push_str("++");
        }
        text.push_str(&plain_axes(&axis_text(name, value)));
    }
    text.push('+');
    text
}

pub(super) fn keys_text(path: &Path) -> String {
    Path::from_parts(path.keys().to_vec(), path.marker(), Vec::new()).to_string()
}

/// Escaped backslashes, ats and pluses get names of their own, so that a plus is always one between axes.
fn plain_axes(text: &str) -> String {
    text.replace(r"\\", r"\s").replace(r"\@", r"\a").replace(r"\+", r"\p")
}

/// `name=value` as written.
fn axis_text(name: &str, value: &str) -> String {
    let path = Path::from_parts(vec!["k".into()], None, vec![(name.into(), value.into())]);
    path.as_str().strip_prefix("k@").unwrap_or_default().to_owned()
}

fn key_text(key: &str) -> String {
    Path::from_parts(vec![key.into()], None, Vec::new()).to_string()
}

/// What a text begins with as written, when more follows.
fn begun(whole: String) -> String {
    whole.strip_suffix('x').unwrap_or(&whole).to_owned()
}

/// Matches exactly the paths, as written, that the pattern covers.
pub(super) fn regular(pattern: &Pattern) -> String {
    let mut regex = "(?s)^".to_owned();
    for (index, segment) in pattern.segments().iter().enumerate() {
        if index > 0 {
            regex.push_str(r"\.");
        }
        match segment {
            Segment::Key(key) => regex.push_str(&literal(&key_text(key))),
            Segment::Prefix(prefix) => {
                let whole = literal(&key_text(prefix));
                let begun = literal(&begun(key_text(&format!("{prefix}x"))));
                // A blank at the end of a key is written as an escape, inside of a key it is not.
                regex.push_str(&format!("(?:{begun}{KEY}*|{whole})"));
            }
            // A key that begins with `#` is written with a backslash: what begins without is a marker.
            Segment::Any => regex.push_str(&format!("(?!#){KEY}+")),
        }
    }
    match pattern.tail() {
        Tail::Marker(_) => {
            let text = pattern.as_str();
            let keys = text.split('@').next().unwrap_or_default();
            let marker = if keys.ends_with("#keys") { "#keys" } else { "#order" };
            regex.push_str(if pattern.segments().is_empty() { "" } else { r"\." });
            regex.push_str(marker);
        }
        Tail::Subtree if pattern.segments().is_empty() => {
            regex.push_str(&format!("{KEY}+(?:\\.{KEY}+)*"))
        }
        Tail::Node | Tail::Subtree => regex.push_str(&format!("(?:\\.{KEY}+)*")),
    }
    if pattern.axes().is_empty() {
        regex.push_str("(?:@.*)?");
    } else {
        regex.push_str(&format!("@(?:{AXIS}\\+)*"));
        for (index, (name, value)) in pattern.axes().iter().enumerate() {
            if index > 0 {
                regex.push_str(&format!("(?:\\+{AXIS})*\\+"));
            }
            regex.push_str(&axis(name, value));
        }
        regex.push_str(&format!("(?:\\+{AXIS})*"));
    }
    regex.push_str(r"\z");
    regex
}

fn axis(name: &str, value: &AxisMatch) -> String {
    let rest = r"(?:[^+\\]|\\.)*";
    match value {
        AxisMatch::Any => format!("{}={rest}", literal(name)),
        AxisMatch::Exact(value) => literal(&axis_text(name, value)),
        AxisMatch::Prefix(prefix) => {
            let whole = literal(&axis_text(name, prefix));
            let begun = literal(&begun(axis_text(name, &format!("{prefix}x"))));
            format!("(?:{begun}{rest}|{whole})")
        }
    }
}

/// The text itself, whatever its characters mean in a regular expression.
fn literal(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_alphanumeric() && c.is_ascii() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_axes_are_written_as_the_procedures_compare_them() {
        let of = |text: &str| item(&Path::parse(text).unwrap());

        assert_eq!(of("gallery.a"), ("gallery.a".to_owned(), None));
        let (keys, like) = of(r"gallery.a\.b@channel=we%b+locale=d\+e");
        assert_eq!(keys, r"gallery.a\.b");
        assert_eq!(like.as_deref(), Some(r"%+channel=we!%b+%+locale=d\pe+%"));
        let path = Path::parse(r"a@channel=web+locale=d\+e").unwrap();
        assert_eq!(axes(&path), r"+channel=web++locale=d\pe+");
        assert_eq!(axes(&Path::parse("a").unwrap()), "++");
    }
}

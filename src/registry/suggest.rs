//! "Did you mean": the known word nearest to an unknown one.

/// Words longer than this are not compared: nobody mistypes them into a known one.
const WORD_CHARS_MAX: usize = 64;
/// Most words a help line lists.
const KNOWN_MAX: usize = 20;

/// The candidate that is a typing mistake away, if there is one. The first of equally near ones wins.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> =
        word.chars().take(WORD_CHARS_MAX + 1).flat_map(char::to_lowercase).collect();
    if typed.is_empty() || typed.len() > WORD_CHARS_MAX {
        return None;
    }
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let known: Vec<char> =
            candidate.chars().take(WORD_CHARS_MAX).flat_map(char::to_lowercase).collect();
        // A third of the word may be wrong; a word of one or two letters only in its case.
        let allowed = typed.len().max(known.len()) / 3;
        if typed.len().abs_diff(known.len()) > allowed {
            continue;
        }
        let distance = distance(&typed, &known);
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// ``did you mean `x`?``, or nothing.
#[must_use]
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// The help line for an unknown word: the nearest known one, else all of them.
pub(crate) fn or_known<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    if let Some(help) = did_you_mean(word, candidates.clone()) {
        return help;
    }
    let known: Vec<String> =
        candidates.into_iter().take(KNOWN_MAX).map(|word| format!("`{word}`")).collect();
    if known.is_empty() { String::new() } else { format!("known: {}", known.join(", ")) }
}

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous_a = None;
    for (row, x) in a.iter().enumerate() {
        let mut current = Vec::with_capacity(b.len() + 1);
        current.push(row + 1);
        let mut previous_b = None;
        for (column, y) in b.iter().enumerate() {
            let at =
                |line: &[usize], column: usize| line.get(column).copied().unwrap_or(usize::MAX - 1);
            let mut least = (at(&last, column) + usize::from(x != y))
                .min(at(&last, column + 1) + 1)
                .min(at(&current, column) + 1);
            if column > 0 && previous_a == Some(*y) && previous_b == Some(*x) {
                least = least.min(at(&before, column - 1) + 1);
            }
            current.push(least);
            previous_b = Some(*y);
        }
        previous_a = Some(*x);
        before = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_mistake_finds_its_word_and_another_word_does_not() {
        let known = ["editor_owned", "system_owned", "fields", "writers", "lease", "set_merge"];
        for (typed, expected) in [
            ("editor_onwed", Some("editor_owned")),
            ("Editor_Owned", Some("editor_owned")),
            ("field", Some("fields")),
            ("writer", Some("writers")),
            ("leased", Some("lease")),
            ("set_merg", Some("set_merge")),
            ("owner", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
    }
}

//! Names that a person cannot tell apart: they differ only in case, or in letters of other scripts that look alike.

use std::{collections::HashMap, hash::Hasher};

use super::{extends::Draft, raw::RawRegistry, resolve::Findings};
use crate::{
    diagnostic::{Span, Spanned},
    path::{Pattern, Segment},
};

/// Refuses entity types and groups that differ only in case.
pub(crate) fn names<'r>(
    what: &str,
    names: impl Iterator<Item = (&'r str, Span)>,
    findings: &mut Findings,
) {
    let mut seen: HashMap<String, (&str, Span)> = HashMap::new();
    for (name, span) in names {
        let first = *seen.entry(name.to_lowercase()).or_insert((name, span));
        if first.0 != name {
            let message = format!("the {what} `{name}` and `{}` differ only in case", first.0);
            let note = (first.1, "first here".to_owned());
            findings.note("case_twins", span, message, "give one of them another name", note);
        }
    }
}

/// Refuses entity types that differ only in case.
pub(crate) fn entities(raw: &RawRegistry, findings: &mut Findings) {
    let types = raw.entities.iter().map(|entity| (entity.name.value.as_str(), entity.name.span));
    names("entity types", types, findings);
}

/// Refuses fields that look like another field, and says which paths are not in composed form.
pub(crate) fn fields(draft: &Draft<'_>, findings: &mut Findings) {
    let groups = draft.groups.iter().map(|group| (group.name.value.as_str(), group.name.span));
    names("groups", groups, findings);
    let mut seen: Seen<'_> = HashMap::with_capacity(draft.rules.len());
    for rule in &draft.rules {
        let pattern = rule.pattern;
        if !pattern.value.as_str().is_ascii() && !lone(&pattern.value, pattern.span, findings) {
            continue;
        }
        twin(pattern, &mut seen, findings);
    }
}

/// The first pattern with some keys, by a hash of what they look like.
type Seen<'r> = HashMap<u64, &'r Spanned<Pattern>>;

/// Compares every key with those that stand at the same place of other patterns.
fn twin<'r>(pattern: &'r Spanned<Pattern>, seen: &mut Seen<'r>, findings: &mut Findings) {
    let mut looks = std::hash::DefaultHasher::new();
    for (depth, segment) in pattern.value.segments().iter().enumerate() {
        look(segment).for_each(|c| looks.write_u32(u32::from(c)));
        looks.write_u8(0xff);
        let first = *seen.entry(looks.finish()).or_insert(pattern);
        let (own, other) = (pattern.value.segments(), first.value.segments());
        let Some(twin) = other.get(depth) else { return };
        if own.get(..depth) != other.get(..depth)
            || segment == twin
            || !look(segment).eq(look(twin))
        {
            continue;
        }
        let (code, how) = if written(segment).to_lowercase() == written(twin).to_lowercase() {
            ("case_twins", "differ only in case")
        } else {
            ("homoglyph", "look alike but are not the same letters")
        };
        let message = format!("`{}` and `{}` {how}", written(segment), written(twin));
        let help = "keys are compared byte for byte: write one of them";
        findings.note(code, pattern.span, message, help, (first.span, "first here".to_owned()));
        return;
    }
}

/// The letters of a step as a reader sees them: lower case, letters that look Latin replaced by the Latin ones.
fn look(segment: &Segment) -> impl Iterator<Item = char> + '_ {
    let (key, star) = match segment {
        Segment::Key(key) => (&**key, None),
        Segment::Prefix(prefix) => (&**prefix, Some('*')),
        Segment::Any => ("", Some('*')),
    };
    let letters = key.chars().map(|c| look_alike(c).unwrap_or(c)).flat_map(char::to_lowercase);
    // A star that is a key's own letter is not the wildcard.
    letters.map(|c| if c == '*' { '\0' } else { c }).chain(star)
}

fn written(segment: &Segment) -> String {
    match segment {
        Segment::Key(key) => key.escape_debug().to_string(),
        Segment::Prefix(prefix) => format!("{}*", prefix.escape_debug()),
        Segment::Any => "*".to_owned(),
    }
}

/// Faults of one pattern by itself; `false` when its letters cannot be trusted.
fn lone(pattern: &Pattern, span: Span, findings: &mut Findings) -> bool {
    let keys = pattern.segments().iter().filter_map(|segment| match segment {
        Segment::Key(key) | Segment::Prefix(key) => Some(&**key),
        Segment::Any => None,
    });
    for key in keys {
        let latin = key.chars().any(|c| c.is_ascii_alphabetic());
        if let Some(odd) = key.chars().find(|c| latin && look_alike(*c).is_some()) {
            let like = look_alike(odd).unwrap_or(odd);
            let message = format!(
                "`{key}` has a letter U+{:04X} of another script that looks like `{like}`",
                u32::from(odd)
            );
            findings.error("homoglyph", span, message, "write the whole key in one script");
            return false;
        }
        if let Some(mark) = decomposed(key) {
            let message = format!(
                "`{key}` is not in composed form: U+{:04X} stands by itself",
                u32::from(mark)
            );
            let help = "paths are compared byte for byte: write the composed letter (Unicode NFC)";
            findings.warning("not_nfc", span, message, help);
        }
    }
    true
}

/// The Latin letter that a Cyrillic or Greek letter, or a full-width form, cannot be told from.
fn look_alike(c: char) -> Option<char> {
    const PAIRS: &str = "\
        \u{430}a\u{435}e\u{43e}o\u{440}p\u{441}c\u{443}y\u{445}x\u{455}s\u{456}i\u{458}j\u{4bb}h\u{501}d\u{51b}q\u{51d}w\
        \u{410}A\u{412}B\u{415}E\u{41a}K\u{41c}M\u{41d}H\u{41e}O\u{420}P\u{421}C\u{422}T\u{423}Y\u{425}X\u{405}S\u{406}I\u{408}J\
        \u{3bf}o\u{3bd}v\u{391}A\u{392}B\u{395}E\u{396}Z\u{397}H\u{399}I\u{39a}K\u{39c}M\u{39d}N\u{39f}O\u{3a1}P\u{3a4}T\u{3a5}Y\u{3a7}X";
    if c.is_ascii() {
        return None;
    }
    if let '\u{ff01}'..='\u{ff5e}' = c {
        return char::from_u32(u32::from(c) - 0xfee0);
    }
    let mut pairs = PAIRS.chars();
    while let (Some(odd), Some(latin)) = (pairs.next(), pairs.next()) {
        if odd == c {
            return Some(latin);
        }
    }
    None
}

/// A combining mark behind a letter that has a composed form with it: the text is not NFC. Covers Latin letters.
fn decomposed(key: &str) -> Option<char> {
    const FORMS: [(char, &str); 12] = [
        ('\u{300}', "AEINOUWYaeinouwy"),
        ('\u{301}', "ACEGIKLMNOPRSUWYZacegiklmnoprsuwyz"),
        ('\u{302}', "ACEGHIJOSUWYZaceghijosuwyz"),
        ('\u{303}', "AEINOUVYaeinouvy"),
        ('\u{304}', "AEGIOUYaegiouy"),
        ('\u{306}', "AEGIOUaegiou"),
        ('\u{307}', "ABCDEFGHIMNOPRSTWXYZabcdefghmnoprstwxyz"),
        ('\u{308}', "AEHIOUWXYaehiotuwxy"),
        ('\u{30a}', "AUauwy"),
        ('\u{30c}', "ACDEGHIKLNORSTUZacdeghijklnorstuz"),
        ('\u{327}', "CDEGHKLNRSTcdeghklnrst"),
        ('\u{328}', "AEIOUaeiou"),
    ];
    let mut before = None;
    for c in key.chars() {
        let bases = FORMS.iter().find(|(mark, _)| *mark == c).map_or("", |(_, bases)| bases);
        if before.is_some_and(|base| bases.contains(base)) {
            return Some(c);
        }
        before = Some(c);
    }
    None
}

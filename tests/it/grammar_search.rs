//! Search: the grammar's answers against the definition, on every small path.
//!
//! The oracle below knows only what a pattern covers, written down once more from the definition, and compares sets
//! of paths. Seeds are fixed; `FIELDLEASE_LONG=1` searches about twenty times as much.

use std::collections::HashSet;

use fieldlease::{
    diagnostic::{Level, Span, Spanned},
    path::{AxisMatch, Marker, Path, Pattern, Segment, Tail},
    registry::{
        self, Owner, covers, inside, meet,
        raw::{RawEntity, RawGroup, RawHistory, RawRegistry, RawShared},
    },
    strategy::Strategies,
};

const KEYS: [&str; 6] = ["a", "b", "ab", "ax", "abx", "z"];
const L: [Option<&str>; 5] = [None, Some("d"), Some("de"), Some("dx"), Some("e")];
const C: [Option<&str>; 3] = [None, Some("w"), Some("v")];

/// A number from a fixed sequence (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.roll(list.len())]
    }
}

fn times(short: usize) -> usize {
    if std::env::var_os("FIELDLEASE_LONG").is_some() { short * 20 } else { short }
}

/// Every path of at most three keys or two keys and a marker, on every combination of axis values.
fn universe() -> Vec<Path> {
    let mut nodes: Vec<Vec<&str>> = vec![vec![]];
    for depth in 0..3 {
        let above: Vec<Vec<&str>> = nodes.iter().filter(|n| n.len() == depth).cloned().collect();
        for node in above {
            nodes.extend(KEYS.iter().map(|key| [node.clone(), vec![*key]].concat()));
        }
    }
    let mut paths = Vec::new();
    for keys in &nodes {
        let markers: &[Option<Marker>] =
            if keys.len() < 3 { &[None, Some(Marker::Keys), Some(Marker::Order)] } else { &[None] };
        for marker in markers.iter().filter(|marker| !keys.is_empty() || marker.is_some()) {
            for (l, c) in L.iter().flat_map(|l| C.iter().map(move |c| (l, c))) {
                let axes = [("l", l), ("c", c)];
                let axes = axes.iter().filter_map(|(n, v)| v.map(|v| ((*n).into(), v.into())));
                let keys = keys.iter().map(|key| Box::from(*key)).collect();
                paths.push(Path::from_parts(keys, *marker, axes.collect()));
            }
        }
    }
    paths
}

fn pattern(dice: &mut Dice) -> Pattern {
    let steps = ["a", "b", "ab", "a*", "ab*", "*", "*"];
    let depth = dice.roll(4);
    let mut text: Vec<&str> = (0..depth).map(|_| *dice.of(&steps)).collect();
    let ends: &[&str] = match depth {
        0 => &["**", "#keys", "#order"],
        3 => &["", "**"],
        _ => &["", "", "", "", "**", "#keys", "#order"],
    };
    text.extend([*dice.of(ends)].iter().filter(|end| !end.is_empty()));
    let l = *dice.of(&["", "", "", "l", "l=d", "l=d*", "l=de"]);
    let c = *dice.of(&["", "", "", "c", "c=w"]);
    let axes: Vec<&str> = [l, c].into_iter().filter(|axis| !axis.is_empty()).collect();
    let at = if axes.is_empty() { "" } else { "@" };
    Pattern::parse(&format!("{}{at}{}", text.join("."), axes.join("+"))).unwrap()
}

/// The definition: keys match one by one, then comes what lies below; every axis named has a matching value.
fn holds(pattern: &Pattern, path: &Path) -> bool {
    let mut left: Vec<&str> = path.keys().iter().map(|key| &**key).collect();
    for segment in pattern.segments() {
        let matches = |key: &str| match segment {
            Segment::Key(wanted) => key == &**wanted,
            Segment::Prefix(prefix) => key.starts_with(&**prefix),
            Segment::Any => true,
        };
        if left.is_empty() || !matches(left.remove(0)) {
            return false;
        }
    }
    if let Tail::Marker(marker) = pattern.tail()
        && (!left.is_empty() || path.marker() != Some(marker))
    {
        return false;
    }
    pattern.axes().iter().all(|(name, wanted)| {
        path.axes().iter().any(|(axis, value)| {
            axis == name
                && match wanted {
                    AxisMatch::Any => true,
                    AxisMatch::Exact(exact) => exact == value,
                    AxisMatch::Prefix(prefix) => value.starts_with(&**prefix),
                }
        })
    })
}

type Set = Vec<bool>;

fn set(pattern: &Pattern, paths: &[Path]) -> Set {
    paths.iter().map(|path| holds(pattern, path)).collect()
}

fn subset(a: &Set, b: &Set) -> bool {
    a.iter().zip(b).all(|(a, b)| !a || *b)
}

#[test]
fn inside_and_meet_are_what_the_sets_of_paths_say() {
    let paths = universe();
    let mut dice = Dice(1);
    let pool: Vec<(Pattern, Set)> = (0..60)
        .map(|_| pattern(&mut dice))
        .map(|pattern| (pattern.clone(), set(&pattern, &paths)))
        .collect();
    for (pattern, own) in pool.iter().take(20) {
        for (path, expected) in paths.iter().zip(own) {
            assert_eq!(covers(pattern, path), *expected, "{pattern} covers {path}");
        }
    }

    for _ in 0..times(300) {
        let ((p, ps), (q, qs)) = (dice.of(&pool), dice.of(&pool));
        assert_eq!(inside(p, q), subset(ps, qs), "`{p}` inside `{q}`");
        let both: Set = ps.iter().zip(qs).map(|(a, b)| *a && *b).collect();
        match meet(p, q) {
            None => assert!(!both.contains(&true), "`{p}` and `{q}` do meet"),
            Some(met) => assert_eq!(set(&met, &paths), both, "`{p}` meets `{q}` in `{met}`"),
        }
    }
}

fn at<T>(value: T, line: usize) -> Spanned<T> {
    Spanned { value, span: Span { line: line as u32, column: 1, length: 1 } }
}

fn group(owner: Owner, name: &str, plain: bool) -> RawGroup {
    RawGroup {
        owner,
        name: at(name.to_owned(), 1),
        plain,
        fields: Vec::new(),
        writers: None,
        locking: None,
        ttl: None,
        max_hold: None,
        on_busy: None,
        derived_from: None,
        on_stale: None,
        split_by: None,
        history: RawHistory::default(),
    }
}

fn shared(pattern: Spanned<Pattern>) -> RawShared {
    RawShared {
        strategy: Some(at("reject".to_owned(), pattern.span.line as usize)),
        pattern,
        options: Vec::new(),
        group: None,
        locking: None,
        ttl: None,
        max_hold: None,
        on_busy: None,
        history: RawHistory::default(),
    }
}

/// Rules with an outcome each: 0 editor, 1 and 2 system groups, 3 shared.
fn raw(rules: &[(Pattern, usize)]) -> RawRegistry {
    let mut groups = vec![
        group(Owner::Editor, "editor", true),
        group(Owner::System, "m", false),
        group(Owner::System, "n", false),
    ];
    let mut entries = Vec::new();
    for (line, (pattern, outcome)) in rules.iter().enumerate() {
        let pattern = at(pattern.clone(), line + 1);
        match groups.get_mut(*outcome) {
            Some(group) => group.fields.push(pattern),
            None => entries.push(shared(pattern)),
        }
    }
    groups.retain(|group| !group.fields.is_empty());
    let entity = RawEntity {
        name: at("P".to_owned(), 1),
        faulty: false,
        default_owner: None,
        enforcement: None,
        create: None,
        delete: None,
        extends: None,
        drop: Vec::new(),
        axes: None,
        collections: Vec::new(),
        groups,
        shared: entries,
        coupled: Vec::new(),
        history: RawHistory::default(),
        storage: None,
        places: Vec::new(),
        select: None,
    };
    RawRegistry { entities: vec![entity] }
}

fn some_rules(dice: &mut Dice) -> Vec<(Pattern, usize)> {
    let mut rules: Vec<(Pattern, usize)> = Vec::new();
    for _ in 0..2 + dice.roll(5) {
        let pattern = pattern(dice);
        let same =
            |other: &(Pattern, usize)| inside(&pattern, &other.0) && inside(&other.0, &pattern);
        if !rules.iter().any(same) {
            rules.push((pattern, dice.roll(4)));
        }
    }
    rules
}

/// Which rules lie strictly inside which, from the sets alone.
fn beaten(sets: &[Set]) -> Vec<Vec<bool>> {
    let inside = |a: &Set, b: &Set| subset(a, b) && !subset(b, a);
    sets.iter().map(|wide| sets.iter().map(|narrow| inside(narrow, wide)).collect()).collect()
}

/// The outcomes of the innermost rules of a path.
fn innermost(
    index: usize,
    rules: &[(Pattern, usize)],
    sets: &[Set],
    beaten: &[Vec<bool>],
) -> HashSet<usize> {
    let matching: Vec<usize> = (0..rules.len()).filter(|rule| sets[*rule][index]).collect();
    let inner = matching.iter().filter(|rule| !matching.iter().any(|other| beaten[**rule][*other]));
    inner.map(|rule| rules[*rule].1).collect()
}

fn outcome_of(resolved: &registry::Resolved) -> Option<usize> {
    match resolved.group.as_ref()?.name.as_str() {
        "editor" => Some(0),
        "m" => Some(1),
        "n" => Some(2),
        _ => Some(3),
    }
}

#[test]
fn a_crossing_is_reported_when_a_path_has_two_answers_and_only_then() {
    let paths = universe();
    let mut dice = Dice(2);
    let (mut crossed, mut clear) = (0, 0);
    for _ in 0..times(150) {
        let rules = some_rules(&mut dice);
        let sets: Vec<Set> = rules.iter().map(|(pattern, _)| set(pattern, &paths)).collect();
        let beaten = beaten(&sets);
        let answers = (0..paths.len()).map(|index| innermost(index, &rules, &sets, &beaten));
        let expected: Vec<HashSet<usize>> = answers.collect();
        let ambiguous = expected.iter().any(|outcomes| outcomes.len() > 1);

        let (resolved, found) = registry::resolve(&raw(&rules), &Strategies::standard());

        let errors: Vec<&str> =
            found.iter().filter(|d| d.level == Level::Error).map(|d| d.code).collect();
        assert!(errors.iter().all(|code| *code == "ambiguous"), "{rules:?}: {found:#?}");
        assert_eq!(!errors.is_empty(), ambiguous, "{rules:?}: {found:#?}");
        let Some(registry) = resolved else {
            crossed += 1;
            continue;
        };
        clear += 1;
        let entity = registry.entity("P").unwrap();
        for (index, path) in paths.iter().enumerate().skip(dice.roll(3)).step_by(3) {
            match entity.resolve(path) {
                Ok(resolved) => {
                    let got: HashSet<usize> = outcome_of(&resolved).into_iter().collect();
                    assert_eq!(got, expected[index], "{path} under {rules:?}");
                }
                Err(error) => {
                    assert_eq!(error.code, "axis_required");
                    let bare = |pattern: &Pattern| {
                        let keys = pattern.segments().to_vec();
                        let wide = Pattern::from_parts(keys, pattern.tail(), Vec::new());
                        holds(&wide, path) && !holds(pattern, path)
                    };
                    assert!(rules.iter().any(|(p, _)| bare(p)), "{path} under {rules:?}");
                }
            }
        }
    }
    assert!(crossed > 3 && clear > 3, "{crossed} crossed, {clear} clear");
}

#[test]
fn a_path_without_an_axis_its_field_has_never_falls_through() {
    let paths = universe();
    let mut dice = Dice(3);
    for _ in 0..times(30) {
        let rules = some_rules(&mut dice);
        let (Some(registry), _) = registry::resolve(&raw(&rules), &Strategies::standard()) else {
            continue;
        };
        let entity = registry.entity("P").unwrap();
        for path in paths.iter().filter(|path| path.axes().is_empty()) {
            let Ok(resolved) = entity.resolve(path) else { continue };
            let winner = resolved.pattern.as_ref().map(|text| Pattern::parse(text).unwrap());
            for (pattern, _) in rules.iter().filter(|(pattern, _)| !pattern.axes().is_empty()) {
                let keys = pattern.segments().to_vec();
                let wide = Pattern::from_parts(keys, pattern.tail(), Vec::new());
                let narrower =
                    winner.as_ref().is_none_or(|w| inside(&wide, w) && !inside(w, &wide));
                assert!(
                    !(holds(&wide, path) && narrower),
                    "{path} fell through `{pattern}`: {rules:?}"
                );
            }
        }
    }
}

fn text(dice: &mut Dice, signs: &[char], most: usize) -> String {
    (0..dice.roll(most)).map(|_| *dice.of(signs)).collect()
}

#[test]
fn what_is_printed_reads_back_the_same() {
    let signs: Vec<char> =
        "ab.@*#+=\\ \u{20}\u{a0}\t\n\u{202e}\u{301}\u{1f642}\u{df}e{}u".chars().collect();
    let mut dice = Dice(4);
    for _ in 0..times(3_000) {
        let mut segments = Vec::new();
        for _ in 0..1 + dice.roll(3) {
            let word: Box<str> = text(&mut dice, &signs, 5).into();
            segments.push(match dice.roll(4) {
                0 => Segment::Any,
                1 if !word.is_empty() => Segment::Prefix(word),
                _ => Segment::Key(word),
            });
        }
        let tail = *dice.of(&[
            Tail::Node,
            Tail::Node,
            Tail::Subtree,
            Tail::Marker(Marker::Keys),
            Tail::Marker(Marker::Order),
        ]);
        let mut axes: Vec<(Box<str>, AxisMatch)> = Vec::new();
        for name in ["locale", "c_1", "x-y"].iter().take(dice.roll(4)) {
            let word: Box<str> = text(&mut dice, &signs, 5).into();
            let value = match dice.roll(3) {
                0 => AxisMatch::Any,
                1 if !word.is_empty() => AxisMatch::Prefix(word),
                _ => AxisMatch::Exact(word),
            };
            axes.push(((*name).into(), value));
        }
        let pattern = Pattern::from_parts(segments, tail, axes);

        let read = Pattern::parse(pattern.as_str()).unwrap_or_else(|e| panic!("{pattern}: {e:?}"));

        assert_eq!(read, pattern);
        assert_eq!(read.segments(), pattern.segments(), "{pattern}");
        assert_eq!((read.tail(), read.axes()), (pattern.tail(), pattern.axes()), "{pattern}");
        assert!(!pattern.as_str().contains(['\n', '\t', '\u{202e}']));
    }
}

#[test]
fn any_text_is_a_path_or_an_error_with_its_place() {
    let signs: Vec<char> = "ab.@*#+=\\ eu{}20keysord_-:\u{e9}\u{1f642}\u{202e}".chars().collect();
    let mut dice = Dice(5);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..times(20_000) {
        let text = text(&mut dice, &signs, 14);
        let length = text.chars().count();
        for (read, path) in [
            (Pattern::parse(&text).map(|p| p.to_string()), false),
            (Path::parse(&text).map(|p| p.to_string()), true),
        ] {
            match read {
                Ok(printed) => {
                    good += 1;
                    let again = if path {
                        Path::parse(&printed).map(|p| p.to_string())
                    } else {
                        Pattern::parse(&printed).map(|p| p.to_string())
                    };
                    assert_eq!(again.as_deref(), Ok(printed.as_str()), "{text:?}");
                }
                Err(error) => {
                    bad += 1;
                    assert!(error.at <= length && error.length >= 1, "{text:?}: {error:?}");
                    assert!(
                        error.at + error.length <= length.max(error.at + 1),
                        "{text:?}: {error:?}"
                    );
                }
            }
        }
    }
    assert!(good > 500 && bad > 500, "{good} good, {bad} bad");
}

#[test]
fn a_path_is_at_most_as_long_with_its_escapes_as_without() {
    let bidi = "\u{202e}".repeat(80);
    let wide = format!("{bidi}.{bidi}.{bidi}");
    assert_eq!(Pattern::parse(&wide).unwrap_err().code, "path_too_long");
    assert_eq!(Path::parse(&wide).unwrap_err().code, "path_too_long");
    assert!(Path::parse(&bidi).is_ok());
}

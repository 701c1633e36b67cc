//! Faulty registries: what a person reads, byte for byte. `GOLDEN=write` writes the expected texts anew.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fieldlease::{
    diagnostic::{
        Diagnostic, has_errors,
        render::{self, Colour},
    },
    registry::{self, Limits},
    strategy::Strategies,
};

fn data(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder)
}

fn registries(folder: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(data(folder)).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

fn check(bytes: &[u8]) -> (bool, Vec<Diagnostic>) {
    let (registry, found) = registry::load(bytes, &Strategies::standard(), &Limits::default());
    assert_eq!(
        registry.is_none(),
        has_errors(&found),
        "a registry loads exactly when nothing is an error"
    );
    (registry.is_some(), found)
}

fn shown(file: &Path, bytes: &[u8], found: &[Diagnostic]) -> String {
    let name = file.file_name().unwrap().to_str().unwrap();
    render::text(name, &registry::readable(bytes), found, Colour::Never)
}

#[test]
fn every_faulty_registry_says_what_it_said_before() {
    let files: Vec<PathBuf> =
        ["registry", "grammar_faults"].into_iter().flat_map(registries).collect();
    assert!(files.len() >= 57, "{} faulty registries", files.len());
    let mut changed = Vec::new();

    for file in files {
        let bytes = fs::read(&file).unwrap();
        let (_, found) = check(&bytes);
        let text = shown(&file, &bytes, &found);
        assert!(!found.is_empty(), "{} has nothing to say", file.display());
        let golden = file.with_extension("stderr");
        if std::env::var("GOLDEN").as_deref() == Ok("write") {
            fs::write(&golden, &text).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if text != expected {
            changed.push(format!("--- {}\n{expected}\n+++ now\n{text}", golden.display()));
        }
    }

    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

#[test]
fn every_place_lies_in_the_file_and_every_message_has_a_form() {
    for file in ["registry", "grammar_faults"].into_iter().flat_map(registries) {
        let bytes = fs::read(&file).unwrap();
        let text = registry::readable(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        let (_, found) = check(&bytes);

        let mut last = (0, 0);
        for one in &found {
            let place = (one.span.line, one.span.column);
            assert!(place >= last, "{}: file order", file.display());
            last = place;
            let line = lines.get(one.span.line as usize - 1).map_or(0, |line| line.chars().count());
            assert!(one.span.column as usize <= line + 1, "{}: {one:?}", file.display());
            assert!(!one.message.ends_with('.') && !one.message.contains('\n'), "{one:?}");
            assert!(!one.message.starts_with(|c: char| c.is_ascii_uppercase()), "{one:?}");
        }
    }
}

/// Files that are too big or too odd to keep.
#[test]
fn bombs_are_refused_with_their_place() {
    let depth = 50_000;
    let brackets = format!("field_ownership: {}{}\n", "[".repeat(depth), "]".repeat(depth));
    let braces = format!("field_ownership: {}\n", "{a: ".repeat(depth));
    let dashes = format!("{}x\n", "- ".repeat(depth));
    let mut aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        aliases.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let many =
        format!("field_ownership:\n  P:\n    editor_owned:\n{}", "      - *x\n".repeat(5_000));
    let quotes = format!("field_ownership: {}\n", "['a'b, *c, ".repeat(100_000));

    for (text, code, line, column) in [
        (brackets, "too_deep", 1, 51),
        (braces, "too_deep", 1, 142),
        (dashes, "too_deep", 1, 65),
        (aliases, "too_many_nodes", 7, 10),
        (many, "too_many_problems", 1_003, 1),
        (quotes, "too_many_problems", 1, 1),
    ] {
        let (_, found) = check(text.as_bytes());
        let known =
            found.iter().find(|one| one.code == code).map(|one| (one.span.line, one.span.column));
        assert_eq!(known, Some((line, column)), "{code}: {:?}", found.last());
    }
}

#[test]
fn limits_can_be_set() {
    let text = b"field_ownership: {P: {editor_owned: [a, b, c]}}";
    let refused = |limits: Limits| {
        let (raw, found) = registry::read(text, &limits);
        assert!(raw.is_none());
        found[0].code
    };
    let limits = Limits::default();

    assert_eq!(refused(Limits { bytes: 46, ..limits }), "file_too_large");
    assert_eq!(refused(Limits { nodes: 9, ..limits }), "too_many_nodes");
    assert_eq!(refused(Limits { depth: 3, ..limits }), "too_deep");
    assert!(registry::read(text, &Limits { bytes: 47, nodes: 10, depth: 4 }).0.is_some());
}

#[test]
fn other_encodings_are_named() {
    let text = "field_ownership: {}";
    let utf16 = |mark: &[u8], big: bool| -> Vec<u8> {
        let units = text
            .encode_utf16()
            .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() });
        mark.iter().copied().chain(units).collect()
    };
    for (bytes, name) in [
        (utf16(&[0xff, 0xfe], false), "UTF-16"),
        (utf16(&[0xfe, 0xff], true), "UTF-16"),
        (utf16(&[], false), "UTF-16"),
        (utf16(&[], true), "UTF-16"),
        (text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(), "UTF-32"),
    ] {
        let (_, found) = check(&bytes);
        assert_eq!(
            (found[0].code, found[0].message.contains(name)),
            ("not_utf8", true),
            "{}",
            found[0].message
        );
    }
}

#[test]
fn the_registries_of_the_repository_load() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schemas");
    for (name, codes) in [
        ("example.yaml", vec![]),
        ("short.yaml", vec!["no_strategy", "no_strategy", "no_strategy"]),
    ] {
        let (loaded, found) = check(&fs::read(folder.join(name)).unwrap());
        assert!(loaded, "{found:#?}");
        assert_eq!(found.iter().map(|one| one.code).collect::<Vec<_>>(), codes, "{name}");
    }
    let (loaded, found) = check(&fs::read(data("registry_long.yaml")).unwrap());
    assert!(loaded, "{found:#?}");
}

/// What the scan must leave alone.
#[test]
fn sound_yaml_of_every_kind_reads_without_a_fault() {
    for text in [
        "field_ownership:\r\n  P:\r\n    editor_owned:\r\n      - name # a comment\r\n      - 'a b'\r\n",
        "%YAML 1.2\n---\nfield_ownership: {P: {editor_owned: [a]}}\n---\nfield_ownership: {Q: {editor_owned: [a]}}\n...\n",
        "# #keys are the items\nfield_ownership: # x\n  P: {editor_owned: [name,\n    title, # #order\n    'gallery.#keys', \"b.#order\"]}\n",
        "field_ownership:\n  P:\n    editor_owned: &both\n      - a\n  Q: {editor_owned: *both}\n",
        "field_ownership:\n  P:\n    editor_owned:\n    - a\n    -   b\n    - \"x\\\\.y\"\n    - it's\n    - C#\n    - a:b\n    - no\n    - 1.0\n    - C:\\\\\\\\\n",
        "? field_ownership\n: ? P\n  : {editor_owned: [a]}\n",
        "{\"field_ownership\": {\"P\": {\"editor_owned\": [\"a\", \"*.x\", \"#keys\"], \"shared\": {\"s\": \"set_merge\"}}}}",
        "field_ownership:\n  P:\n    editor_owned:\n      - 'name'   # it's 'quoted'\n      - |-\n        *.caption\n      - \"a\n         b\"\n",
        "field_ownership:\n  P: {system_owned: {m: {fields: [a], on_busy: retry 3 backoff 1s..30s}}}\n",
    ] {
        let (_, found) = registry::read(text.as_bytes(), &Limits::default());
        let codes: Vec<_> = found.iter().map(|one| (one.code, one.span, &one.message)).collect();
        assert!(codes.is_empty(), "{text}\n{codes:?}");
    }
}

/// Whatever is in the file: an answer, in file order, with places inside it.
#[test]
fn any_text_is_read_or_refused_with_its_place() {
    use proptest::prelude::*;

    let pieces = [
        "field_ownership:",
        "\n",
        "\n  ",
        "\n    ",
        "\n      ",
        "\r\n",
        "\r",
        "\t",
        "P:",
        "editor_owned:",
        "shared:",
        "storage:",
        "- ",
        "-",
        "? ",
        ": ",
        ":",
        "[",
        "]",
        "{",
        "}",
        ",",
        " ",
        "#",
        "#keys",
        "#order",
        " #keys",
        "*",
        "*a",
        "&a ",
        "&",
        "!",
        "!!str ",
        "!x ",
        "\"",
        "'",
        "\\",
        "\\u",
        "|",
        ">",
        "|-",
        "%",
        "@",
        "`",
        "~",
        "null",
        "<<",
        "---",
        "...",
        "name",
        "a.b",
        "ttl: ",
        "45s",
        "on_busy: ",
        "retry 3 backoff ",
        "1s..2s",
        "places: ",
        "$1",
        "\u{e9}",
        "\u{202e}",
        "\u{1}",
        "\u{feff}",
    ];
    let text = proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..60);
    let start = proptest::sample::select(vec![
        "",
        "field_ownership:\n  P:\n    editor_owned:\n      - ",
        "field_ownership:\n  P:\n    ",
    ]);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(3_000));

    let outcome = runner.run(&(start, text), |(start, text)| {
        let text = start.to_owned() + &text.concat();
        let (_, found) = check(text.as_bytes());
        let shown = registry::readable(text.as_bytes());
        let lines: Vec<usize> = shown
            .replace("\r\n", "\n")
            .split(['\n', '\r'])
            .map(|line| line.chars().count())
            .collect();
        for one in &found {
            let line = lines.get(one.span.line as usize - 1);
            prop_assert!(
                line.is_some_and(|line| one.span.column as usize <= line + 1),
                "{text:?} {one:?}"
            );
        }
        prop_assert!(found.windows(2).all(|pair| (pair[0].span.line, pair[0].span.column)
            <= (pair[1].span.line, pair[1].span.column)));
        let text = render::text("f.yaml", &shown, &found, Colour::Never);
        prop_assert_eq!(text.is_empty(), found.is_empty());
        Ok(())
    });

    assert!(outcome.is_ok(), "{outcome:?}");
}

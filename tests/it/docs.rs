//! The book against the product: what there is to know about is written down, and what is written down is true.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use fieldlease::{
    entity::{Change, Value, Writer},
    registry::{self, Limits},
    server::problem::STATUSES,
    strategy::{MergeInput, Merged, Strategies, merge},
};
use serde_json::{Map, Value as Json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Files below a folder with this ending, in order.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Source without its tests and comments.
fn source(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap().lines();
    code.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Texts in double quotes that look like a code: lower case with underscores.
fn literals(code: &str) -> impl Iterator<Item = &str> {
    code.split('"').filter(|text| is_word(text))
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Texts between backticks.
fn ticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of a row of a table; `None` for other lines and for the rule below the head.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    (!row.starts_with("---")).then(|| row.split('|').map(str::trim).collect())
}

/// Names in the first column of all tables.
fn first_column(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(cells);
    rows.flat_map(|row| ticked(row[0]).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Names after `before` at the beginnings of lines of a part of a file, up to `after`.
fn names_in(text: &str, from: &str, before: &str, after: char) -> BTreeSet<String> {
    let (_, part) = text.split_once(from).unwrap_or_else(|| panic!("`{from}` is gone"));
    let part = part.split("\n}\n").next().unwrap();
    let lines = part.lines().filter_map(|line| line.trim_start().strip_prefix(before));
    let names = lines.filter_map(|rest| rest.split_once(after).map(|(name, _)| name.to_owned()));
    names.collect()
}

/// Blocks of a file fenced with this word.
fn blocks(text: &str, word: &str) -> Vec<String> {
    let fence = format!("```{word}\n");
    let parts = text.split(&fence).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn every_diagnostic_is_in_the_book_and_no_other() {
    let mut codes = BTreeSet::new();
    // Words of the schema are no codes, and these files know no diagnostics.
    let schema = source(&root().join("src/registry/schema.rs"));
    let words: BTreeSet<&str> = literals(&schema).chain(["snake_case"]).collect();
    let mut sources = files("src/registry", ".rs");
    sources.extend(files("src/path", ".rs"));
    sources.extend(["src/registry.rs", "src/path.rs"].map(|file| root().join(file)));
    for path in sources {
        let name = path.to_string_lossy();
        if ["hash.rs", "later.rs", "diff.rs"].iter().any(|other| name.ends_with(other)) {
            continue;
        }
        let code = source(&path);
        let found = literals(&code).filter(|text| text.contains('_') && !words.contains(text));
        codes.extend(found.map(str::to_owned));
        for maker in ["error(", "warning(", "note("] {
            let first = code.split(maker).skip(1).filter_map(|rest| {
                rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next())
            });
            codes.extend(first.filter(|text| is_word(text)).map(str::to_owned));
        }
    }

    let book = first_column(&read("docs/diagnostics.md"));

    assert_eq!(book, codes);
    for path in files("tests/data", ".stderr") {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter_map(|line| {
            line.strip_prefix("error[").or(line.strip_prefix("warning["))?.split(']').next()
        });
        for code in lines {
            assert!(book.contains(code), "{}: {code}", path.display());
        }
    }
}

fn help(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fieldlease"));
    let output = command.args(arguments).arg("--help").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The first words of the list of commands.
fn commands(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    let lines = list.lines().take_while(|line| !line.trim().is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_command_flag_and_exit_is_in_the_book() {
    let book = read("docs/cli.md") + &read("docs/settings.md");
    let top = help(&[]);
    let names = commands(&top);
    assert!(names.len() > 10, "{names:?}");

    for name in names.iter().filter(|name| *name != "help") {
        assert!(book.contains(&format!("\n## {name}\n")), "`{name}` has no section");
        let text = help(&[name]);
        for inner in commands(&text).iter().filter(|inner| *inner != "help") {
            let told =
                book.contains(&format!("`{inner}")) || book.contains(&format!("`{name} {inner}"));
            assert!(told, "{name} {inner}");
        }
        let words = text.split_whitespace().filter(|word| word.starts_with("--"));
        let flags = words.map(|flag| flag.trim_matches(|c: char| !c.is_ascii_alphanumeric()));
        for flag in flags.filter(|flag| *flag != "help") {
            assert!(book.contains(&format!("`--{flag}")), "{name} --{flag}");
        }
    }
    let exits = top.split("Exit codes:\n").nth(1).unwrap();
    for line in exits.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let (number, name) = (words.next().unwrap(), words.next().unwrap());
        let meaning: Vec<&str> = words.collect();
        let row = format!("| {number} | `{name}` | {} |", meaning.join(" "));
        assert!(book.contains(&row), "{row}");
    }
}

#[test]
fn every_route_and_problem_is_in_the_book() {
    let book = read("docs/http.md");
    let routes = source(&root().join("src/server/routes.rs"));
    let routes: Vec<&str> = routes
        .split(".route(")
        .skip(1)
        .map(|rest| rest.split('"').nth(1).unwrap_or_default())
        .collect();
    assert!(routes.len() > 10, "{routes:?}");

    for route in routes {
        assert!(book.contains(&format!(" {route}`")), "{route}");
    }
    for (code, status, _) in STATUSES {
        let rows: Vec<_> = book.lines().filter_map(cells).collect();
        let own = rows.iter().find(|row| row[0].contains(&status.to_string()));
        let own = own.unwrap_or_else(|| panic!("no row for {status}"));
        assert!(ticked(own[1]).any(|known| known == *code), "{status} {code}");
    }
}

#[test]
fn every_setting_is_in_the_book() {
    let settings = read("docs/settings.md");
    let sqlite = read("docs/backends/sqlite.md");
    let (listed, of_sqlite) = (first_column(&settings), first_column(&sqlite));
    let config = read("src/config.rs");
    let cases = [
        (&listed, names_in(&config, "pub struct Settings {", "pub ", ':')),
        (&listed, names_in(&read("src/server/limits.rs"), "pub struct Limits {", "pub ", ':')),
        (&listed, names_in(&read("src/hold.rs"), "pub struct Settings {", "pub ", ':')),
        (&listed, names_in(&read("src/engine/builder.rs"), "impl EngineBuilder {", "pub fn ", '(')),
        (
            &of_sqlite,
            names_in(&read("src/store/sqlite.rs"), "impl SqliteOptions {", "pub fn ", '('),
        ),
    ];

    for (book, known) in cases {
        assert!(known.len() > 5, "{known:?}");
        let missing: Vec<_> = known.difference(book).collect();
        assert_eq!(missing, Vec::<&String>::new());
    }
    for name in config.split('"').filter(|text| text.starts_with("FIELDLEASE_")) {
        assert!(settings.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn every_registry_in_the_book_loads() {
    for (file, least) in [("README.md", 1), ("docs/registry.md", 2), ("docs/strategies.md", 3)] {
        let blocks = blocks(&read(file), "yaml");
        assert!(blocks.len() >= least, "{file}");
        for block in blocks {
            let (registry, found) =
                registry::load(block.as_bytes(), &Strategies::standard(), &Limits::default());
            assert!(registry.is_some(), "{file}: {found:?}\n{block}");
        }
    }
    // The tutorial begins with one that is faulty on purpose.
    let tutorial = blocks(&read("docs/tutorial.md"), "yaml").concat();
    let (_, found) =
        registry::load(tutorial.as_bytes(), &Strategies::standard(), &Limits::default());
    let codes: Vec<_> = found.iter().map(|found| (found.code, found.span.line)).collect();
    assert_eq!(codes, [("unknown_key", 13)]);
}

/// What a heading is called in a link.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

#[test]
fn every_link_within_the_book_leads_somewhere() {
    let mut pages = files("docs", ".md");
    pages.extend(["README.md", "CHANGELOG.md"].map(|file| root().join(file)));
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in prose(&text).flat_map(|line| line.split("](").skip(1)) {
            let target = link.split(')').next().unwrap();
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let there = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let found = there.is_dir()
                || fs::read_to_string(&there).is_ok_and(|text| {
                    let headings = prose(&text).filter(|line| line.starts_with('#'));
                    anchor.is_empty()
                        || headings
                            .map(|line| slug(line.trim_start_matches('#')))
                            .any(|s| s == anchor)
                });
            if !found {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }

    assert_eq!(broken, Vec::<String>::new());
}

/// A value in a table: JSON between backticks, or a word.
fn value(cell: &str) -> Value {
    match cell {
        "absent" => Value::Absent,
        cell => Value::Present(json(cell)),
    }
}

fn json(cell: &str) -> Json {
    let text = ticked(cell).next().unwrap_or_else(|| panic!("`{cell}` is no value"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{cell}: {error}"))
}

fn change(cell: &str) -> Change {
    let list = || json(cell).as_array().unwrap().clone();
    match cell.split_once(' ').map_or(cell, |(word, _)| word) {
        "remove" => Change::Unset,
        "add" => Change::Add(json(cell).as_i64().unwrap()),
        "include" => Change::Include(list()),
        "exclude" => Change::Exclude(list()),
        _ => Change::Set(json(cell)),
    }
}

fn writer(word: &str) -> Option<Writer> {
    match word.trim() {
        "editor" => Some(Writer::editor("anna")),
        "worker" => Some(Writer::worker("erp")),
        _ => None,
    }
}

/// `min: 0, max: 10` or `order: [a, b]` in the line above a table.
fn options(line: &str) -> Json {
    let Some((_, rest)) = line.split_once("With `") else { return Json::Object(Map::new()) };
    let text = rest.split('`').next().unwrap();
    if !text.contains(':') {
        return Json::Object(Map::new());
    }
    if let Some(list) = text.strip_prefix("order: [").and_then(|rest| rest.strip_suffix(']')) {
        return serde_json::json!({ "order": list.split(", ").collect::<Vec<_>>() });
    }
    let pairs = text.split(", ").filter_map(|pair| pair.split_once(": "));
    pairs.map(|(key, value)| (key.to_owned(), Json::from(value))).collect::<Map<_, _>>().into()
}

#[test]
fn the_tables_of_strategies_are_true() {
    let strategies = Strategies::standard();
    let text = read("docs/strategies.md");
    let (mut name, mut set, mut who, mut rows) = (String::new(), Json::Null, false, 0);
    let mut shown = BTreeSet::new();
    for line in prose(&text) {
        if let Some(heading) = line.strip_prefix("## ") {
            name = heading.split(' ').next().unwrap().to_owned();
            set = options("");
        } else if line.contains("With `") && line.ends_with(':') {
            set = options(line);
            let word = line.split("With `").nth(1).unwrap().split('`').next().unwrap();
            name = if strategies.find(word).is_some() { word.to_owned() } else { name };
        }
        let Some(mut row) = cells(line).filter(|_| strategies.find(&name).is_some()) else {
            continue;
        };
        if row.last() == Some(&"becomes") {
            who = row.len() == 5;
            continue;
        }
        let (ours, theirs) =
            if who { row.remove(0).split_once(", ").unwrap() } else { ("worker", "editor") };
        let [base, sent, stored, becomes] = row[..] else { panic!("{line}") };
        let (known, stored) = ((base != "unknown").then(|| value(base)), value(stored));

        let merged = merge(
            &**strategies.find(&name).unwrap(),
            MergeInput {
                base: known.as_ref(),
                ours: &change(sent),
                theirs: &stored,
                our_writer: &writer(ours).unwrap(),
                their_writer: writer(theirs).as_ref(),
                options: &set,
            },
        );

        match (becomes.split_once(' '), merged) {
            (Some(("conflict", rule)), Merged::Conflict { rule: found, .. })
            | (Some(("stays", rule)), Merged::Keep { rule: found }) => {
                assert_eq!(rule.trim_matches('`'), found, "{name}: {line}");
            }
            (_, Merged::Take { value: found, .. }) => {
                assert!(value(becomes).same(&found), "{name}: {line}: {found:?}");
            }
            (_, other) => panic!("{name}: {line}: {other:?}"),
        }
        rows += 1;
        shown.insert(name.clone());
    }

    assert!(rows > 80, "{rows} rows");
    // `min` is the mirror image of `max` and has no table of its own.
    let missing: Vec<&str> = strategies.names().filter(|name| !shown.contains(*name)).collect();
    assert_eq!(missing, ["min"]);
    for name in strategies.later().iter().copied().chain(strategies.names()) {
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
}

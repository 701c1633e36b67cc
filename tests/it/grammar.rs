//! The registry's grammar: which rule owns a path, and every fault of meaning.

use std::path::PathBuf;

use fieldlease::{
    diagnostic::{Diagnostic, Level},
    path::Path,
    registry::{self, Limits, Registry},
    strategy::Strategies,
};
use serde_json::{Value as Json, json};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/grammar").join(name)
}

fn lines(name: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(data(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Reads and resolves a registry text.
fn load(text: &str) -> (Option<Registry>, Vec<Diagnostic>) {
    let (raw, mut found) = registry::read(text.as_bytes(), &Limits::default());
    let Some(raw) = raw else { return (None, found) };
    let (registry, more) = registry::resolve(&raw, &Strategies::standard());
    let shape = found.iter().any(|d| d.level == Level::Error);
    found.extend(more);
    found.sort_by_key(|d| (d.span.line, d.span.column));
    (registry.filter(|_| !shape), found)
}

fn errors(found: &[Diagnostic]) -> Vec<&'static str> {
    found.iter().filter(|d| d.level == Level::Error).map(|d| d.code).collect()
}

/// What `explain` answers for a case.
fn answer(case: &Json) -> Json {
    let path = match Path::parse(case["path"].as_str().unwrap()) {
        Ok(path) => path,
        Err(error) => return json!({ "error": error.code }),
    };
    let mut types = case["others"].as_object().cloned().unwrap_or_default();
    types.insert("P".to_owned(), case["entity"].clone());
    let (registry, found) = load(&json!({ "field_ownership": types }).to_string());
    let Some(registry) = registry else { return json!({ "error": errors(&found).first() }) };
    let rules = registry.entity("P").unwrap();
    match rules.resolve(&path) {
        Err(error) => json!({ "error": error.code }),
        Ok(resolved) => json!({
            "owner": resolved.owner,
            "group": resolved.group.as_ref().map(|group| &group.name),
            "pattern": resolved.pattern,
            "unit": resolved.unit,
            "strategy": resolved.strategy.as_ref().map(|s| s.strategy.name().to_owned()),
            "scope": resolved.scope,
        }),
    }
}

#[test]
fn every_case_of_the_table_resolves_exactly() {
    for case in lines("cases.jsonl") {
        let got = answer(&case);
        for (key, expected) in case["expected"].as_object().unwrap() {
            assert_eq!(&got[key], expected, "{} {key}: {got}", case["id"]);
        }
    }
}

#[test]
fn every_faulty_file_says_what_is_wrong_and_where() {
    let mut wrong = Vec::new();
    for case in lines("../grammar_faults/faults.jsonl") {
        let file = format!("../grammar_faults/{}", case["file"].as_str().unwrap());
        let text = std::fs::read_to_string(data(&file)).unwrap();
        let (_, found) = load(&text);
        let got: Vec<Json> = found
            .iter()
            .map(|d| json!({"code": d.code, "line": d.span.line, "column": d.span.column, "level": d.level}))
            .collect();
        let expected: Vec<Json> = case["diagnostics"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| json!({"code": d["code"], "line": d["line"], "column": d["column"], "level": d["level"]}))
            .collect();
        if got != expected {
            wrong.push(format!("{file}\n  got {got:?}\n  not {expected:?}\n  {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

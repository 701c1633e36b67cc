//! The JSON Schema of a registry, made from the tables of keys. Editors use it to complete and to check.

use serde_json::{Map, Value as Json, json};

use super::{ENTITY, GROUP, Key, PLACE, REGISTRY, SHARED, Shape};

/// The schema as it is committed in `schemas/field_ownership.schema.json`, with a line end.
#[must_use]
pub fn json_schema() -> String {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fieldlease registry",
        "description": "Who owns which field of a record, in which group, under which strategy.",
        "type": "object",
        "properties": properties(REGISTRY),
        "required": ["field_ownership"],
        "additionalProperties": false,
        "$defs": {
            "entity": closed(ENTITY),
            "group": closed(GROUP),
            "shared": open(SHARED),
            "place": closed(PLACE),
            "path": { "type": "string", "minLength": 1, "maxLength": 1024 },
            "name": { "type": "string", "minLength": 1 },
            "duration": { "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" },
            "on_busy": {
                "type": "string",
                "pattern": "^(skip|fail|enqueue|wait [0-9]+(ms|s|m|h)|retry [0-9]+ backoff [0-9]+(ms|s|m|h)\\.\\.[0-9]+(ms|s|m|h))$",
            },
        },
    });
    // The alternate form is indented and cannot fail: the value is made of texts, lists and maps.
    format!("{schema:#}\n")
}

fn properties(keys: &'static [Key]) -> Json {
    let property = |key: &Key| {
        let mut schema = shape(&key.shape);
        if let Json::Object(map) = &mut schema {
            map.insert("description".into(), Json::String(key.about.into()));
        }
        (key.name.to_owned(), schema)
    };
    Json::Object(keys.iter().map(property).collect::<Map<_, _>>())
}

/// A map with these keys and no others.
fn closed(keys: &'static [Key]) -> Json {
    json!({ "type": "object", "properties": properties(keys), "additionalProperties": false })
}

/// A map with these keys, and options of a strategy.
fn open(keys: &'static [Key]) -> Json {
    json!({ "type": "object", "properties": properties(keys) })
}

fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn list(items: &Json) -> Json {
    json!({ "type": "array", "items": items })
}

fn map(values: &Json) -> Json {
    json!({ "type": "object", "additionalProperties": values })
}

fn shape(shape: &Shape) -> Json {
    let text = json!({ "type": ["string", "number", "boolean"] });
    match shape {
        Shape::Text => reference("name"),
        // YAML reads some of the words as booleans or as nothing.
        Shape::Word(words) => {
            json!({ "enum": words.iter().flat_map(|word| word_values(word)).collect::<Vec<_>>() })
        }
        Shape::Duration(..) => reference("duration"),
        Shape::OnBusy => reference("on_busy"),
        Shape::Texts => list(&reference("name")),
        Shape::TextOrTexts => json!({ "anyOf": [reference("name"), list(&reference("name"))] }),
        Shape::Paths => list(&reference("path")),
        Shape::PathSets => list(&list(&reference("path"))),
        Shape::Axes => map(&json!({ "anyOf": [{ "const": "any" }, list(&text)] })),
        Shape::Collections => {
            map(&json!({ "anyOf": [reference("name"), list(&reference("name"))] }))
        }
        Shape::Groups => json!({ "anyOf": [
            list(&reference("path")),
            map(&json!({ "anyOf": [list(&reference("path")), reference("group")] })),
        ] }),
        Shape::Shared => json!({ "anyOf": [
            list(&reference("path")),
            map(&json!({ "anyOf": [{ "type": "null" }, reference("name"), reference("shared")] })),
        ] }),
        Shape::Constants => map(&text),
        Shape::Places => map(&json!({ "anyOf": [reference("name"), reference("place")] })),
        Shape::PlaceList => list(&json!({ "anyOf": [reference("name"), reference("place")] })),
        Shape::Map(keys) => closed(keys),
        Shape::Entities => map(&reference("entity")),
        Shape::Any => json!({}),
    }
}

fn word_values(word: &str) -> Vec<Json> {
    match word {
        "true" => vec![Json::Bool(true)],
        "false" => vec![Json::Bool(false)],
        "null" => vec![Json::Null, Json::String("null".into())],
        word => vec![Json::String(word.into())],
    }
}

//! The committed JSON Schema is the generated one, and the registries of the repository fit it.

use std::{fs, path::PathBuf};

use fieldlease::registry::schema::json_schema;
use serde_json::Value as Json;

fn schemas() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schemas")
}

#[test]
fn the_committed_schema_is_the_generated_one() {
    let file = schemas().join("field_ownership.schema.json");
    let generated = json_schema();

    if std::env::var("GOLDEN").as_deref() == Ok("write") {
        fs::write(&file, &generated).unwrap();
    }

    assert_eq!(fs::read_to_string(file).unwrap(), generated, "GOLDEN=write writes it anew");
}

#[test]
fn the_short_and_the_long_form_fit_the_schema() {
    let schema: Json = serde_json::from_str(&json_schema()).unwrap();
    let long = include_str!("../data/registry_long.yaml");
    let files = ["short.yaml", "example.yaml"]
        .map(|name| fs::read_to_string(schemas().join(name)).unwrap());

    for text in files.iter().map(String::as_str).chain([long]) {
        let value: Json = serde_yaml::from_str(text).unwrap();
        assert_eq!(fits(&schema, &schema, &value), Ok(()), "{text}");
    }
    for text in [
        "{}",
        "field_ownership: {P: {editor_onwed: [a]}}",
        "field_ownership: {P: {shared: {a: [b]}}}",
    ] {
        let value: Json = serde_yaml::from_str(text).unwrap();
        assert!(fits(&schema, &schema, &value).is_err(), "{text}");
    }
}

/// The few keywords of JSON Schema that the schema uses, patterns left out.
fn fits(root: &Json, schema: &Json, value: &Json) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        return fits(root, root.pointer(name.trim_start_matches('#')).unwrap(), value);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let any = choices.iter().any(|choice| fits(root, choice, value).is_ok());
        return if any { Ok(()) } else { Err(format!("{value} fits no choice")) };
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        return Err(format!("{value} is not one of {values:?}"));
    }
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    let right = match &schema["type"] {
        Json::String(name) => name == kind,
        Json::Array(names) => names.iter().any(|name| name == kind),
        _ => true,
    };
    if !right {
        return Err(format!("{value} is {kind}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        value.get(name.as_str().unwrap()).ok_or(format!("{name} is missing"))?;
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        match (schema["properties"].get(key), &schema["additionalProperties"]) {
            (Some(schema), _) => fits(root, schema, value)?,
            (None, Json::Bool(false)) => return Err(format!("`{key}` is unknown")),
            (None, other) => fits(root, other, value)?,
        }
    }
    for item in value.as_array().into_iter().flatten() {
        fits(root, &schema["items"], item)?;
    }
    Ok(())
}

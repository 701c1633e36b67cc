//! Pages of a list of holders.

use crate::{
    entity::{EntityId, EntityRef, EntityType},
    error::{Error, Result},
    lease::Holder,
    scope::{Scope, ScopeName},
};

/// At most so many, and the cursor of the next page when there are more.
pub(crate) fn cut(mut found: Vec<Holder>, most: usize) -> (Vec<Holder>, Option<String>) {
    let more = found.len() > most;
    found.truncate(most);
    let cursor = found.last().filter(|_| more).map(|last| write_cursor(&last.scope));
    (found, cursor)
}

/// The last scope of a page, as a JSON array of texts: any id survives it.
fn write_cursor(scope: &Scope) -> String {
    let Scope { entity, name } = scope;
    serde_json::json!([entity.kind.as_str(), entity.id.as_str(), name.to_string()]).to_string()
}

/// # Errors
/// `bad_cursor` when it is none of ours.
pub(crate) fn read_cursor(text: &str) -> Result<Scope> {
    let parts: Option<(EntityType, EntityId, ScopeName)> = serde_json::from_str(text).ok();
    let (kind, id, name) = parts.ok_or_else(|| {
        let help = "pass on the cursor of the page before, or none for the first page";
        Error::invalid("bad_cursor", "the cursor is not one of ours", help)
    })?;
    Ok(Scope { entity: EntityRef { kind, id }, name })
}

//! Words a connection has read before: the same path, scope or name is parsed once.
//!
//! A record has dozens of stamps and leaves, and their paths hardly ever change; parsing them again at every load
//! was most of its cost. Nothing here can be out of date: what is looked up is the stored text itself.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value as Json;

use crate::{
    path::Path,
    record::Record,
    scope::ScopeName,
    store::{sqlite::fault::Fault, text as stored},
};

/// More words than this are forgotten all at once: a bound, not a tuned cache.
const WORDS_MAX: usize = 20_000;
/// Records remembered, each at most [`RECORD_BYTES_MAX`].
const RECORDS_MAX: usize = 128;
const RECORD_BYTES_MAX: usize = 32 * 1_024;

/// What one connection remembers.
#[derive(Default)]
pub(super) struct Words {
    paths: RefCell<HashMap<Box<str>, Path>>,
    scopes: RefCell<HashMap<Box<str>, ScopeName>>,
    names: RefCell<HashMap<Box<str>, Arc<str>>>,
    /// By entity row: the text as last stored or read, and what it means.
    records: RefCell<HashMap<i64, (String, Record)>>,
}

impl Words {
    pub(super) fn path(&self, text: &str) -> Result<Path, Fault> {
        remembered(&self.paths, text, || {
            Path::parse(text).map_err(|error| {
                let text = text.escape_debug();
                Fault::Broken(format!("the stored path `{text}` is not one: {error}"))
            })
        })
    }

    pub(super) fn scope(&self, text: &str) -> Result<ScopeName, Fault> {
        remembered(&self.scopes, text, || Ok(stored::scope_name(text)?))
    }

    pub(super) fn name(&self, text: &str) -> Result<Arc<str>, Fault> {
        remembered(&self.names, text, || Ok(text.into()))
    }

    /// The record of an entity, as its row's text says.
    pub(super) fn record(&self, entity: i64, text: &str) -> Result<Record, Fault> {
        if let Some((known, record)) = self.records.borrow().get(&entity)
            && known == text
        {
            return Ok(record.clone());
        }
        let record = self.parse(text)?;
        self.keep(entity, text.to_owned(), &record);
        Ok(record)
    }

    /// A stored record that is not an entity's present one.
    pub(super) fn parse(&self, text: &str) -> Result<Record, Fault> {
        let Json::Object(leaves) = stored::json(text)? else {
            return Err(Fault::Broken("a stored record is not a JSON object".to_owned()));
        };
        let read = |(text, leaf): (String, Json)| Ok((self.path(&text)?, leaf));
        let leaves = leaves.into_iter().map(read).collect::<Result<BTreeMap<_, _>, Fault>>()?;
        Ok(Record::from_stored(leaves))
    }

    /// Remembers a record with its text, for the next load.
    pub(super) fn keep(&self, entity: i64, text: String, record: &Record) {
        let mut records = self.records.borrow_mut();
        if text.len() > RECORD_BYTES_MAX {
            records.remove(&entity);
            return;
        }
        if records.len() >= RECORDS_MAX {
            records.clear();
        }
        records.insert(entity, (text, record.clone()));
    }
}

fn remembered<T: Clone>(
    words: &RefCell<HashMap<Box<str>, T>>,
    text: &str,
    read: impl FnOnce() -> Result<T, Fault>,
) -> Result<T, Fault> {
    if let Some(word) = words.borrow().get(text) {
        return Ok(word.clone());
    }
    let word = read()?;
    let mut words = words.borrow_mut();
    if words.len() >= WORDS_MAX {
        words.clear();
    }
    words.insert(text.into(), word.clone());
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_what_its_text_says_and_not_what_it_said_before() {
        let words = Words::default();
        let texts = [r#"{"a":1}"#, r#"{"a":1}"#, r#"{"a":2,"b@l=de":null}"#];

        for text in texts {
            let record = words.record(1, text).unwrap();
            assert_eq!(stored::record_text(&record), text);
        }
    }

    #[test]
    fn more_words_than_the_bound_are_forgotten_and_read_again() {
        let words = Words::default();
        for number in 0..=WORDS_MAX {
            words.path(&format!("p{number}")).unwrap();
        }
        for entity in 0..=RECORDS_MAX as i64 {
            words.record(entity, "{}").unwrap();
        }
        words.record(1, &format!(r#"{{"a":"{}"}}"#, "x".repeat(RECORD_BYTES_MAX))).unwrap();

        assert_eq!(words.paths.borrow().len(), 2);
        assert_eq!(words.records.borrow().len(), 1);
        assert_eq!(words.path("p0").unwrap().as_str(), "p0");
        assert!(words.path("p0..").is_err());
    }
}

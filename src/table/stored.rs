//! The table as text, for backends that keep it in a row between two steps.
//!
//! Times are microseconds on the clock of whoever keeps the row; nothing else in the text depends on a process.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    clock::Moment,
    entity::EntityRef,
    scope::{ScopeName, ScopeSet},
    table::{Cover, Grant, Place, Table},
    token::HolderToken,
};

#[derive(Serialize, Deserialize)]
struct StoredTable {
    /// The highest order drawn here, kept when whoever drew it is gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    order: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    grants: Vec<StoredGrant>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    places: Vec<StoredPlace>,
}

#[derive(Serialize, Deserialize)]
struct StoredCover {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    whole: bool,
    scopes: Vec<ScopeName>,
}

#[derive(Serialize, Deserialize)]
struct StoredGrant {
    token: String,
    #[serde(flatten)]
    cover: StoredCover,
    label: Arc<str>,
    since: u64,
    until: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct StoredPlace {
    token: String,
    #[serde(flatten)]
    cover: StoredCover,
    label: Arc<str>,
    ttl_ms: u64,
    until: u64,
}

impl Table {
    /// All of it as JSON, with the highest order drawn so far; 0 for none.
    ///
    /// # Errors
    /// Never for a table that was made by steps; the encoder's word for it.
    pub fn to_text(&self, order: u64) -> Result<String, String> {
        let grants = self.grants.iter().map(|grant| StoredGrant {
            token: format!("{:032x}", u128::from_be_bytes(grant.token.0)),
            cover: stored_cover(&grant.cover),
            label: grant.label.clone(),
            since: micros(grant.since),
            until: micros(grant.until),
            order: grant.order,
        });
        let places = self.places.iter().map(|place| StoredPlace {
            token: format!("{:032x}", u128::from_be_bytes(place.token.0)),
            cover: stored_cover(&place.cover),
            label: place.label.clone(),
            ttl_ms: u64::try_from(place.ttl.as_millis()).unwrap_or(u64::MAX),
            until: micros(place.until),
        });
        let (grants, places) = (grants.collect(), places.collect());
        let table = StoredTable { order, grants, places };
        serde_json::to_string(&table).map_err(|error| error.to_string())
    }

    /// Reads what [`Table::to_text`] wrote: the table and the highest order.
    ///
    /// # Errors
    /// What is wrong with the text: then the row was not written by this library.
    pub fn from_text(entity: &EntityRef, text: &str) -> Result<(Self, u64), String> {
        let stored: StoredTable = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut table = Self::default();
        for grant in stored.grants {
            let until = moment(grant.until);
            table.grants.push(Grant {
                token: token(&grant.token)?,
                cover: cover(entity, grant.cover),
                label: grant.label,
                since: moment(grant.since),
                until,
                order: grant.order,
            });
            table.note_end(until);
        }
        let mut places = VecDeque::new();
        for place in stored.places {
            let until = moment(place.until);
            places.push_back(Place {
                token: token(&place.token)?,
                cover: cover(entity, place.cover),
                label: place.label,
                ttl: Duration::from_millis(place.ttl_ms),
                until,
            });
            table.note_end(until);
        }
        table.places = places;
        Ok((table, stored.order))
    }

    /// When the last of it ends unless it is renewed.
    #[must_use]
    pub fn last_end(&self) -> Option<Moment> {
        let grants = self.grants.iter().map(|grant| grant.until);
        grants.chain(self.places.iter().map(|place| place.until)).max()
    }
}

fn is_zero(order: &u64) -> bool {
    *order == 0
}

fn micros(moment: Moment) -> u64 {
    u64::try_from(moment.0.as_micros()).unwrap_or(u64::MAX)
}

fn moment(micros: u64) -> Moment {
    Moment(Duration::from_micros(micros))
}

fn stored_cover(cover: &Cover) -> StoredCover {
    StoredCover { whole: cover.whole, scopes: cover.names().iter().cloned().collect() }
}

fn cover(entity: &EntityRef, stored: StoredCover) -> Cover {
    Cover { whole: stored.whole, scopes: ScopeSet::new(entity.clone(), stored.scopes) }
}

fn token(text: &str) -> Result<HolderToken, String> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
    let number = number.ok_or_else(|| format!("`{}` is not a token", text.escape_debug()))?;
    Ok(HolderToken(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Answer, Bid};

    fn bid(entity: &EntityRef, token: u8, groups: &[&str], whole: bool) -> Bid {
        let names = groups.iter().map(|name| ScopeName::parse(name).unwrap());
        Bid {
            token: HolderToken([token; 16]),
            cover: Cover { whole, scopes: ScopeSet::new(entity.clone(), names) },
            ttl: Duration::from_secs(10),
            ttl_max: Duration::from_secs(60),
            label: "who\u{0}\u{1F600}".into(),
            queue: true,
        }
    }

    #[test]
    fn a_table_goes_on_from_its_text_as_if_it_had_never_left_memory() {
        let entity = EntityRef::new("Product", "a\u{0}b").unwrap();
        let (mut kept, mut effects) = (Table::default(), Vec::new());
        let now = moment(1_700_000_000_000_000);
        kept.acquire(bid(&entity, 1, &["media", "t[l=d\\,e]"], false), now, &mut effects);
        kept.order(HolderToken([1; 16]), || 7);
        kept.acquire(bid(&entity, 2, &["media"], false), now, &mut effects);
        kept.acquire(bid(&entity, 3, &[], true), now, &mut effects);
        effects.clear();

        let text = kept.to_text(7).unwrap();
        let (mut read, order) = Table::from_text(&entity, &text).unwrap();

        assert_eq!(read.to_text(7).unwrap(), text);
        assert_eq!((order, read.last_end()), (7, kept.last_end()));
        let later = moment(1_700_000_001_000_000);
        let (mut of_kept, mut of_read) = (Vec::new(), Vec::new());
        assert!(kept.release(HolderToken([1; 16]), later, &mut of_kept));
        assert!(read.release(HolderToken([1; 16]), later, &mut of_read));
        assert_eq!(of_read, of_kept);
        assert!(!of_read.is_empty());
        let again = bid(&entity, 4, &["media"], false);
        assert!(matches!(read.acquire(again, later, &mut effects), Answer::Held { .. }));
    }

    #[test]
    fn a_text_that_is_not_ours_is_told() {
        let entity = EntityRef::new("Product", "1").unwrap();

        assert!(Table::from_text(&entity, "7").is_err());
        let bad = r#"{"grants":[{"token":"x","scopes":[],"label":"","since":0,"until":0}]}"#;
        assert_eq!(Table::from_text(&entity, bad).unwrap_err(), "`x` is not a token");
    }
}

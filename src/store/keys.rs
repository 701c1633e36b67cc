//! Between keys and the columns every database keeps them in.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    clock::StoreTime,
    commit::KeyUse,
    error::{Error, Result},
    key::{
        Effect, Ending, Finish, Finished, InputStamps, LEASE_MAX, Owner, RequestHash, Row, State,
    },
    path::Path,
    store::text::{self as stored, Broken},
    token::{Incarnation, OperationId, VersionNumber},
};

type Read<T> = std::result::Result<T, Broken>;

/// A row of `fl_key` as the columns say.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRow {
    pub(crate) state: String,
    pub(crate) owner: [u8; 16],
    pub(crate) attempt: u64,
    pub(crate) until_at: StoreTime,
    pub(crate) hash_algorithm: String,
    pub(crate) hash: Vec<u8>,
    pub(crate) result: Option<String>,
    pub(crate) inputs: Option<String>,
    pub(crate) operation: Option<OperationId>,
    pub(crate) incarnation: Option<Incarnation>,
    pub(crate) number: Option<VersionNumber>,
    pub(crate) scopes: Option<String>,
}

impl KeyRow {
    /// What the rules decide by.
    pub(crate) fn row(self, hash: &RequestHash) -> Read<Row> {
        let same_hash = hash.is_stored_as(&self.hash_algorithm, &self.hash);
        let attempt = self.attempt;
        let state = match &*self.state {
            "pending" => State::Pending { owner: Owner(self.owner), lease_until: self.until_at },
            "retry" => State::Failed { retry_at: self.until_at },
            "completed" | "failed" => {
                State::Ended { expires_at: self.until_at, finished: Box::new(self.finished()?) }
            }
            other => return Err(Broken(format!("`{other}` is no state of a key"))),
        };
        Ok(Row { state, same_hash, attempt })
    }

    /// How an ended key ended.
    pub(crate) fn finished(self) -> Read<Finished> {
        let effect = match (self.operation, self.incarnation, &self.scopes) {
            (Some(operation), Some(incarnation), Some(scopes)) => Some(Effect {
                operation,
                versions: stored::versions_after(&stored::scope_steps(scopes)?),
                number: self.number,
                incarnation,
            }),
            _ => None,
        };
        let ending = if self.state == "failed" { Ending::Failed } else { Ending::Completed };
        Ok(Finished {
            ending,
            result: self.result.unwrap_or_default(),
            effect,
            inputs: self.inputs.as_deref().map(inputs).transpose()?,
        })
    }
}

/// How [`Finish`] is written; `None` for a release, which removes the row.
pub(crate) struct End<'a> {
    pub(crate) state: &'static str,
    /// From now.
    pub(crate) until_us: i64,
    pub(crate) class: Option<&'a str>,
    pub(crate) result: Option<&'a str>,
    pub(crate) inputs: Option<String>,
}

impl<'a> End<'a> {
    pub(crate) fn of(how: &'a Finish) -> Option<Self> {
        match how {
            Finish::Done { result, retention, inputs } => Some(Self {
                state: "completed",
                until_us: micros(*retention),
                class: None,
                result: Some(result),
                inputs: inputs.as_ref().map(inputs_text),
            }),
            Finish::Failed { result, retention } => Some(Self {
                state: "failed",
                until_us: micros(*retention),
                class: None,
                result: Some(result),
                inputs: None,
            }),
            Finish::Retry { class, after } => Some(Self {
                state: "retry",
                until_us: micros(*after),
                class: Some(class),
                result: None,
                inputs: None,
            }),
            Finish::Release => None,
        }
    }

    /// A key completed by a save.
    pub(crate) fn by(key: &'a KeyUse) -> Self {
        Self {
            state: "completed",
            until_us: micros(key.retention),
            class: None,
            result: Some(&key.result),
            inputs: key.inputs.as_ref().map(inputs_text),
        }
    }
}

/// A lease in microseconds.
pub(crate) fn lease_us(lease: Duration) -> Result<i64> {
    if lease.is_zero() || lease > LEASE_MAX {
        let message = format!("a key cannot be leased for {lease:?}");
        let help = format!("lease it for at most {} s, and renew it", LEASE_MAX.as_secs());
        return Err(Error::invalid("bad_lease", message, help));
    }
    Ok(micros(lease))
}

pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn inputs_text(stamps: &InputStamps) -> String {
    let pairs = stamps.iter().map(|(path, operation)| {
        (path.as_str().to_owned(), operation.map(|operation| operation.to_string()).into())
    });
    serde_json::Value::Object(pairs.collect()).to_string()
}

fn inputs(text: &str) -> Read<InputStamps> {
    let broken = |what: &str| Broken(format!("the stored inputs of a key: {what}"));
    let stamps: BTreeMap<String, Option<OperationId>> =
        serde_json::from_str(text).map_err(|error| broken(&error.to_string()))?;
    let read = |(path, operation): (String, Option<OperationId>)| {
        let path = Path::parse(&path).map_err(|error| broken(&error.to_string()))?;
        Ok((path, operation))
    };
    stamps.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_stamps_are_read_back_as_they_were_written() {
        let stamps = InputStamps::from([
            (Path::parse("image").unwrap(), Some(OperationId(7))),
            (Path::parse("gallery.#keys@locale=de_DE").unwrap(), None),
        ]);

        assert_eq!(inputs(&inputs_text(&stamps)).unwrap(), stamps);
        assert!(inputs("[]").is_err() && inputs(r#"{"a..":null}"#).is_err());
    }

    #[test]
    fn a_state_nobody_knows_is_told_and_an_unknown_algorithm_is_another_hash() {
        let hash = RequestHash { algorithm: crate::key::HashAlgorithm::JcsSha256, bytes: [1; 32] };
        let row = |state: &str, algorithm: &str| KeyRow {
            state: state.to_owned(),
            hash_algorithm: algorithm.to_owned(),
            hash: vec![1; 32],
            ..KeyRow::default()
        };

        assert!(row("pending", "jcs-sha256/1").row(&hash).unwrap().same_hash);
        assert!(!row("pending", "jcs-sha256/2").row(&hash).unwrap().same_hash);
        assert!(row("gone", "jcs-sha256/1").row(&hash).is_err());
    }
}

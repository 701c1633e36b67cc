//! Values as PostgreSQL's binary format has them.

use std::error::Error;

use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use crate::clock::StoreTime;

type Done<T> = Result<T, Box<dyn Error + Sync + Send>>;

/// 1970 to 2000, where the server begins to count, in microseconds.
const EPOCH_US: i64 = 946_684_800_000_000;

/// A `uuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

/// A `timestamptz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) StoreTime);

/// The text of a `json` or `jsonb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonText(pub(crate) String);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Done<IsNull> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }

    to_sql_checked!();
}

impl FromSql<'_> for Uuid {
    fn from_sql(_: &Type, raw: &[u8]) -> Done<Self> {
        Ok(Self(raw.try_into()?))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }
}

impl FromSql<'_> for Time {
    fn from_sql(_: &Type, raw: &[u8]) -> Done<Self> {
        let since_2000 = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(StoreTime(since_2000.saturating_add(EPOCH_US))))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TIMESTAMPTZ
    }
}

impl ToSql for JsonText {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Done<IsNull> {
        if *kind == Type::JSONB {
            // The version of the format.
            out.extend_from_slice(&[1]);
        }
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::JSON | Type::JSONB)
    }

    to_sql_checked!();
}

//! Reading a row of an answer, column by column.

use mysql_async::{Row, Value};

use crate::database::mysql::Fault;

type Read<T> = Result<T, Fault>;

/// The columns of a row that were not read yet.
pub(crate) struct Cells(std::vec::IntoIter<Value>);

impl Cells {
    pub(crate) fn new(row: Row) -> Self {
        Self(row.unwrap().into_iter())
    }

    fn next(&mut self) -> Read<Value> {
        self.0.next().ok_or_else(|| broken("a row has too few columns"))
    }

    pub(crate) fn bytes_or_null(&mut self) -> Read<Option<Vec<u8>>> {
        match self.next()? {
            Value::NULL => Ok(None),
            Value::Bytes(bytes) => Ok(Some(bytes)),
            _ => Err(broken("a column is not text")),
        }
    }

    pub(crate) fn bytes(&mut self) -> Read<Vec<u8>> {
        self.bytes_or_null()?.ok_or_else(|| broken("a column is NULL"))
    }

    /// Exactly as many bytes as the column has.
    pub(crate) fn array<const SIZE: usize>(&mut self) -> Read<[u8; SIZE]> {
        let bytes = self.bytes()?;
        bytes.try_into().map_err(|_| broken(format!("a column has not {SIZE} bytes")))
    }

    pub(crate) fn array_or_null<const SIZE: usize>(&mut self) -> Read<Option<[u8; SIZE]>> {
        let Some(bytes) = self.bytes_or_null()? else { return Ok(None) };
        let array = bytes.try_into();
        array.map(Some).map_err(|_| broken(format!("a column has not {SIZE} bytes")))
    }

    pub(crate) fn text(&mut self) -> Read<String> {
        text(self.bytes()?)
    }

    pub(crate) fn text_or_null(&mut self) -> Read<Option<String>> {
        self.bytes_or_null()?.map(text).transpose()
    }

    /// A signed number; decimals come as text.
    pub(crate) fn signed_or_null(&mut self) -> Read<Option<i64>> {
        match self.next()? {
            Value::NULL => Ok(None),
            Value::Int(number) => Ok(Some(number)),
            Value::UInt(number) => {
                i64::try_from(number).map(Some).map_err(|_| broken("a number is out of range"))
            }
            Value::Bytes(bytes) => {
                let number = text(bytes)?.parse();
                number.map(Some).map_err(|_| broken("a column is not a number"))
            }
            _ => Err(broken("a column is not a number")),
        }
    }

    pub(crate) fn signed(&mut self) -> Read<i64> {
        self.signed_or_null()?.ok_or_else(|| broken("a column is NULL"))
    }

    /// A counter: never below zero.
    pub(crate) fn number(&mut self) -> Read<u64> {
        let number = self.signed()?;
        u64::try_from(number).map_err(|_| broken(format!("{number} is below zero")))
    }

    pub(crate) fn number_or_null(&mut self) -> Read<Option<u64>> {
        let Some(number) = self.signed_or_null()? else { return Ok(None) };
        u64::try_from(number).map(Some).map_err(|_| broken(format!("{number} is below zero")))
    }
}

fn text(bytes: Vec<u8>) -> Read<String> {
    String::from_utf8(bytes).map_err(|_| broken("a column is not UTF-8"))
}

fn broken(message: impl Into<String>) -> Fault {
    Fault::Broken(message.into())
}

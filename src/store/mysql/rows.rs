//! Between our words and the columns of an answer.

use mysql_async::{Row, Value as Column};

use crate::{
    clock::StoreTime,
    database::mysql::{Cells, Fault},
    entity::{Value, Writer},
    path::Path,
    scope::ScopeName,
    store::text::{self as stored, Broken},
    token::{Generation, Incarnation, OperationId, VersionNumber},
};

type Read<T> = Result<T, Fault>;

/// The sets of rows of an answer, in order.
pub(super) struct Sets(std::vec::IntoIter<Vec<Row>>);

impl Sets {
    pub(super) fn new(sets: Vec<Vec<Row>>) -> Self {
        Self(sets.into_iter())
    }

    /// The rows of the next set.
    pub(super) fn rows(&mut self) -> impl Iterator<Item = Cells> + use<> {
        self.0.next().unwrap_or_default().into_iter().map(Cells::new)
    }

    /// The first row of the next set.
    pub(super) fn row(&mut self) -> Option<Cells> {
        self.rows().next()
    }

    /// The row a procedure always answers.
    pub(super) fn always(&mut self) -> Read<Cells> {
        self.row().ok_or_else(|| Fault::Broken("a procedure gave no answer".to_owned()))
    }
}

impl From<Broken> for Fault {
    fn from(Broken(message): Broken) -> Self {
        Self::Broken(message)
    }
}

/// A number as a signed column. Ours stay below 2^63.
pub(super) fn column(number: u64) -> Read<Column> {
    let number = i64::try_from(number);
    number.map(Column::Int).map_err(|_| Fault::Broken("a number does not fit a column".to_owned()))
}

pub(super) fn bytes(bytes: impl AsRef<[u8]>) -> Column {
    Column::Bytes(bytes.as_ref().to_vec())
}

/// Absent is NULL.
pub(super) fn or_null(text: Option<&str>) -> Column {
    text.map_or(Column::NULL, bytes)
}

pub(super) fn operation_bytes(operation: OperationId) -> Column {
    bytes(operation.0.to_be_bytes())
}

pub(super) fn operation(cells: &mut Cells) -> Read<OperationId> {
    Ok(OperationId(u128::from_be_bytes(cells.array()?)))
}

pub(super) fn generation(cells: &mut Cells) -> Read<Generation> {
    cells.array().map(Generation)
}

pub(super) fn path(cells: &mut Cells) -> Read<Path> {
    parse_path(&cells.text()?)
}

pub(super) fn parse_path(text: &str) -> Read<Path> {
    Path::parse(text).map_err(|error| {
        let text = text.escape_debug();
        Fault::Broken(format!("the stored path `{text}` is not one: {error}"))
    })
}

pub(super) fn scope(cells: &mut Cells) -> Read<ScopeName> {
    Ok(stored::scope_name(&cells.text()?)?)
}

pub(super) fn time(cells: &mut Cells) -> Read<StoreTime> {
    cells.signed().map(StoreTime)
}

pub(super) fn number(cells: &mut Cells) -> Read<Option<VersionNumber>> {
    Ok(cells.number_or_null()?.map(VersionNumber))
}

pub(super) fn incarnation(cells: &mut Cells) -> Read<Incarnation> {
    cells.number().map(Incarnation)
}

pub(super) fn value(cells: &mut Cells) -> Read<Value> {
    let text = cells.text_or_null()?;
    Ok(Value::from(text.as_deref().map(stored::json).transpose()?))
}

/// Three columns: kind, name, on whose behalf.
pub(super) fn writer(cells: &mut Cells) -> Read<Writer> {
    Ok(Writer {
        kind: stored::kind(&cells.text()?)?,
        name: cells.text()?.into(),
        on_behalf_of: cells.text_or_null()?.map(Into::into),
    })
}

//! Pruning and erasing: one call each.

use mysql_async::Value as Column;

use crate::{
    clock::BoxFuture,
    database::mysql::{Fault, pool::Repeat},
    error::Result,
    store::{
        keys::micros,
        mysql::{
            MysqlStore,
            load::key,
            rows::{self, Sets},
        },
        text as stored,
    },
    upkeep::{Erase, EraseAsk, Erased, PruneAsk, Pruned, UpkeepStore},
};

type Done<T> = std::result::Result<T, Fault>;

impl UpkeepStore for MysqlStore {
    fn prune<'a>(&'a self, ask: &'a PruneAsk) -> BoxFuture<'a, Result<Pruned>> {
        Box::pin(async move {
            let params = pruning(ask).map_err(|fault| fault.into_error(&self.place, None))?;
            let work = self.asked(&self.sql.prune, params, pruned);
            // What went in a call whose answer was lost is not counted by the next one.
            self.run(Repeat::Never, None, work).await
        })
    }

    fn erase<'a>(&'a self, ask: &'a EraseAsk) -> BoxFuture<'a, Result<Option<Erased>>> {
        let (sql, mut params) = match &ask.what {
            Erase::Entity(entity) => (&self.sql.erase_record, key(entity).to_vec()),
            Erase::Writer(writer) => {
                let kind = stored::kind_text(writer.kind);
                (&self.sql.erase_writer, vec![rows::bytes(&*writer.name), rows::bytes(kind)])
            }
        };
        params.extend([rows::bytes(&ask.by), rows::bytes(&ask.reason), flag(ask.dry_run)]);
        Box::pin(self.run(Repeat::Never, None, self.asked(sql, params, erased)))
    }
}

fn pruning(ask: &PruneAsk) -> Done<Vec<Column>> {
    let age =
        |age: Option<std::time::Duration>| age.map_or(Column::NULL, |age| Column::Int(micros(age)));
    let keep = ask.keep_versions.map(|keep| rows::column(keep.max(1))).transpose()?;
    Ok(vec![
        rows::or_null(ask.kind.as_ref().map(|kind| kind.as_str())),
        keep.unwrap_or(Column::NULL),
        age(ask.versions_older),
        age(ask.operations_older),
        age(ask.tombstones_older),
        age(Some(ask.base_window)),
        rows::column(ask.after)?,
        Column::UInt(ask.most.max(1).into()),
        flag(ask.dry_run),
    ])
}

fn flag(flag: bool) -> Column {
    Column::Int(i64::from(flag))
}

fn pruned(mut sets: Sets) -> Done<Pruned> {
    let mut row = sets.always()?;
    Ok(Pruned {
        versions: row.number()?,
        operations: row.number()?,
        tombstones: row.number()?,
        next: row.number_or_null()?,
    })
}

fn erased(mut sets: Sets) -> Done<Option<Erased>> {
    let Some(mut row) = sets.row() else { return Ok(None) };
    Ok(Some(Erased { saves: row.number()?, values: row.number()? }))
}

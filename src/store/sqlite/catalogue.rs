//! The tables of this file, as far as a mapping names them.

use crate::{
    mapping::{Catalogue, Column, Dialect, Facts, Kind, Mapping, Table, Trigger},
    store::sqlite::{fault::Fault, session::Tx},
};

type Done<T> = Result<T, Fault>;

pub(super) fn read(tx: &Tx<'_>, mapping: &Mapping) -> Done<Catalogue> {
    let mut found: Vec<(String, bool, String)> = Vec::new();
    tx.each(&tx.sql.tables, [], |row| {
        let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
        if mapping.wants(None, &name) {
            found.push((name, kind == "view", row.get(2)?));
        }
        Ok(())
    })?;
    let mut catalogue = Catalogue::default();
    for (name, view, sql) in found {
        catalogue.tables.push(table(tx, name, view, &sql)?);
    }
    Ok(catalogue)
}

fn table(tx: &Tx<'_>, name: String, view: bool, sql: &str) -> Done<Table> {
    let mut table = Table { name, view, ..Table::default() };
    let mut primary: Vec<(i64, String)> = Vec::new();
    tx.each(&tx.sql.table_columns, [table.name.as_str()], |row| {
        let (name, declared): (String, String) = (row.get(0)?, row.get(1)?);
        let (required, default): (bool, bool) = (row.get(2)?, row.get(3)?);
        let (key, hidden): (i64, i64) = (row.get(4)?, row.get(5)?);
        let json = is_json(sql, &name);
        let kind = Kind::parse(Dialect::Sqlite, &declared, &Facts { json, ..Facts::default() });
        if key > 0 {
            primary.push((key, name.clone()));
        }
        // The rowid under another name counts by itself.
        let counter = key > 0 && declared.eq_ignore_ascii_case("integer");
        table.columns.push(Column {
            name,
            declared,
            kind,
            nullable: !required && key == 0,
            defaulted: default || counter,
            generated: matches!(hidden, 2 | 3),
        });
        Ok(())
    })?;
    primary.sort();
    table.unique.extend(Some(primary.into_iter().map(|(_, name)| name).collect()));
    let mut last = String::new();
    tx.each(&tx.sql.table_keys, [table.name.as_str()], |row| {
        let (index, column): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        if index != last {
            table.unique.push(Vec::new());
            last = index;
        }
        // An index over an expression is given a column that no table has.
        let column = column.unwrap_or_default();
        if let Some(key) = table.unique.last_mut() {
            key.push(column);
        }
        Ok(())
    })?;
    tx.each(&tx.sql.table_triggers, [table.name.as_str()], |row| {
        table.triggers.push(Trigger { name: row.get(0)?, text: row.get(1)? });
        Ok(())
    })?;
    Ok(table)
}

/// Whether a CHECK of the table says that the column holds JSON.
fn is_json(sql: &str, column: &str) -> bool {
    let bare: String = sql
        .chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '"' | '`' | '[' | ']'))
        .collect::<String>()
        .to_lowercase();
    bare.contains(&format!("json_valid({})", column.to_lowercase()))
}

//! What the file holds, against what the clients were told.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path as FilePath,
};

use fieldlease::{
    commit::{Changed, Lifecycle, Trace},
    entity::{EntityRef, Value},
    history::{Entry, HistoryStore},
    path::Path,
    scope::ScopeName,
    store::{RecordStore, sqlite::SqliteStore},
    testing::checker::{self, History, Standing, Stored, Told, Verdict},
    token::OperationId,
};

use crate::load::{IDS, Mark, SYSTEM, Sent, UNITS, path, product};

/// Entries asked for at once.
const PAGE: u32 = 500;

/// A file as it is now.
pub(crate) struct Found {
    end: BTreeMap<EntityRef, Standing>,
    entries: Vec<(EntityRef, Entry)>,
}

impl Found {
    /// Reads every record and its history, through the library.
    pub(crate) fn read(file: &FilePath) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = SqliteStore::open(file).unwrap();
            let units = UNITS.map(path);
            let (mut end, mut entries) = (BTreeMap::new(), Vec::new());
            for entity in IDS.map(product) {
                let Some(snapshot) = store.load(&entity).await.unwrap() else { continue };
                end.insert(entity.clone(), Standing::of(&snapshot, &units));
                let mut before = None;
                loop {
                    let page = store.entries(&entity, before, PAGE).await.unwrap();
                    let Some(last) = page.last() else { break };
                    before = Some(last.operation);
                    entries.extend(page.into_iter().map(|entry| (entity.clone(), entry)));
                }
            }
            store.close().await;
            Self { end, entries }
        })
    }

    /// Finds out what became of the saves nobody answered, from this one on: each is there once, or not at all.
    pub(crate) fn settle(&self, sent: &mut [Sent], from: usize) {
        let told = |one: &Sent| match one.save.told {
            Told::Applied(operation) | Told::Unknown(Some(operation)) => Some(operation),
            _ => None,
        };
        let mut known: BTreeSet<OperationId> = sent.iter().filter_map(told).collect();
        for one in sent[from..].iter_mut().filter(|one| one.save.told == Told::Unknown(None)) {
            let fits = |(entity, entry): &&(EntityRef, Entry)| {
                *entity == one.save.entity
                    && entry.writer == one.save.writer
                    && !known.contains(&entry.operation)
                    && one.mark.is_on(entry)
            };
            if let Some((_, entry)) = self.entries.iter().find(fits) {
                known.insert(entry.operation);
                one.save.told = Told::Unknown(Some(entry.operation));
            }
        }
    }

    /// Everything that is wrong: by the checker, by counting marks, and by comparing the file's rows.
    pub(crate) fn faults(&self, sent: &[Sent], file: &FilePath) -> Vec<String> {
        let verdict = self.verdict(sent);
        let mut faults: Vec<String> = verdict
            .findings
            .iter()
            .map(|finding| format!("{}: {}", finding.check, finding.message))
            .collect();
        for one in sent {
            let times = self
                .entries
                .iter()
                .filter(|(entity, entry)| *entity == one.save.entity && one.mark.is_on(entry));
            let fits = match (&one.mark, &one.save.told) {
                (Mark::Delete, _) => continue,
                (_, Told::Applied(_)) => times.count() == 1,
                (_, Told::Unknown(_)) => times.count() <= 1,
                _ => times.count() == 0,
            };
            if !fits {
                faults.push(format!("mark: {:?} of {:?}", one.mark, one.save.told));
            }
        }
        faults.extend(rows(file));
        faults
    }

    fn verdict(&self, sent: &[Sent]) -> Verdict {
        let deletes: BTreeMap<OperationId, &Entry> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.lifecycle == Lifecycle::Delete)
            .map(|(_, entry)| (entry.operation, entry))
            .collect();
        let saves = sent.iter().map(|one| {
            let mut save = one.save.clone();
            if let Told::Applied(operation) | Told::Unknown(Some(operation)) = save.told
                && let Some(entry) = deletes.get(&operation)
            {
                // A delete takes what workers have made since, and does not compare it.
                let computed = entry.changed.iter();
                for changed in computed.filter(|it| SYSTEM.contains(&it.path.as_str())) {
                    save.shown.insert(changed.path.clone(), changed.old.clone());
                }
            }
            save
        });
        checker::check(&History {
            saves: saves.collect(),
            end: self.end.clone(),
            entries: self.stored(),
            ..History::default()
        })
    }

    /// The entries as the checker takes them. A delete raises scopes that hold no value too: there, a field of the
    /// scope went from absent to absent.
    fn stored(&self) -> Vec<Stored> {
        let changed = self.entries.iter().flat_map(|(_, entry)| &entry.changed);
        let mut fields: BTreeMap<ScopeName, Path> =
            changed.map(|changed| (changed.scope.clone(), changed.path.clone())).collect();
        for (scope, field) in [("media", "thumbnail"), ("pricing", "cost")] {
            fields.insert(ScopeName::parse(scope).unwrap(), path(field));
        }
        let stored = self.entries.iter().map(|(entity, entry)| {
            let mut stored = Stored::of(entity, entry);
            if entry.lifecycle == Lifecycle::Delete {
                for scope in entry.versions.keys() {
                    if entry.changed.iter().all(|changed| changed.scope != *scope) {
                        stored.changed.push(Changed {
                            path: fields[scope].clone(),
                            scope: scope.clone(),
                            old: Value::Absent,
                            new: Value::Absent,
                            strategy: None,
                        });
                    }
                }
            }
            stored
        });
        stored.collect()
    }
}

impl Mark {
    fn is_on(&self, entry: &Entry) -> bool {
        match self {
            Self::Value(unit, text) => entry.changed.iter().any(|changed| {
                changed.path.as_str() == *unit
                    && changed.new.json().and_then(|json| json.as_str()) == Some(text)
            }),
            Self::Job(job) => {
                matches!(&entry.trace, Trace::Operation(detail) if detail.job.as_ref() == Some(job))
            }
            Self::Delete => entry.lifecycle == Lifecycle::Delete,
        }
    }
}

/// Rows that tell the same thing and must agree: each query counts those that do not.
const AGREE: &[(&str, &str)] = &[
    (
        "a save has changes",
        "SELECT count(*) FROM fl_operation o WHERE o.lifecycle <> 'delete'
         AND NOT EXISTS (SELECT 1 FROM fl_change c WHERE c.save = o.save)",
    ),
    (
        "an editor's save has a version, a worker's has none",
        "SELECT count(*) FROM fl_operation o LEFT JOIN fl_version v USING (save)
         WHERE (o.writer_kind = 'editor') <> (v.save IS NOT NULL) OR o.number IS NOT v.number",
    ),
    (
        "a record counts its versions",
        "SELECT count(*) FROM fl_entity e WHERE e.number <>
         (SELECT count(*) FROM fl_version v WHERE v.entity = e.entity)",
    ),
    (
        "a value has the stamp of the change that left it",
        "SELECT count(*) FROM fl_entity e, json_each(e.data) d WHERE NOT EXISTS (
           SELECT 1 FROM fl_stamp s JOIN fl_operation o ON o.operation = s.operation
           JOIN fl_change c ON c.save = o.save AND c.path = s.path
           WHERE s.entity = e.entity AND s.path = d.key AND c.scope = s.scope
             AND c.version = s.version AND json_extract('[' || c.new || ']', '$[0]') IS d.value)",
    ),
    (
        "a stamp has its value",
        "SELECT count(*) FROM fl_stamp s JOIN fl_entity e USING (entity)
         WHERE NOT EXISTS (SELECT 1 FROM json_each(e.data) d WHERE d.key = s.path)",
    ),
    (
        "a scope counts the saves that raised it",
        "SELECT count(*) FROM fl_scope s WHERE s.version <> (
           SELECT count(*) FROM fl_operation o, json_each(o.scopes) j
           WHERE o.entity = s.entity AND j.key = s.scope
             AND json_extract(j.value, '$.after') = json_extract(j.value, '$.before') + 1)",
    ),
    (
        "the newest version knows the editors' values",
        "SELECT count(*) FROM fl_entity e JOIN fl_version v
         ON v.entity = e.entity AND v.number = e.number WHERE e.deleted_at IS NULL AND
           (json_extract(v.state, '$.name') IS NOT json_extract(e.data, '$.name') OR
            json_extract(v.state, '$.description') IS NOT json_extract(e.data, '$.description'))",
    ),
    (
        "a deleted record holds nothing",
        "SELECT count(*) FROM fl_entity e WHERE e.deleted_at IS NOT NULL AND
           (e.data <> '{}' OR EXISTS (SELECT 1 FROM fl_stamp s WHERE s.entity = e.entity))",
    ),
    (
        "fields that are always saved together are equal",
        "SELECT count(*) FROM fl_entity e WHERE
           json_extract(data, '$.name') IS NOT json_extract(data, '$.description') OR
           json_extract(data, '$.thumbnail') IS NOT json_extract(data, '$.width')",
    ),
    ("every reference has its row", "SELECT count(*) FROM pragma_foreign_key_check"),
    (
        "sqlite's own check",
        "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
    ),
];

fn rows(file: &FilePath) -> Vec<String> {
    let connection = rusqlite::Connection::open(file).unwrap();
    let count = |sql: &str| -> i64 { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
    let wrong = AGREE.iter().map(|(what, sql)| (what, count(sql)));
    wrong.filter(|(_, wrong)| *wrong > 0).map(|(what, wrong)| format!("{what}: {wrong}")).collect()
}

//! Erasure in an audit file: names and ids that must be forgotten are blanked where they stand.
//!
//! A line keeps its length, so other processes may go on appending, and a crash in the middle leaves lines that were
//! done and lines that were not; erasing again does the rest.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::Path,
};

use serde_json::Value as Json;

use crate::{
    entity::{EntityRef, Writer, WriterKind},
    upkeep::Erase,
};

/// Longest line looked at; ours are far shorter.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Takes a record's id, or a writer's name, out of every line of an audit file: `Customer/42` becomes `Customer`, a name
/// becomes empty. What happened and when stays. Lines that are not JSON stay as they are. Answers how many changed.
///
/// # Errors
/// When the file cannot be read or written; lines before that are done.
pub fn erase(path: &Path, what: &Erase) -> io::Result<u64> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut writer = OpenOptions::new().write(true).open(path)?;
    let (mut offset, mut changed, mut line) = (0_u64, 0, Vec::new());
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 {
            return writer.sync_data().map(|()| changed);
        }
        // One that is still being written, or longer than any of ours, is left alone.
        let whole = line.pop() == Some(b'\n') && line.len() <= LINE_BYTES_MAX;
        if let Some(blanked) = whole.then(|| blanked(&line, what)).flatten() {
            writer.seek(SeekFrom::Start(offset))?;
            writer.write_all(&blanked)?;
            changed += 1;
        }
        offset = offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    }
}

/// The line without what is erased, filled up with spaces; `None` when nothing of it is there.
fn blanked(line: &[u8], what: &Erase) -> Option<Vec<u8>> {
    let mut json: Json = serde_json::from_slice(line).ok()?;
    let found = match what {
        Erase::Entity(entity) => blank_entity(&mut json, entity),
        Erase::Writer(writer) => blank_writer(&mut json, writer),
    };
    if !found {
        return None;
    }
    let mut text = json.to_string().into_bytes();
    // Values only became shorter; a foreign line that was written without need for its spaces is the same length at most.
    (text.len() <= line.len()).then(|| {
        text.resize(line.len(), b' ');
        text
    })
}

fn blank_entity(line: &mut Json, entity: &EntityRef) -> bool {
    match line.get_mut("entity") {
        Some(named) if named.as_str() == Some(&entity.to_string()) => {
            *named = Json::from(entity.kind.as_str());
            true
        }
        _ => false,
    }
}

fn blank_writer(line: &mut Json, writer: &Writer) -> bool {
    let mut found = false;
    let mut blank = |member: Option<&mut Json>| {
        if let Some(member) = member.filter(|member| member.as_str() == Some(&*writer.name)) {
            *member = Json::from("");
            found = true;
        }
    };
    // Leases carry the writer's name as their label.
    blank(line.get_mut("label"));
    blank(line.get_mut("held_by"));
    if let Some(saved) = line.get_mut("writer") {
        if writer.kind == WriterKind::Editor {
            blank(saved.get_mut("on_behalf_of"));
        }
        if saved.get("kind") == serde_json::to_value(writer.kind).ok().as_ref() {
            blank(saved.get_mut("name"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = concat!(
        r#"{"at":"1","entity":"Customer/42","event":"saved","writer":{"kind":"editor","name":"anna"}}"#,
        "\n",
        r#"{"at":"2","entity":"Customer/421","event":"saved","writer":{"kind":"worker","name":"anna","on_behalf_of":"bo"}}"#,
        "\nnot json Customer/42 anna\n",
        r#"{"at":"3","entity":"Customer/7","event":"saved","writer":{"kind":"worker","name":"sync","on_behalf_of":"anna"}}"#,
        "\n",
        r#"{"at":"4","entity":"Customer/7","event":"lease_busy","held_by":"anna","label":"bo"}"#,
        "\n",
        r#"{"at":"5","entity":"Customer/42","event":"sa"#,
    );

    fn erased(what: &Erase) -> (u64, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        std::fs::write(&path, LINES).unwrap();
        let changed = erase(&path, what).unwrap();
        assert_eq!(erase(&path, what).unwrap(), 0, "a second time there is nothing to do");
        (changed, std::fs::read_to_string(&path).unwrap())
    }

    #[test]
    fn a_record_is_forgotten_by_its_id_and_every_other_byte_stays() {
        let (changed, text) = erased(&Erase::Entity(EntityRef::new("Customer", "42").unwrap()));

        assert_eq!(changed, 1);
        assert_eq!(text.len(), LINES.len());
        let first: Json = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(
            (&first["entity"], &first["writer"]["name"]),
            (&"Customer".into(), &"anna".into())
        );
        let others = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(others(&text), others(LINES));
    }

    #[test]
    fn a_person_is_forgotten_as_writer_as_the_one_acted_for_and_as_holder() {
        let (changed, text) = erased(&Erase::Writer(Writer::editor("anna")));

        assert_eq!(changed, 3);
        assert_eq!(text.len(), LINES.len());
        assert_eq!(
            text.matches("anna").count(),
            2,
            "a worker of that name, and what is no line of ours:\n{text}"
        );
        let worker = erased(&Erase::Writer(Writer::worker("anna")));
        assert_eq!((worker.0, worker.1.matches("\"anna\"").count()), (2, 2), "{}", worker.1);
    }
}

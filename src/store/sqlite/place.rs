//! Where the database is, and whether it is still there.

use std::{
    fs::{File, TryLockError},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
};

use crate::{
    error::{Error, Result},
    store::sqlite::fault::Fault,
};

/// A file that was opened, or memory.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Private to one connection.
    Memory,
    /// A file and what the file system called it when it was opened.
    File { path: PathBuf, identity: Option<Identity> },
}

/// Device and inode: a file that was deleted or replaced has others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Place {
    /// A file that a connection has just opened or made.
    pub(super) fn file(path: &Path) -> Self {
        Self::File { path: path.to_owned(), identity: identity(path) }
    }

    /// For messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Memory => "the database in memory".to_owned(),
            Self::File { path, .. } => path.display().to_string(),
        }
    }

    /// SQLite goes on writing to a deleted file, and what it acknowledges then is gone at the next start.
    pub(super) fn check(&self) -> std::result::Result<(), Fault> {
        match self {
            Self::File { path, identity: Some(was) } if identity(path) != Some(*was) => {
                let path = path.display();
                Err(Fault::Unavailable(format!(
                    "`{path}` was deleted, moved or replaced while it was open"
                )))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some(Identity(metadata.dev(), metadata.ino()))
}

/// Elsewhere an open file cannot be deleted.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}

/// Takes the lock file beside the database; the operating system lets go of it when the process ends, however it
/// ends. The file itself stays: deleting it would let two processes lock two files of one name.
pub(super) fn lock(database: &Path) -> Result<File> {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let shown = path.display().to_string();
    let failed =
        |error: std::io::Error| Error::unavailable(format!("cannot lock `{shown}`: {error}"));
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Whoever holds it may be writing its number just now; the message then goes without.
            let _unread = file.read_to_string(&mut holder);
            let holder = holder.trim();
            let by = if holder.is_empty() { String::new() } else { format!(" ({holder})") };
            return Err(Error::invalid(
                "store_in_use",
                format!("`{}` is served by another process{by}", database.display()),
                "stop it first, or serve another file",
            ));
        }
    }
    file.set_len(0).map_err(failed)?;
    file.rewind().map_err(failed)?;
    writeln!(file, "process {}", std::process::id()).map_err(failed)?;
    Ok(file)
}

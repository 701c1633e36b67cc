//! The files of a new database server, made once in a test process and copied for each server.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Mutex,
};

use crate::servers::daemon::{run, watch};

/// A folder that is gone with the process.
pub(crate) struct Template {
    data: PathBuf,
    _watcher: Child,
}

impl Template {
    /// Copies the template to `to`; whoever comes first makes it.
    pub(crate) fn copy(template: &Mutex<Option<Self>>, to: &Path, make: impl FnOnce(&Path)) {
        let mut template = template.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let made = template.get_or_insert_with(|| {
            let folder = tempfile::Builder::new().prefix("fl-").tempdir().unwrap().keep();
            let watcher = watch(&folder);
            let data = folder.join("data");
            make(&data);
            Self { data, _watcher: watcher }
        });
        run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(&made.data).arg(to));
    }
}

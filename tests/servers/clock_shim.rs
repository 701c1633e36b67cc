//! A server whose wall clock a test moves. The clock of this machine is never touched.

use std::{fs, path::PathBuf, process::Command};

use tempfile::TempDir;

use crate::servers::{Flavour, Server, Setup};

pub(crate) struct WrongClock {
    pub(crate) server: Server,
    file: PathBuf,
    _dir: TempDir,
}

impl WrongClock {
    /// A server that is right for now.
    pub(crate) fn start(flavour: Flavour, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (library, file) = (dir.path().join("clock.so"), dir.path().join("wrong_by"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/clock_shim.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library);
        let output = compiler.arg(source).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(&file, 0_i64.to_ne_bytes()).unwrap();
        let server = Setup::new(flavour)
            .arguments(arguments)
            .variable("LD_PRELOAD", &library)
            .variable("FIELDLEASE_CLOCK", &file)
            .start();
        Self { server, file, _dir: dir }
    }

    /// From now on its time of day is wrong by so many milliseconds.
    pub(crate) fn wrong_by_ms(&self, ms: i64) {
        // Overwritten in place: the server has the file mapped.
        use std::os::unix::fs::FileExt;
        let file = fs::OpenOptions::new().write(true).open(&self.file).unwrap();
        file.write_all_at(&(ms * 1000).to_ne_bytes(), 0).unwrap();
    }
}

//! Which server, and where its program is.

use std::{
    fmt,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

/// A server the product runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flavour {
    /// Redis 7.0 of Debian, or the Redis on the search path.
    Redis7,
    /// The oldest that is supported.
    Redis62,
    Valkey9,
}

impl Flavour {
    pub(crate) const ALL: [Self; 3] = [Self::Redis7, Self::Redis62, Self::Valkey9];

    /// The setting that names its program, and the file under `target/servers` that is it otherwise.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Redis7 => ("FIELDLEASE_REDIS_SERVER", "redis-server"),
            Self::Redis62 => ("FIELDLEASE_REDIS62", "redis-6.2"),
            Self::Valkey9 => ("FIELDLEASE_VALKEY9", "valkey-9"),
        }
    }

    /// The program. One that is not there fails the test: a skipped test shows nothing.
    pub(crate) fn program(self) -> PathBuf {
        let (setting, file) = self.names();
        if let Some(path) = std::env::var_os(setting) {
            return PathBuf::from(path);
        }
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers").join(file);
        let mut places = vec![ours];
        if self == Self::Redis7 {
            let path = std::env::var_os("PATH").unwrap_or_default();
            places.extend(std::env::split_paths(&path).map(|folder| folder.join("redis-server")));
            // One program with many names: Debian's package of tools has the server in it and starts no daemon.
            places.push(PathBuf::from("/usr/bin/redis-check-rdb"));
        }
        let found = places.into_iter().find(|place| place.is_file());
        found.unwrap_or_else(|| {
            panic!("no program for {self}: `./test.sh` installs it, or name one in {setting}")
        })
    }

    /// A command that starts it, without arguments.
    pub(crate) fn command(self) -> Command {
        let mut command = Command::new(self.program());
        // Which of its programs it is, it sees from its name.
        command.arg0("redis-server");
        command
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis7 => "Redis 7",
            Self::Redis62 => "Redis 6.2",
            Self::Valkey9 => "Valkey 9",
        })
    }
}

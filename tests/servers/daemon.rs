//! A database server as a process: in a folder of its own, under an account that may run it, gone with the tests.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Runs a command as another account when the tests run as root: database servers refuse to run as root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account(&'static str);

impl Account {
    pub(crate) const POSTGRES: Self = Self("postgres");
    pub(crate) const MYSQL: Self = Self("mysql");

    /// The command, run by the account.
    pub(crate) fn command(self, program: &Path) -> Command {
        if !rustix::process::geteuid().is_root() {
            return Command::new(program);
        }
        // It becomes the program, so that the process id is that of the server.
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={}", self.0)).arg(format!("--regid={}", self.0));
        command.arg("--clear-groups").arg(program);
        command
    }

    /// A new folder that belongs to the account.
    pub(crate) fn folder(self) -> TempDir {
        let dir = tempfile::Builder::new().prefix("fl-").tempdir().unwrap();
        self.own(dir.path());
        dir
    }

    /// Gives everything in the folder to the account.
    pub(crate) fn own(self, path: &Path) {
        if rustix::process::geteuid().is_root() {
            run(Command::new("chown").args(["-R", &format!("{0}:{0}", self.0)]).arg(path));
        }
    }
}

/// A process that serves.
pub(crate) struct Daemon {
    account: Account,
    child: Mutex<Child>,
    watcher: Option<Child>,
    dir: TempDir,
}

impl Daemon {
    pub(crate) fn start(
        account: Account,
        dir: TempDir,
        program: &Path,
        arguments: &[String],
        surroundings: &[(String, String)],
    ) -> Self {
        let watcher = watch(dir.path());
        let child = spawn(account, dir.path(), program, arguments, surroundings);
        Self { account, child: Mutex::new(child), watcher: Some(watcher), dir }
    }

    /// Starts it again in the same folder. It must have ended.
    pub(crate) fn again(
        &self,
        program: &Path,
        arguments: &[String],
        surroundings: &[(String, String)],
    ) {
        let child = spawn(self.account, self.dir.path(), program, arguments, surroundings);
        *self.child.lock().unwrap() = child;
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What it wrote since it was last started.
    pub(crate) fn log(&self) -> String {
        fs::read(log_file(self.dir()))
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// Whether it has not ended by itself.
    pub(crate) fn is_running(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_none()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        child.wait().unwrap();
    }

    /// Waits until it ended by itself.
    pub(crate) fn wait(&self) {
        self.child.lock().unwrap().wait().unwrap();
    }

    /// Kills a process of this server that is not the first one. One that is not its child is somebody else's.
    pub(crate) fn kill_child(&self, pid: u32) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        let parent = rest.split(' ').nth(1).unwrap();
        assert_eq!(parent, self.pid().to_string(), "process {pid} is none of this server");
        send(pid, Signal::KILL);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
        if let Some(mut watcher) = self.watcher.take() {
            drop(watcher.stdin.take());
            let _ = watcher.wait();
        }
    }
}

/// A process that ends whatever lives in the folder when this process ends. One that is killed runs no destructors, and
/// what stands in a static has none.
pub(crate) fn watch(dir: &Path) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/end.sh");
    let mut command = Command::new("sh");
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut watcher = command.process_group(0).spawn().unwrap();
    writeln!(watcher.stdin.as_mut().unwrap(), "{}", dir.display()).unwrap();
    watcher
}

/// Runs a program to its end; what it says when it fails is told.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// The first of these that is a program; one that is not there fails the test.
pub(crate) fn program(setting: &str, places: &[&str]) -> PathBuf {
    if let Some(path) = std::env::var_os(setting) {
        return PathBuf::from(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find = |place: &&str| {
        let absolute = PathBuf::from(place);
        let mut candidates = vec![absolute.clone()];
        if absolute.is_relative() {
            candidates = std::env::split_paths(&path).map(|folder| folder.join(place)).collect();
            candidates.push(Path::new("/usr/sbin").join(place));
        }
        candidates.into_iter().find(|candidate| candidate.is_file())
    };
    places.iter().find_map(find).unwrap_or_else(|| {
        panic!("no program {places:?}: `./test.sh` installs it, or name one in {setting}")
    })
}

fn spawn(
    account: Account,
    dir: &Path,
    program: &Path,
    arguments: &[String],
    surroundings: &[(String, String)],
) -> Child {
    let log = File::create(log_file(dir)).unwrap();
    let mut command = account.command(program);
    command.args(arguments).current_dir("/").stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log);
    command.envs(surroundings.iter().map(|(name, value)| (name, value)));
    command
        .spawn()
        .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()))
}

fn log_file(dir: &Path) -> PathBuf {
    dir.join("log")
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

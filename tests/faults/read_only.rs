//! A place that nobody may write to is refused at the start, in words, and left as it is.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

use serde_json::{Value as Json, json};

use crate::service::Service;

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The service as somebody whom the file system can refuse something: root it cannot. One that starts is ended.
fn serve(dir: &Path) -> Command {
    let plain = Service::command(dir);
    let mut command = Command::new("timeout");
    command.arg("30").current_dir(dir);
    if fs::metadata(dir).unwrap().uid() == 0 {
        command.args(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    }
    command.arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn a_store_that_may_only_be_read_is_refused_at_the_start_and_left_as_it_is() {
    let service = Service::start();
    service.product("1", json!({"name": "Stool"}));
    let (well, dir) = service.stop();
    assert!(well);
    let (data, file) = (dir.path().join("data"), dir.path().join("data/fieldlease.db"));
    for path in [dir.path(), &data] {
        allow(path, 0o755);
    }
    for path in fs::read_dir(&data).unwrap().chain(fs::read_dir(dir.path()).unwrap()) {
        let path = path.unwrap().path();
        if path.is_file() {
            allow(&path, 0o444);
        }
    }
    allow(&data, 0o555);
    let before = fs::read(&file).unwrap();

    for (lock_mode, code, says) in
        [(0o444, "unavailable", "cannot lock"), (0o666, "read_only", "it is read-only")]
    {
        allow(&data.join("fieldlease.db.lock"), lock_mode);

        let ended = serve(dir.path()).output().unwrap();

        let said = String::from_utf8_lossy(&ended.stdout);
        let said: Json = serde_json::from_str(&said).unwrap_or_else(|_| {
            panic!("{said}{}", String::from_utf8_lossy(&ended.stderr));
        });
        assert!(!ended.status.success());
        assert_eq!(said["error"], code, "{said}");
        let message = said["message"].as_str().unwrap();
        assert!(message.contains("fieldlease.db") && message.contains(says), "{said}");
        assert_eq!(fs::read(&file).unwrap(), before);
    }

    // With the permission back it goes on.
    allow(&data, 0o755);
    for path in fs::read_dir(&data).unwrap() {
        allow(&path.unwrap().path(), 0o644);
    }
    let service = Service::start_in(dir, &[]);
    assert_eq!(service.get("anna", "/v1/entities/Product/1").body["fields"]["name"], "Stool");
}

//! Servers that speak TLS, with certificates made on the spot by `openssl`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::servers::{Flavour, Server, Setup};

/// An authority of its own and what it signed. The folder is gone with it.
pub(crate) struct Certificates {
    dir: TempDir,
}

impl Certificates {
    /// An authority, a server's certificate for 127.0.0.1 and localhost, and a client's.
    pub(crate) fn make() -> Self {
        let this = Self { dir: tempfile::tempdir().unwrap() };
        this.authority("ca");
        this.sign("server", "ca", "subjectAltName=IP:127.0.0.1,DNS:localhost", 2);
        this.sign("client", "ca", "extendedKeyUsage=clientAuth", 2);
        this
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Another authority: `NAME.crt` and `NAME.key`.
    pub(crate) fn authority(&self, name: &str) {
        let (key, certificate) = (format!("{name}.key"), format!("{name}.crt"));
        self.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            &key,
            "-out",
            &certificate,
            "-days",
            "2",
            "-subj",
            "/CN=authority of a test",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign,cRLSign",
        ]);
    }

    /// A certificate for `days` from now; one that is over already with a negative number.
    pub(crate) fn sign(&self, name: &str, authority: &str, extension: &str, days: i32) {
        let file = |end: &str| format!("{name}.{end}");
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            &file("key"),
            "-out",
            &file("csr"),
            "-subj",
            &format!("/CN={name}"),
        ]);
        fs::write(self.path(&file("ext")), format!("{extension}\nbasicConstraints=CA:FALSE\n"))
            .unwrap();
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &file("csr"),
            "-CA",
            &format!("{authority}.crt"),
            "-CAkey",
            &format!("{authority}.key"),
            "-CAcreateserial",
            "-out",
            &file("crt"),
            "-extfile",
            &file("ext"),
            "-days",
            &days.to_string(),
        ]);
    }

    fn openssl(&self, arguments: &[&str]) {
        let mut command = Command::new("openssl");
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        let output = command.output().unwrap_or_else(|error| {
            panic!("`openssl` makes the certificates of the tests, and cannot be run: {error}")
        });
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A server with these certificates. Without `clients` it asks for no certificate of a client.
    pub(crate) fn server(&self, flavour: Flavour, certificate: &str, clients: bool) -> Server {
        let path = |file: &str| text(&self.path(file));
        Setup::new(flavour)
            .tls()
            .arguments(&["--tls-cert-file", &path(&format!("{certificate}.crt"))])
            .arguments(&["--tls-key-file", &path(&format!("{certificate}.key"))])
            .arguments(&["--tls-ca-cert-file", &path("ca.crt")])
            .arguments(&["--tls-auth-clients", if clients { "yes" } else { "no" }])
            .start()
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

//! TLS to a server. A certificate is checked whenever TLS is spoken; there is no switch to leave that out.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{
    database::postgres::options::TlsFiles,
    error::{Error, Result},
};

/// What makes TLS of a connection. Reads files; blocks for a moment.
pub(crate) fn connector(files: &TlsFiles, wanted: bool) -> Result<MakeRustlsConnect> {
    let mut roots = RootCertStore::empty();
    match &files.roots {
        Some(path) => {
            for certificate in certificates(path, "sslrootcert")? {
                roots.add(certificate).map_err(|error| wrong("sslrootcert", path, &error))?;
            }
        }
        // Those that cannot be read are left out; with none at all, no certificate is good.
        None if wanted => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        None => {}
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal(error.to_string()))?
        .with_root_certificates(roots);
    let config = match &files.identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = certificates(cert, "sslcert")?;
            let der =
                PrivateKeyDer::from_pem_file(key).map_err(|error| wrong("sslkey", key, &error))?;
            builder
                .with_client_auth_cert(chain, der)
                .map_err(|error| wrong("sslcert", cert, &error))?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(what, path, &error))?;
    if found.is_empty() {
        return Err(wrong(what, path, &"no certificate in it"));
    }
    Ok(found)
}

fn wrong(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::invalid(
        "bad_tls",
        format!("`{what}` file `{}`: {error}", path.display()),
        "name a file in PEM form that this process may read",
    )
}

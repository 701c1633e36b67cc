//! TLS to a server. Certificates are always checked; there is no switch to leave that out.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::lease::redis::{fault::Fault, url::TlsFiles};

/// Secures the stream, or fails; never falls back to plain text.
pub(super) async fn secure(
    stream: TcpStream,
    host: &str,
    files: &TlsFiles,
) -> Result<TlsStream<TcpStream>, Fault> {
    let files = files.clone();
    // Reading the certificates of a machine takes milliseconds of disk.
    let config = tokio::task::spawn_blocking(move || config(&files));
    let config =
        config.await.map_err(|error| wrong(format!("certificates not read: {error}")))??;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| wrong(format!("`{host}` is no name a certificate could carry")))?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.map_err(|error| {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        // An answer that is no TLS at all says nothing about certificates.
        let refused = inner.is_some_and(|inner| !matches!(inner, rustls::Error::InvalidMessage(_)));
        Fault::not_executed(if refused { "config" } else { "io" }, format!("no TLS: {error}"))
    })
}

/// Reads the files anew, so that renewed certificates are found.
pub(super) fn config(files: &TlsFiles) -> Result<ClientConfig, Fault> {
    let mut roots = RootCertStore::empty();
    match &files.ca {
        Some(path) => {
            for certificate in certificates(path, "ca")? {
                roots
                    .add(certificate)
                    .map_err(|error| wrong(format!("`ca` file `{}`: {error}", path.display())))?;
            }
        }
        None => {
            // Those that cannot be read are left out; with none at all, nothing can be trusted.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(wrong(
                    "this machine has no certificates to trust; name one with `ca=FILE`",
                ));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots);
    match &files.identity {
        None => Ok(builder.with_no_client_auth()),
        Some((cert, key)) => {
            let chain = certificates(cert, "cert")?;
            let key_der = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| wrong(format!("`key` file `{}`: {error}", key.display())))?;
            builder.with_client_auth_cert(chain, key_der).map_err(|error| {
                wrong(format!(
                    "`cert` file `{}` and `key` file `{}`: {error}",
                    cert.display(),
                    key.display()
                ))
            })
        }
    }
}

fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let fault = |error: &dyn std::fmt::Display| {
        wrong(format!("`{what}` file `{}`: {error}", path.display()))
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| fault(&error))?;
    if found.is_empty() {
        return Err(fault(&"no certificate in it"));
    }
    Ok(found)
}

fn wrong(message: impl Into<String>) -> Fault {
    Fault::not_executed("config", message)
}

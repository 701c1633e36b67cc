//! TLS, ended by a small proxy of our own, so that every server can be behind it.

use std::{
    future::poll_fn,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::lease::redis::{
    link::Link,
    trial::server::{Server, bulk, echo, settings, target},
};

fn file(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls");
    folder.join(name).to_string_lossy().into_owned()
}

/// Ends TLS with this certificate in front of the server, and answers the port. With `strict`, clients need one too.
async fn front(server: &Server, certificate: &str, strict: bool) -> (u16, JoinSet<()>) {
    let chain: Vec<_> = CertificateDer::pem_file_iter(file(&format!("{certificate}.pem")))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_file(file(&format!("{certificate}.key"))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if strict {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let behind = server.port;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut streams = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            streams.spawn(async move {
                let Ok(mut client) = acceptor.accept(stream).await else { return };
                let mut server = TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                join(&mut client, &mut server).await;
            });
        }
    });
    (port, tasks)
}

/// Carries bytes both ways until one side ends.
async fn join<A, B>(left: &mut A, right: &mut B)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Vec::new(), Vec::new());
    poll_fn(|cx| {
        let there = carry(cx, left, right, &mut there);
        let back = carry(cx, right, left, &mut back);
        if there.is_ready() || back.is_ready() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn carry<A, B>(cx: &mut Context<'_>, from: &mut A, to: &mut B, held: &mut Vec<u8>) -> Poll<()>
where
    A: AsyncRead + Unpin,
    B: AsyncWrite + Unpin,
{
    loop {
        while !held.is_empty() {
            match ready!(Pin::new(&mut *to).poll_write(cx, held)) {
                Ok(count) => drop(held.drain(..count)),
                Err(_) => return Poll::Ready(()),
            }
        }
        let _ = Pin::new(&mut *to).poll_flush(cx);
        let mut bytes = [0; 4_096];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = ready!(Pin::new(&mut *from).poll_read(cx, &mut buffer));
        if read.is_err() || buffer.filled().is_empty() {
            return Poll::Ready(());
        }
        held.extend_from_slice(buffer.filled());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_decide_who_is_talked_to() {
    let server = Server::start(&[]);
    let (good, _good) = front(&server, "server", false).await;
    let (expired, _expired) = front(&server, "expired", false).await;
    let (elsewhere, _elsewhere) = front(&server, "elsewhere", false).await;
    let (strict, _strict) = front(&server, "server", true).await;
    let identity = format!("cert={}&key={}", file("client.pem"), file("client.key"));
    let ca = format!("ca={}", file("ca.pem"));
    let cases = [
        (format!("rediss://127.0.0.1:{good}?{ca}"), None),
        (format!("rediss://localhost:{good}?{ca}"), None),
        (format!("rediss://127.0.0.1:{strict}?{ca}&{identity}"), None),
        (format!("rediss://127.0.0.1:{strict}?{ca}"), Some("")),
        (format!("rediss://127.0.0.1:{good}?ca={}", file("other_ca.pem")), Some("UnknownIssuer")),
        (format!("rediss://127.0.0.1:{good}"), Some("UnknownIssuer")),
        (format!("rediss://127.0.0.1:{expired}?{ca}"), Some("certificate expired")),
        (format!("rediss://127.0.0.1:{elsewhere}?{ca}"), Some("not valid for name")),
        (format!("rediss://127.0.0.1:{}?{ca}", server.port), Some("write `redis` in front")),
        (format!("redis://127.0.0.1:{good}"), Some("write `rediss` in front")),
        (format!("rediss://127.0.0.1:{good}?ca=/nowhere.pem"), Some("`ca` file `/nowhere.pem`")),
        (format!("rediss://127.0.0.1:{good}?ca={}", file("server.key")), Some("no certificate")),
        (
            format!(
                "rediss://127.0.0.1:{good}?{ca}&cert={}&key={}",
                file("ca.pem"),
                file("client.key")
            ),
            Some("`cert` file"),
        ),
    ];

    for (url, expected) in cases {
        let linked = Link::connect(&target(&url), settings()).await;
        match (linked, expected) {
            (Ok(link), None) => {
                assert_eq!(link.send(0, &echo("x"), None).await, Ok(bulk("x")), "{url}");
                assert!(link.subscribe("c").await.is_ok(), "{url}");
            }
            (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{url}: {error}"),
            (Err(error), None) => panic!("{url}: {error}"),
            (Ok(_), Some(part)) => panic!("{url}: let in, although {part}"),
        }
    }
}

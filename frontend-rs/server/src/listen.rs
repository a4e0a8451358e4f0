//! Sockets: binding, accepting, and ending connections gently.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;
use vllm_rs_flags::FrontendConfig;

/// A client that takes longer to send its request's head is cut off.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed accept (out of file descriptors), so that the loop does not spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("port {port} on {host} is in use; choose another with --port N (0 picks a free one)")]
    PortInUse { host: String, port: u64 },
    #[error("cannot listen on {address}: {source}; check --host, --port and --uds")]
    Bind { address: String, source: io::Error },
}

/// A socket that accepts clients.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    /// The file is removed when the server ends.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub async fn bind(config: &FrontendConfig) -> Result<Self, ListenError> {
        if let Some(path) = &config.uds {
            return bind_unix(path.into());
        }
        let FrontendConfig { host, port, .. } = config;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port_number = u16::try_from(*port).unwrap_or(0);
        TcpListener::bind((bare, port_number))
            .await
            .map(Self::Tcp)
            .map_err(|source| match source.kind() {
                io::ErrorKind::AddrInUse => ListenError::PortInUse {
                    host: host.clone(),
                    port: *port,
                },
                _ => ListenError::Bind {
                    address: format!("{host}:{port}"),
                    source,
                },
            })
    }

    /// Where clients find it, as a URL they can use from this machine.
    pub fn url(&self) -> String {
        match self {
            Self::Tcp(listener) => match listener.local_addr() {
                Ok(address) if address.ip().is_unspecified() => {
                    format!("http://127.0.0.1:{}", address.port())
                }
                Ok(address) => format!("http://{address}"),
                Err(_) => "http://unknown".to_owned(),
            },
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }
}

fn bind_unix(path: PathBuf) -> Result<Listener, ListenError> {
    // A socket nobody answers on is left over from a server that was killed.
    let stale = path.exists() && std::os::unix::net::UnixStream::connect(&path).is_err();
    let removed = if stale {
        std::fs::remove_file(&path)
    } else {
        Ok(())
    };
    match removed.and_then(|()| UnixListener::bind(&path)) {
        Ok(listener) => Ok(Listener::Unix(listener, path)),
        Err(source) => Err(ListenError::Bind {
            address: path.display().to_string(),
            source,
        }),
    }
}

/// Accepts until `stop`, then lets open connections finish what they are sending.
pub async fn serve(listener: Listener, router: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let path = match listener {
        Listener::Tcp(listener) => {
            let accept = || async {
                let (stream, _) = listener.accept().await?;
                // Tokens are small: waiting to fill a segment would delay them.
                stream.set_nodelay(true)?;
                Ok(stream)
            };
            accept_loop(accept, &router, &stop, &connections).await;
            None
        }
        Listener::Unix(listener, path) => {
            let accept = || async { Ok(listener.accept().await?.0) };
            accept_loop(accept, &router, &stop, &connections).await;
            Some(path)
        }
    };
    connections.close();
    connections.wait().await;
    if let Some(path) = path {
        // Gone already is as good.
        let _ = std::fs::remove_file(path);
    }
}

async fn accept_loop<S, F>(
    accept: impl Fn() -> F,
    router: &Router,
    stop: &CancellationToken,
    connections: &TaskTracker,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<S>>,
{
    loop {
        let accepted = tokio::select! {
            accepted = accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok(stream) => {
                connections.spawn(connection(stream, router.clone(), stop.clone()));
            }
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn connection<S>(stream: S, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move { Ok::<_, Infallible>(unwrap_infallible(router.call(request.map(Body::new)).await)) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended early: {error}");
    }
}

fn unwrap_infallible<T>(result: Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

//! Sockets: binding, accepting, and ending connections gently.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vllm_rs_flags::FrontendConfig;

use crate::connection::{OpenConnection, connection};
use crate::state::AppState;
use crate::unix_socket::UnixSocket;

/// Pause after a failed accept (out of file descriptors), so that the loop does not spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("port {port} on {host} is in use; choose another with --port N (0 picks a free one)")]
    PortInUse { host: String, port: u64 },
    #[error("cannot listen on {address}: {source}; check --host, --port and --uds")]
    Bind { address: String, source: io::Error },
    #[error("--uds {path}: {what}; choose another path")]
    SocketPath { path: String, what: String },
}

/// A socket that accepts clients.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

impl Listener {
    pub async fn bind(config: &FrontendConfig) -> Result<Self, ListenError> {
        if let Some(path) = &config.uds {
            return UnixSocket::bind(path.into()).map(Self::Unix);
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
            Self::Unix(socket) => format!("unix:{}", socket.path().display()),
        }
    }
}

/// Accepts until `stop`, then lets open connections finish what they are sending.
pub async fn serve(listener: Listener, router: Router, state: AppState, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let server = Server {
        router,
        state,
        stop,
        connections: connections.clone(),
    };
    // The socket's file goes with the listener, once the last answer is out.
    match &listener {
        Listener::Tcp(listener) => {
            let accept = || async {
                let (stream, _) = listener.accept().await?;
                // Tokens are small: waiting to fill a segment would delay them.
                stream.set_nodelay(true)?;
                Ok(stream)
            };
            server.accept_until_stopped(accept).await;
        }
        Listener::Unix(socket) => server.accept_until_stopped(|| socket.accept()).await,
    }
    connections.close();
    connections.wait().await;
}

struct Server {
    router: Router,
    state: AppState,
    stop: CancellationToken,
    connections: TaskTracker,
}

impl Server {
    /// Accepts at most as many connections as the limits allow; further clients wait in the kernel's queue.
    async fn accept_until_stopped<S, F>(&self, accept: impl Fn() -> F)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        F: Future<Output = io::Result<S>>,
    {
        let limit = self.state.limits().connections;
        let room = Arc::new(Semaphore::new(limit));
        loop {
            if room.available_permits() == 0 {
                tracing::warn!(
                    limit,
                    "as many connections are open as are allowed; new ones wait"
                );
            }
            let accepted = async {
                // Never closed.
                let place = room.clone().acquire_owned().await.map_err(io::Error::other)?;
                Ok::<_, io::Error>((accept().await?, place))
            };
            let accepted = tokio::select! {
                accepted = accepted => accepted,
                () = self.stop.cancelled() => return,
            };
            match accepted {
                Ok((stream, place)) => {
                    let open = OpenConnection::new(self.state.clone(), place);
                    let (router, stop) = (self.router.clone(), self.stop.clone());
                    self.connections.spawn(connection(stream, router, open, stop));
                }
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

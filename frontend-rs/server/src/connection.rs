//! One client connection: its HTTP version, its deadlines, its end.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::state::AppState;

/// An HTTP/2 client that is silent this long is asked for a sign of life, and has as long again to give it.
const HTTP2_KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The place of an open connection among those allowed; given back, and no longer counted, when dropped.
pub struct OpenConnection {
    state: AppState,
    _place: OwnedSemaphorePermit,
}

impl OpenConnection {
    pub fn new(state: AppState, place: OwnedSemaphorePermit) -> Self {
        state.http().open_connections.inc();
        Self { state, _place: place }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.state.http().open_connections.dec();
    }
}

/// Serves one connection until it ends, or until `stop` and what it was sending then is sent.
pub async fn connection<S>(stream: S, router: Router, open: OpenConnection, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let header_read = open.state.limits().header_read;
    let first_request = Arc::new(Notify::new());
    let seen = first_request.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        seen.notify_one();
        let mut router = router.clone();
        async move { Ok::<_, Infallible>(unwrap_infallible(router.call(request.map(Body::new)).await)) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_read);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HTTP2_KEEP_ALIVE)
        .keep_alive_timeout(HTTP2_KEEP_ALIVE);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // The timers above run only once the version is known, which takes a first line, or the 24 bytes of HTTP/2.
    let silent = async {
        if tokio::time::timeout(header_read, first_request.notified())
            .await
            .is_ok()
        {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = silent => {
            tracing::debug!("a connection without a request is closed");
            return;
        }
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

//! Real sockets: clients that send nothing, or half a request, and more clients than there is room for.

mod common;

use std::time::Duration;

use common::TestServer;
use common::fake_engine::FakeEngine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use vllm_rs_flags::Config;
use vllm_rs_server::limits::Limits;
use vllm_rs_server::listen::{Listener, serve};

/// Far longer than anything here takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

struct Running {
    server: TestServer,
    address: String,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start(limits: Limits) -> Running {
    let mut config = Config::default();
    config.frontend.port = 0;
    let server = TestServer::with_limits(&config, limits, FakeEngine::writing("a"));
    let listener = Listener::bind(&config.frontend).await.expect("a free port");
    let address = listener.url().replace("http://", "");
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(
        listener,
        server.router.clone(),
        server.state.clone(),
        stop.clone(),
    ));
    Running {
        server,
        address,
        stop,
        task,
    }
}

async fn connect(address: &str) -> TcpStream {
    TcpStream::connect(address).await.expect("connected")
}

/// What the server sends until it closes the connection.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .expect("the server closes the connection")
        .expect("readable");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn clients_that_send_no_request_are_cut_off() {
    let limits = Limits {
        header_read: Duration::from_millis(200),
        ..Limits::default()
    };
    let running = start(limits).await;
    // Nothing; the beginning of HTTP/2; all of it and no request; half a head.
    let whole_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for bytes in ["", "PRI * HTT", whole_preface, "GET /live HTTP/1.1\r\nHost:"] {
        let mut stream = connect(&running.address).await;
        stream.write_all(bytes.as_bytes()).await.expect("sent");
        until_closed(&mut stream).await;
    }
    let mut stream = connect(&running.address).await;
    stream
        .write_all(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .expect("sent");
    assert!(
        until_closed(&mut stream).await.starts_with("HTTP/1.1 200"),
        "answered, then idle"
    );
    running.stop.cancel();
    running.task.await.expect("the server ends");
    assert_eq!(running.server.state.http().open_connections.get(), 0);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_place() {
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let running = start(limits).await;
    let mut first = connect(&running.address).await;
    let ask = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    first.write_all(ask).await.expect("sent");
    let mut answer = vec![0; 1 << 16];
    let length = first.read(&mut answer).await.expect("answered");
    let page = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let mut second = connect(&running.address).await;
    second
        .write_all(b"GET /live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .expect("sent");
    assert_eq!(running.server.state.http().open_connections.get(), 1);
    drop(first);
    assert!(until_closed(&mut second).await.starts_with("HTTP/1.1 200"));
    running.stop.cancel();
    running.task.await.expect("the server ends");
}

//! What goes wrong with an engine, and what its streams and its health then say.

mod common;

use std::time::Duration;

use common::{config, connect, failure, health_becomes, mock_config, request, soon, tokens};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use vllm_rs_engine_client::mock::{GarbageKind, MockConfig, run_mock_engine};
use vllm_rs_engine_client::{
    ClientConfig, ClientError, EngineClient, EngineHealth, EngineSource, RestartPolicy, RuntimeDir,
    StreamError,
};
use vllm_rs_wire::{
    EngineCoreReadyResponse, HandshakeInit, HandshakeMessage, HandshakeStatus, decode_payload, encode_payload,
};
use zeromq::util::PeerIdentity;
use zeromq::{DealerSocket, Socket, SocketOptions, SocketRecv, SocketSend, ZmqMessage};

fn is_dead(health: &EngineHealth) -> bool {
    matches!(health, EngineHealth::Dead { .. })
}

fn is_unhealthy(health: &EngineHealth) -> bool {
    matches!(health, EngineHealth::Unhealthy { .. })
}

#[tokio::test]
async fn a_death_ends_every_stream_and_the_engine_comes_back_once() {
    for crash_silently in [false, true] {
        let mock = MockConfig {
            crash_after: Some(6),
            crash_silently,
            ..MockConfig::default()
        };
        let client = connect(mock).await;
        let streams = ["a", "b", "c"].map(|id| client.submit(request(id, 100)).unwrap());
        let mut health = client.health();
        for stream in streams {
            let error = failure(stream).await;
            assert!(matches!(error, StreamError::EngineDied { .. }), "{error}");
        }
        soon("the restart", health.wait_for(EngineHealth::is_ready))
            .await
            .unwrap();
        health_becomes(&client, EngineHealth::is_ready).await;
        assert_eq!(tokens(client.submit(request("d", 3)).unwrap()).await.len(), 3);
        // It dies again, and stays dead: one restart is all it gets.
        let error = failure(client.submit(request("e", 100)).unwrap()).await;
        assert!(matches!(error, StreamError::EngineDied { .. }), "{error}");
        health_becomes(&client, is_dead).await;
        assert!(matches!(
            client.submit(request("f", 1)),
            Err(ClientError::Dead { .. })
        ));
        assert_eq!(client.counters().engine_deaths, 2);
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_dead_engine_fails() {
    let mock = MockConfig {
        crash_after: Some(1),
        hang_after: None,
        ..MockConfig::default()
    };
    let config = ClientConfig {
        restart: RestartPolicy {
            max_restarts: 0,
            ..RestartPolicy::default()
        },
        ..mock_config(mock)
    };
    let client = soon("connecting", EngineClient::connect(config)).await.unwrap();
    failure(client.submit(request("a", 5)).unwrap()).await;
    health_becomes(&client, is_dead).await;
    let error = soon("the call", client.utility("is_sleeping", vec![]))
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Dead { .. }), "{error}");
}

#[tokio::test]
async fn a_hung_engine_is_unhealthy_then_killed_and_replaced() {
    let mock = MockConfig {
        hang_after: Some(5),
        ..MockConfig::default()
    };
    let config = ClientConfig {
        stall_after: Duration::from_millis(100),
        kill_stalled_after: Some(Duration::from_secs(3)),
        ..mock_config(mock)
    };
    let client = soon("connecting", EngineClient::connect(config)).await.unwrap();
    let stream = client.submit(request("a", 100)).unwrap();
    let health = health_becomes(&client, is_unhealthy).await;
    assert!(health.to_string().contains("1 requests open"), "{health}");
    let error = failure(stream).await;
    assert!(error.to_string().contains("no progress"), "{error}");
    health_becomes(&client, EngineHealth::is_ready).await;
    assert_eq!(tokens(client.submit(request("b", 2)).unwrap()).await.len(), 2);
}

#[tokio::test]
async fn a_hung_engine_that_nobody_waits_for_any_more_is_replaced_too() {
    let mock = MockConfig {
        hang_after: Some(1),
        ..MockConfig::default()
    };
    let config = ClientConfig {
        stall_after: Duration::from_millis(100),
        kill_stalled_after: Some(Duration::from_secs(2)),
        ..mock_config(mock)
    };
    let client = soon("connecting", EngineClient::connect(config)).await.unwrap();
    let mut stream = client.submit(request("a", 100)).unwrap();
    soon("a token", stream.next()).await.unwrap().unwrap();
    drop(stream);
    let health = health_becomes(&client, is_unhealthy).await;
    assert!(
        health.admits_requests(),
        "below the kill limit new requests queue"
    );
    // A new request must not buy a hung engine more time, nor must it be left without an end.
    let queued = client.submit(request("b", 1)).unwrap();
    let error = failure(queued).await;
    assert!(matches!(error, StreamError::EngineDied { .. }), "{error}");
    assert_eq!(client.counters().probes_sent, 1, "one question is enough");
    health_becomes(&client, EngineHealth::is_ready).await;
    assert_eq!(tokens(client.submit(request("c", 1)).unwrap()).await.len(), 1);
}

#[tokio::test]
async fn an_engine_that_is_slow_but_answers_stays_ready() {
    let config = ClientConfig {
        stall_after: Duration::from_secs(2),
        kill_stalled_after: Some(Duration::from_secs(3)),
        ..mock_config(MockConfig {
            first_token_delay: Duration::from_hours(1),
            ..MockConfig::default()
        })
    };
    let client = soon("connecting", EngineClient::connect(config)).await.unwrap();
    let mut health = client.health();
    health.mark_unchanged();
    let _waiting = client.submit(request("a", 1)).unwrap();
    let changed = tokio::time::timeout(Duration::from_secs(4), health.changed()).await;
    assert!(changed.is_err(), "{:?}", *client.health().borrow());
    assert!(client.counters().probes_sent >= 2);
}

#[tokio::test]
async fn an_idle_engine_may_be_silent() {
    let config = ClientConfig {
        stall_after: Duration::from_millis(1),
        kill_stalled_after: Some(Duration::from_millis(2)),
        ..mock_config(MockConfig::default())
    };
    let client = soon("connecting", EngineClient::connect(config)).await.unwrap();
    let mut health = client.health();
    let changed = tokio::time::timeout(Duration::from_millis(600), health.changed()).await;
    assert!(changed.is_err(), "{:?}", *client.health().borrow());
}

#[tokio::test]
async fn garbage_for_one_request_ends_only_its_stream() {
    let mock = MockConfig {
        garbage_after: Some(2),
        garbage_kind: GarbageKind::Attributable,
        tokens_per_second: 50.0,
        ..MockConfig::default()
    };
    let client = connect(mock).await;
    let mut first = client.submit(request("a", 20)).unwrap();
    soon("a token", first.next()).await.unwrap().unwrap();
    let second = client.submit(request("b", 20)).unwrap();
    let (first, second) = tokio::join!(common::collect(first), common::collect(second));
    let errors: Vec<_> = first
        .iter()
        .chain(&second)
        .filter_map(|item| item.as_ref().err())
        .collect();
    assert!(
        matches!(errors[..], [StreamError::Malformed { .. }]),
        "{errors:?}"
    );
    assert!(client.health().borrow().is_ready());
    assert_eq!(client.counters().malformed_outputs, 1);
}

#[tokio::test]
async fn garbage_for_nobody_ends_all_streams_and_an_answer_heals() {
    // The second output of a request is so late, and no new request comes: only a question can heal.
    let mock = MockConfig {
        garbage_after: Some(1),
        tokens_per_second: 0.05,
        ..MockConfig::default()
    };
    let client = connect(mock).await;
    let mut first = client.submit(request("a", 1000)).unwrap();
    soon("a token", first.next()).await.unwrap().unwrap();
    let mut health = client.health();
    health.mark_unchanged();
    let second = client.submit(request("b", 1000)).unwrap();
    for stream in [first, second] {
        let error = failure(stream).await;
        assert!(matches!(error, StreamError::EngineMalformed { .. }), "{error}");
    }
    soon("ill health", health.changed()).await.unwrap();
    health_becomes(&client, EngineHealth::is_ready).await;
    assert_eq!(client.counters().malformed_messages, 1);
    assert!(client.counters().probes_sent >= 1);
    assert_eq!(tokens(client.submit(request("c", 1)).unwrap()).await.len(), 1);
}

#[tokio::test]
async fn a_foreign_engine_may_come_back_with_the_same_identity() {
    let dir = RuntimeDir::create(None).unwrap();
    let handshake_address = dir.address("h");
    let source = EngineSource::External {
        handshake_address: handshake_address.clone(),
    };
    let client = EngineClient::start(config(source)).unwrap();
    for round in 0..3 {
        let stop = CancellationToken::new();
        let engine = tokio::spawn(run_mock_engine(
            MockConfig {
                max_model_len: 100 + round,
                tokens_per_second: 50.0,
                ..MockConfig::default()
            },
            handshake_address.clone(),
            stop.clone(),
        ));
        health_becomes(&client, EngineHealth::is_ready).await;
        assert_eq!(client.ready().max_model_len, u64::from(100 + round));
        assert_eq!(tokens(client.submit(request("a", 2)).unwrap()).await.len(), 2);
        let cut_off = client.submit(request("b", 90)).unwrap();
        let mut health = client.health();
        stop.cancel();
        soon("the engine", engine).await.unwrap().unwrap();
        assert!(matches!(failure(cut_off).await, StreamError::EngineDied { .. }));
        soon("the end", health.wait_for(|health| !health.is_ready()))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_registration_that_makes_no_sense_is_passed_over() {
    let dir = RuntimeDir::create(None).unwrap();
    let handshake_address = dir.address("h");
    let source = EngineSource::External {
        handshake_address: handshake_address.clone(),
    };
    let client = EngineClient::start(config(source)).unwrap();
    let dealer = || {
        let mut options = SocketOptions::default();
        options.peer_identity(PeerIdentity::try_from(&[0, 0][..]).unwrap());
        DealerSocket::with_options(options)
    };
    let message = |frames| ZmqMessage::try_from(frames).unwrap();
    let mut handshake = dealer();
    soon("the handshake socket", async {
        while handshake.connect(&handshake_address).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let hello = HandshakeMessage {
        status: Some(HandshakeStatus::Hello),
        ..HandshakeMessage::default()
    };
    handshake.send(message(encode_payload(&hello))).await.unwrap();
    let init = soon("INIT", handshake.recv()).await.unwrap().into_vec();
    let init: HandshakeInit = decode_payload(&init).unwrap();
    let mut input = dealer();
    input.connect(&init.addresses.inputs[0]).await.unwrap();
    input
        .send(message(encode_payload(&"no ready response".to_owned())))
        .await
        .unwrap();
    let ready = EngineCoreReadyResponse {
        max_model_len: 77,
        ..EngineCoreReadyResponse::default()
    };
    input.send(message(encode_payload(&ready))).await.unwrap();
    soon("registration", client.wait_ready()).await.unwrap();
    assert_eq!(client.ready().max_model_len, 77);
}

#[tokio::test]
async fn shutting_down_closes_what_is_open() {
    let client = connect(MockConfig {
        tokens_per_second: 10.0,
        ..MockConfig::default()
    })
    .await;
    let stream = client.submit(request("a", 1000)).unwrap();
    soon("the end", client.shutdown()).await;
    assert_eq!(failure(stream).await, StreamError::Closed);
    assert!(is_dead(&client.health().borrow()));
}

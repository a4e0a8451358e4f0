//! The engine process, with a shell script in its place.

mod common;

use std::time::Duration;

use common::{config, health_becomes, soon};
use serde_json::json;
use vllm_rs_engine_client::{
    ClientConfig, ClientError, EngineClient, EngineEvent, EngineHealth, EngineSource, SpawnConfig,
};

fn script(source: &str) -> ClientConfig {
    let spawn = SpawnConfig {
        python: Some("/bin/sh".into()),
        args: vec!["-c".into(), source.into()],
        stop_grace: Duration::from_secs(20),
        ..SpawnConfig::new(json!({"model": {"model": "m"}, "link": {"headless": false}}))
    };
    config(EngineSource::Spawn(Box::new(spawn)))
}

#[tokio::test]
async fn a_bad_configuration_ends_it_with_the_engines_own_words() {
    let client = EngineClient::start(script(
        r#"read line
           echo '{"event":"stage","stage":"load_model","elapsed_s":0.1}'
           echo 'a stray print'
           echo '{"event":"error","kind":"ModelError","message":"no such model","hint":"check --model"}'
           exit 2"#,
    ))
    .unwrap();
    let mut events = client.events();
    let error = soon("the end", client.wait_ready()).await.unwrap_err();
    assert_eq!(
        error,
        ClientError::Dead {
            reason: "no such model (check --model)".into()
        }
    );
    let stage = events.recv().await.unwrap();
    assert_eq!(
        stage,
        EngineEvent::Stage {
            stage: "load_model".into(),
            elapsed_s: 0.1
        }
    );
    assert_eq!(
        client.counters().engine_deaths,
        1,
        "code 2 is not worth a second try"
    );
}

#[tokio::test]
async fn a_fatal_failure_and_a_signal_are_worth_one_second_try() {
    for (ending, told) in [("exit 3", "code 3"), ("kill -9 $$", "signal 9")] {
        let client = EngineClient::start(script(&format!("read line; {ending}"))).unwrap();
        let error = soon("the end", client.wait_ready()).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        assert_eq!(client.counters().engine_deaths, 2);
    }
}

#[tokio::test]
async fn the_configuration_arrives_with_the_way_back() {
    let client = EngineClient::start(script(
        r#"read -r line; printf '{"event":"memory","table":%s}\n' "$line"; read -r more"#,
    ))
    .unwrap();
    let EngineEvent::Memory { table } = soon("the echo", client.events().recv()).await.unwrap() else {
        panic!("not an echo");
    };
    assert_eq!(table["model"]["model"], "m");
    assert_eq!(table["link"]["headless"], false);
    assert_eq!(table["link"]["engine_index"], 0);
    let address = table["link"]["handshake_address"].as_str().unwrap();
    assert!(
        address.starts_with("ipc://") && address.len() <= 107 + "ipc://".len(),
        "{address}"
    );
    soon("stopping", client.shutdown()).await;
}

#[tokio::test]
async fn the_end_of_its_input_tells_the_engine_that_we_are_gone() {
    let marker = tempfile::tempdir().unwrap();
    let gone = marker.path().join("gone");
    let source = format!(
        r#"read -r line; echo '{{"event":"stage","stage":"waiting"}}'; read -r more; touch {}"#,
        gone.display()
    );
    let client = EngineClient::start(script(&source)).unwrap();
    health_becomes(
        &client,
        |health| matches!(health, EngineHealth::Starting { stage, .. } if stage == "waiting"),
    )
    .await;
    soon("stopping", client.shutdown()).await;
    assert!(
        gone.exists(),
        "the engine saw the end of its input and ended by itself"
    );
}

#[tokio::test]
async fn an_engine_that_never_registers_is_given_up() {
    let config = ClientConfig {
        ready_timeout: Duration::from_millis(200),
        ..script("read -r line; read -r more")
    };
    let client = EngineClient::start(config).unwrap();
    let error = soon("the end", client.wait_ready()).await.unwrap_err();
    assert!(
        error.to_string().contains("did not register within 200ms"),
        "{error}"
    );
}

#[tokio::test]
async fn an_interpreter_that_is_not_there_is_named() {
    let mut config = script("");
    if let EngineSource::Spawn(spawn) = &mut config.source {
        spawn.python = Some("/no/such/python".into());
    }
    let error = soon("the end", EngineClient::connect(config)).await.unwrap_err();
    assert!(error.to_string().contains("/no/such/python"), "{error}");
}

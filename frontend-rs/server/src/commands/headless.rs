//! `serve --headless`: an engine without a frontend, for one that something else started.

use vllm_rs_engine_client::{EngineSupervisor, SpawnConfig};
use vllm_rs_flags::Config;

use super::CommandError;
use super::resolve::resolve_config;
use super::signals::StopSignals;

/// Where frontend and engine meet when one of them is foreign.
pub fn handshake_address(config: &Config) -> String {
    format!(
        "tcp://{}:{}",
        config.link.data_parallel_address, config.link.data_parallel_rpc_port
    )
}

/// Runs the engine until it ends or is told to.
pub async fn run(mut config: Config) -> Result<(), CommandError> {
    let mut signals = StopSignals::new()?;
    resolve_config(&mut config).await?;
    let address = handshake_address(&config);
    tracing::info!(address, "starting the engine for a foreign frontend");
    let engine_index = u16::try_from(config.link.engine_index).unwrap_or(0);
    let spawn = SpawnConfig::new(config.engine_json());
    let (events, mut incoming) = tokio::sync::mpsc::unbounded_channel();
    let failed = |error: vllm_rs_engine_client::ClientError| CommandError::Engine(error.to_string());
    let mut engine = EngineSupervisor::spawn(&spawn, &address, engine_index, events)
        .await
        .map_err(failed)?;
    let log = tokio::spawn(async move {
        while let Some(event) = incoming.recv().await {
            tracing::debug!(?event, "engine");
        }
    });
    let ended = tokio::select! {
        exit = engine.wait() => Some(exit),
        signal = signals.next() => {
            tracing::info!(signal, "stopping the engine");
            None
        }
    };
    let outcome = match ended {
        Some(exit) if exit.code == Some(0) => Ok(()),
        Some(exit) => Err(CommandError::Engine(exit.reason)),
        None => {
            engine.stop().await;
            Ok(())
        }
    };
    log.abort();
    outcome
}

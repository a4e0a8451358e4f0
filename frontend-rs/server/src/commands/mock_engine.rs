//! `vllm-rs mock-engine`: the fake engine as a process of its own.

use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;
use vllm_rs_engine_client::mock::run_mock_engine;

use super::CommandError;
use super::signals::StopSignals;
use crate::cli::MockCommand;

/// Serves until a signal, the end of standard input if asked, or the crash it was told to have.
pub async fn run(command: MockCommand) -> Result<(), CommandError> {
    let mut signals = StopSignals::new()?;
    let stop = CancellationToken::new();
    let config = command.mock_args.to_config(command.engine_index);
    let engine = run_mock_engine(config, command.handshake_address, stop.clone());
    let orphaned = async {
        if command.until_stdin_ends {
            let mut sink = [0_u8; 256];
            let mut stdin = tokio::io::stdin();
            while matches!(stdin.read(&mut sink).await, Ok(1..)) {}
        } else {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        result = engine => result.map_err(|error| CommandError::Engine(error.to_string())),
        _ = signals.next() => Ok(()),
        () = orphaned => Ok(()),
    }
}

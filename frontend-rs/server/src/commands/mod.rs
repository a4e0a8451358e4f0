//! The subcommands. Each returns how the process ends; the message is printed once, by `main`.

pub mod doctor;
pub mod headless;
pub mod mock_engine;
pub mod pull;
pub mod resolve;
pub mod serve;
pub mod signals;
pub mod startup;

use crate::listen::ListenError;
use crate::model::ModelError;

/// Why a command failed, in one line with the way out.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Flags(#[from] vllm_rs_flags::FlagError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot get the model: {0}")]
    Resolve(String),
    #[error("cannot use the model {model}: {source}")]
    Model { model: String, source: ModelError },
    /// The engine never came up, or died for good.
    #[error("{0}")]
    Engine(String),
    #[error("cannot start: {0}")]
    Runtime(String),
}

impl CommandError {
    /// 1: usage or environment, 2: configuration or model, 3: the engine failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Listen(_) | Self::Runtime(_) => 1,
            Self::Flags(_) | Self::Resolve(_) | Self::Model { .. } => 2,
            Self::Engine(_) => 3,
        }
    }
}

/// Threads that accept, write and drive sockets; engines need the other cores.
fn worker_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let default = if cores <= 4 { 1 } else { 2 };
    let given = std::env::var("VLLM_RS_WORKER_THREADS")
        .ok()
        .and_then(|text| text.parse().ok());
    given.unwrap_or(default).clamp(1, 64)
}

/// The runtime of this process.
pub fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_threads())
        .thread_name("vllm-rs-io")
        // Bounds how many long prompts are tokenised at once.
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .map_err(|error| CommandError::Runtime(error.to_string()))
}

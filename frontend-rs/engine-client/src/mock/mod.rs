//! A fake engine that speaks the engine's side of the protocol: for tests, and for measuring a
//! frontend without a model. Its tokens depend on nothing but its seed and the request.

mod engine;
mod request;
mod sockets;
mod tokens;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::mock::engine::Engine;
use crate::mock::sockets::Sockets;

/// What the mock says instead of one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GarbageKind {
    /// Bytes that belong to nobody.
    #[default]
    Unattributable,
    /// An output whose request id can be read, and nothing else.
    Attributable,
}

/// Which tokens it makes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MockTokens {
    /// Pseudo-random ones below the vocabulary size.
    #[default]
    Random,
    /// The prompt's, over and over.
    EchoPrompt,
}

/// The temper of a mock engine.
#[derive(Debug, Clone, PartialEq)]
pub struct MockConfig {
    pub engine_index: u16,
    pub first_token_delay: Duration,
    /// Per request; 0 is as fast as it can.
    pub tokens_per_second: f64,
    /// New tokens in one output.
    pub tokens_per_output: u32,
    /// After this many outputs the engine reports its death and ends.
    pub crash_after: Option<u64>,
    /// It ends without a word, as if killed.
    pub crash_silently: bool,
    /// After this many outputs it says nothing more, but stays.
    pub hang_after: Option<u64>,
    /// This one output is replaced by garbage.
    pub garbage_after: Option<u64>,
    pub garbage_kind: GarbageKind,
    pub tokens: MockTokens,
    pub seed: u64,
    pub vocab_size: u32,
    pub max_model_len: u32,
    /// Requests that run at once; the others wait.
    pub max_num_seqs: u32,
    pub block_size: u32,
    pub num_gpu_blocks: u32,
    /// Send scheduler statistics with every message.
    pub log_stats: bool,
}

impl Default for MockConfig {
    fn default() -> Self {
        Self {
            engine_index: 0,
            first_token_delay: Duration::ZERO,
            tokens_per_second: 0.0,
            tokens_per_output: 1,
            crash_after: None,
            crash_silently: false,
            hang_after: None,
            garbage_after: None,
            garbage_kind: GarbageKind::default(),
            tokens: MockTokens::default(),
            seed: 0,
            vocab_size: 32_000,
            max_model_len: 8192,
            max_num_seqs: 1024,
            block_size: 16,
            num_gpu_blocks: 8192,
            log_stats: true,
        }
    }
}

/// Why a mock engine ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum MockError {
    #[error("the mock engine crashed as it was told to")]
    Crashed,
    #[error("the mock engine lost its frontend: {0}")]
    Socket(#[from] zeromq::ZmqError),
    #[error("the mock engine cannot read the frontend's INIT: {0}")]
    Init(#[from] vllm_rs_wire::WireError),
    #[error("INIT names no sockets")]
    NoAddresses,
}

/// Registers at `handshake_address` and serves until told to stop or to crash.
pub async fn run_mock_engine(
    config: MockConfig,
    handshake_address: String,
    shutdown: CancellationToken,
) -> Result<(), MockError> {
    let sockets = tokio::select! {
        sockets = Sockets::connect(&config, &handshake_address) => sockets?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let engine = Engine::new(config, sockets);
    tokio::select! {
        result = engine.run() => result,
        () = shutdown.cancelled() => Ok(()),
    }
}

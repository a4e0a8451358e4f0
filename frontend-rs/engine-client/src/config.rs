//! How a client finds, starts and judges its engine.

use std::path::PathBuf;
use std::time::Duration;

use vllm_rs_wire::Limits;

use crate::mock::MockConfig;
use crate::supervisor::SpawnConfig;

/// Where the engine comes from.
#[derive(Debug, Clone)]
pub enum EngineSource {
    /// Something else starts it; it connects to this handshake address (`tcp://…` or `ipc://…`).
    External { handshake_address: String },
    /// We start and own the process.
    Spawn(Box<SpawnConfig>),
    /// A mock engine inside this process, over the same sockets.
    Mock(Box<MockConfig>),
}

/// What both sides must share to understand each other's private fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BuildIdentity {
    pub version: String,
    pub build_id: String,
}

/// When a dead engine is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    pub max_restarts: u32,
    /// Wait before the first restart; doubled for each further one.
    pub backoff: Duration,
    /// An engine that was ready for this long has earned its restarts back.
    pub forgive_after: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            max_restarts: 1,
            backoff: Duration::from_secs(1),
            forgive_after: Duration::from_mins(10),
        }
    }
}

#[derive(Debug, Clone)]
pub struct ClientConfig {
    pub source: EngineSource,
    /// Data-parallel rank of the engine: its identity on the sockets.
    pub engine_index: u16,
    /// Host to bind input and output sockets on when the engine is reached over TCP.
    pub tcp_host: String,
    /// Parent of the private socket folder; the runtime or temporary folder where absent.
    pub ipc_dir: Option<PathBuf>,
    /// From start to registration.
    pub ready_timeout: Duration,
    /// For one utility call.
    pub utility_timeout: Duration,
    /// A sign of life has been due from the engine for this long (a question included, which it answers
    /// between two steps): it counts as unhealthy. Must be above the longest single step.
    pub stall_after: Duration,
    /// The same for longer: an engine that we own is killed and started again. `None`: never.
    pub kill_stalled_after: Option<Duration>,
    pub restart: RestartPolicy,
    /// Requests open at once.
    pub max_open_requests: usize,
    /// Tokens that one stream keeps for a reader that is slow.
    pub max_buffered_tokens: usize,
    pub limits: Limits,
    /// Compared with the engine's, if it names one.
    pub build: Option<BuildIdentity>,
}

impl ClientConfig {
    /// The defaults around a source.
    pub fn new(source: EngineSource) -> Self {
        Self {
            source,
            engine_index: 0,
            tcp_host: "127.0.0.1".to_owned(),
            ipc_dir: None,
            ready_timeout: Duration::from_mins(10),
            utility_timeout: Duration::from_mins(1),
            stall_after: Duration::from_mins(1),
            kill_stalled_after: Some(Duration::from_mins(5)),
            restart: RestartPolicy::default(),
            max_open_requests: 65_536,
            max_buffered_tokens: 1 << 20,
            limits: Limits::DEFAULT,
            build: None,
        }
    }
}

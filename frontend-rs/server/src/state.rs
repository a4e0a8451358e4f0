//! What the handlers share.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, RwLock};

use vllm_rs_flags::{Config, Secret};

use crate::engine::{Engine, EngineState};
use crate::error::ApiError;
use crate::generate::admission::Admission;
use crate::limits::Limits;
use crate::metrics::{EngineMetrics, HttpMetrics};
use crate::model::Model;
use crate::request::intake::Intake;

/// Everything that exists once the engine has registered.
pub struct Serving {
    pub model: Arc<Model>,
    pub engine: Arc<dyn Engine>,
    pub metrics: Arc<EngineMetrics>,
    pub admission: Arc<Admission>,
    pub limits: Limits,
}

impl Serving {
    pub fn new(
        model: Arc<Model>,
        engine: Arc<dyn Engine>,
        metrics: Arc<EngineMetrics>,
        mut limits: Limits,
    ) -> Self {
        limits.vocab_size = u64::from(model.vocab_size);
        Self {
            model,
            engine,
            metrics,
            admission: Arc::default(),
            limits,
        }
    }

    /// Sequences started and not ended.
    pub fn running(&self) -> u64 {
        self.metrics
            .requests_started
            .get()
            .saturating_sub(self.metrics.finished())
    }
}

/// How far the server is, as `/health` and `/ready` tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The engine is not up yet; the text says what it is doing.
    Starting(String),
    Ready,
    /// Up, but taking no new work.
    Draining,
    /// The engine is overdue or made no sense. Work is still taken and waits, but health probes fail.
    Unhealthy(String),
    /// The engine is gone.
    Down(String),
}

impl Phase {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Starting(_) => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Unhealthy(_) => "unhealthy",
            Self::Down(_) => "down",
        }
    }

    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Starting(detail) | Self::Unhealthy(detail) | Self::Down(detail) => Some(detail),
            Self::Ready | Self::Draining => None,
        }
    }
}

struct Inner {
    limits: Limits,
    api_keys: Vec<Secret>,
    enable_prompt_tokens_details: bool,
    force_include_usage: bool,
    log_requests: bool,
    http: HttpMetrics,
    intake: Arc<Intake>,
    started_unix_s: f64,
    stage: RwLock<String>,
    draining: AtomicBool,
    serving: OnceLock<Arc<Serving>>,
}

/// The state of the server; a handle that clones for the price of a reference count.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

impl AppState {
    pub fn new(config: &Config) -> Self {
        Self::with_limits(config, Limits::from_config(config))
    }

    /// The state with a limits table other than the one the flags give.
    pub fn with_limits(config: &Config, limits: Limits) -> Self {
        Self(Arc::new(Inner {
            limits,
            api_keys: config.frontend.api_key.clone(),
            enable_prompt_tokens_details: config.frontend.enable_prompt_tokens_details,
            force_include_usage: config.frontend.enable_force_include_usage,
            log_requests: !config.observability.disable_log_requests,
            http: HttpMetrics::default(),
            intake: Arc::default(),
            started_unix_s: crate::generate::start::unix_seconds(),
            stage: RwLock::new("starting".to_owned()),
            draining: AtomicBool::new(false),
            serving: OnceLock::new(),
        }))
    }

    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub fn api_keys(&self) -> &[Secret] {
        &self.0.api_keys
    }

    pub fn prompt_tokens_details(&self) -> bool {
        self.0.enable_prompt_tokens_details
    }

    pub fn force_include_usage(&self) -> bool {
        self.0.force_include_usage
    }

    /// Whether each request gets a line in the log (counts and parameters, never text).
    pub fn log_requests(&self) -> bool {
        self.0.log_requests
    }

    pub fn http(&self) -> &HttpMetrics {
        &self.0.http
    }

    /// What is on its way in and not submitted yet.
    pub fn intake(&self) -> &Arc<Intake> {
        &self.0.intake
    }

    /// Requests that are being prepared, and sequences that run: what a drain waits for.
    pub fn busy(&self) -> u64 {
        // In this order: what leaves the first count has entered the second.
        let preparing = self.0.intake.requests();
        preparing + self.serving().map_or(0, |serving| serving.running())
    }

    /// Counts an error that refuses a request for lack of room.
    pub fn count_rejection(&self, error: &ApiError) {
        if let (ApiError::QueueFull { .. }, Some(serving)) = (error, self.serving()) {
            serving.metrics.admission_rejections.inc();
        }
    }

    pub fn started_unix_s(&self) -> f64 {
        self.0.started_unix_s
    }

    /// Says what the start-up is doing.
    pub fn set_stage(&self, stage: impl Into<String>) {
        if let Ok(mut current) = self.0.stage.write() {
            *current = stage.into();
        }
    }

    /// Opens the routes that need an engine. The first call counts.
    pub fn set_serving(&self, serving: Arc<Serving>) {
        // A second engine is a restart behind the same `Engine`, never a second `Serving`.
        let _ = self.0.serving.set(serving);
    }

    /// Takes no new work from here on.
    pub fn set_draining(&self) {
        self.0.draining.store(true, SeqCst);
    }

    /// The model and engine, whatever their health.
    pub fn serving(&self) -> Option<&Arc<Serving>> {
        self.0.serving.get()
    }

    pub fn phase(&self) -> Phase {
        let Some(serving) = self.serving() else {
            return Phase::Starting(self.0.stage.read().map(|stage| stage.clone()).unwrap_or_default());
        };
        match serving.engine.state() {
            EngineState::Down { reason } => Phase::Down(reason),
            EngineState::Unhealthy { reason } => Phase::Unhealthy(reason),
            EngineState::Ready if self.0.draining.load(SeqCst) => Phase::Draining,
            EngineState::Ready => Phase::Ready,
        }
    }

    /// The model, for routes that need no engine.
    pub fn model(&self) -> Result<&Arc<Serving>, ApiError> {
        self.serving().ok_or_else(|| {
            let state = self.phase().detail().unwrap_or_default().to_owned();
            ApiError::NotReady {
                state,
                retry_after_s: 2,
            }
        })
    }

    /// The model and engine, for a route that starts work.
    pub fn ready(&self) -> Result<Arc<Serving>, ApiError> {
        match self.phase() {
            Phase::Starting(state) | Phase::Down(state) => Err(ApiError::NotReady {
                state,
                retry_after_s: 2,
            }),
            Phase::Unhealthy(_) if self.0.draining.load(SeqCst) => Err(ApiError::Draining),
            Phase::Draining => Err(ApiError::Draining),
            Phase::Ready | Phase::Unhealthy(_) => self.model().cloned(),
        }
    }
}

//! The handle on an engine that the rest of the frontend holds.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use vllm_rs_wire::{
    EngineCoreReadyResponse, EngineCoreRequest, SchedulerStats, UtilityRequest, Value, encode_payload,
};

use crate::config::ClientConfig;
use crate::dispatch::Dispatcher;
use crate::error::{ClientError, StreamError};
use crate::events::EngineEvent;
use crate::health::EngineHealth;
use crate::lifecycle;
use crate::registry::Registry;
use crate::runtime_dir::RuntimeDir;
use crate::sender::Outgoing;
use crate::snapshot::{ClientCounters, Counters, SchedulerSnapshot};
use crate::stream::OutputStream;
use crate::utility::Utilities;

/// Messages that a slow listener of statistics or events may lag behind before it loses some.
const FEED_CAPACITY: usize = 256;

/// What the client's handles and its task share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ClientConfig,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) health: watch::Sender<EngineHealth>,
    pub(crate) shutdown: CancellationToken,
    events: broadcast::Sender<EngineEvent>,
    ready: RwLock<Arc<EngineCoreReadyResponse>>,
    finished: CancellationToken,
}

/// A handle on one engine. Clones are the same client; when the last one goes, everything ends.
#[derive(Debug, Clone)]
pub struct EngineClient {
    shared: Arc<Shared>,
    _ends_with_the_last_handle: Arc<DropGuard>,
}

impl EngineClient {
    /// Starts the client and returns at once: [`Self::health`] and [`Self::events`] tell how the engine
    /// comes up, [`Self::wait_ready`] waits for it. Must be called within a tokio runtime.
    pub fn start(config: ClientConfig) -> Result<Self, ClientError> {
        let dir = RuntimeDir::create(config.ipc_dir.as_deref())?;
        let counters = Arc::new(Counters::default());
        let registry = Arc::new(Registry::new(counters, config.max_open_requests));
        let (health, _) = watch::channel(EngineHealth::starting("handshake"));
        let dispatcher = Dispatcher {
            registry,
            utilities: Arc::new(Utilities::default()),
            health: health.clone(),
            stats: watch::channel(SchedulerSnapshot::default()).0,
            stats_feed: broadcast::channel(FEED_CAPACITY).0,
            max_buffered_tokens: config.max_buffered_tokens,
            limits: config.limits,
        };
        let shutdown = CancellationToken::new();
        let shared = Arc::new(Shared {
            config,
            dispatcher: Arc::new(dispatcher),
            health,
            shutdown: shutdown.clone(),
            events: broadcast::channel(FEED_CAPACITY).0,
            ready: RwLock::default(),
            finished: CancellationToken::new(),
        });
        let task = shared.clone();
        tokio::spawn(async move {
            lifecycle::run(task.clone(), dir).await;
            task.finished.cancel();
        });
        Ok(Self {
            shared,
            _ends_with_the_last_handle: Arc::new(shutdown.drop_guard()),
        })
    }

    /// Starts the client and waits until the engine is ready.
    pub async fn connect(config: ClientConfig) -> Result<Self, ClientError> {
        let client = Self::start(config)?;
        client.wait_ready().await?;
        Ok(client)
    }

    /// Waits until the engine is ready, or dead for good.
    pub async fn wait_ready(&self) -> Result<(), ClientError> {
        let mut health = self.health();
        let settled =
            health.wait_for(|health| health.is_ready() || matches!(health, EngineHealth::Dead { .. }));
        match settled.await.as_deref() {
            Ok(EngineHealth::Dead { reason }) => Err(ClientError::Dead {
                reason: reason.clone(),
            }),
            Ok(_) => Ok(()),
            Err(_) => Err(ClientError::Dead {
                reason: "the client is gone".to_owned(),
            }),
        }
    }

    /// Sends a request. Its id must be unique among open requests. Whoever owns the handshake is the
    /// engine's only client, so its index is 0 here.
    pub fn submit(&self, mut request: EngineCoreRequest) -> Result<OutputStream, ClientError> {
        request.client_index = 0;
        self.shared
            .dispatcher
            .registry
            .submit(&request, || self.not_ready())
    }

    /// Calls a method of the engine object and waits for its result.
    pub async fn utility(&self, method: &str, args: Vec<Value>) -> Result<Value, ClientError> {
        self.utility_within(method, args, self.shared.config.utility_timeout)
            .await
    }

    /// The same with a time limit of its own.
    pub async fn utility_within(
        &self,
        method: &str,
        args: Vec<Value>,
        timeout: Duration,
    ) -> Result<Value, ClientError> {
        let Dispatcher {
            utilities, registry, ..
        } = &*self.shared.dispatcher;
        let (call_id, answer) = utilities.open();
        let call = UtilityRequest {
            client_index: 0,
            call_id,
            method: method.to_owned(),
            args,
        };
        if !registry.send(Outgoing::Utility {
            call_id,
            frames: encode_payload(&call),
        }) {
            utilities.forget(call_id);
            return Err(self.not_ready());
        }
        let failed = |reason| ClientError::Utility {
            method: method.to_owned(),
            reason,
        };
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => answer.map_err(failed),
            Ok(Err(_)) => Err(failed("the engine is gone".to_owned())),
            Err(_) => {
                utilities.forget(call_id);
                Err(ClientError::UtilityTimeout {
                    method: method.to_owned(),
                    timeout,
                })
            }
        }
    }

    /// What the engine said of itself; defaults before it first registered.
    pub fn ready(&self) -> Arc<EngineCoreReadyResponse> {
        self.shared
            .ready
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub fn health(&self) -> watch::Receiver<EngineHealth> {
        self.shared.health.subscribe()
    }

    /// The scheduler's last figures, and sums over all of them.
    pub fn stats(&self) -> watch::Receiver<SchedulerSnapshot> {
        self.shared.dispatcher.stats.subscribe()
    }

    /// Every report of the scheduler from now on.
    pub fn stats_feed(&self) -> broadcast::Receiver<Arc<SchedulerStats>> {
        self.shared.dispatcher.stats_feed.subscribe()
    }

    /// What a spawned engine says on its way up, from now on.
    pub fn events(&self) -> broadcast::Receiver<EngineEvent> {
        self.shared.events.subscribe()
    }

    pub fn counters(&self) -> ClientCounters {
        self.shared.dispatcher.registry.counters.read()
    }

    /// Requests open now.
    pub fn open_requests(&self) -> usize {
        self.shared.dispatcher.registry.debt().open
    }

    /// Ends every stream, stops an engine that we own, and waits until that is done.
    pub async fn shutdown(&self) {
        self.shared.shutdown.cancel();
        self.shared.finished.cancelled().await;
    }

    fn not_ready(&self) -> ClientError {
        match &*self.shared.health.borrow() {
            EngineHealth::Dead { reason } => ClientError::Dead {
                reason: reason.clone(),
            },
            state => ClientError::NotReady {
                state: state.to_string(),
            },
        }
    }
}

impl Shared {
    pub(crate) fn set_stage(&self, stage: &str, done: u64, total: u64) {
        let stage = stage.to_owned();
        self.health
            .send_replace(EngineHealth::Starting { stage, done, total });
    }

    pub(crate) fn set_ready(&self, ready: EngineCoreReadyResponse) {
        *self.ready.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ready);
    }

    pub(crate) fn set_stalled(&self, reason: impl FnOnce() -> String) {
        self.health.send_if_modified(|health| {
            let is_news = health.is_ready();
            if is_news {
                *health = EngineHealth::Unhealthy { reason: reason() };
            }
            is_news
        });
    }

    /// Takes note of what the engine process says.
    pub(crate) fn on_event(&self, event: EngineEvent) {
        let starting = matches!(&*self.health.borrow(), EngineHealth::Starting { .. });
        match &event {
            EngineEvent::Stage { stage, .. } if starting => self.set_stage(stage, 0, 0),
            EngineEvent::Progress { stage, done, total } if starting => self.set_stage(stage, *done, *total),
            EngineEvent::Error { kind, message, .. } => tracing::error!(kind, "{message}"),
            _ => {}
        }
        // Fails when nobody listens, which is fine.
        let _ = self.events.send(event);
    }

    /// Ends everything that waited for an engine that is no more.
    pub(crate) fn bury(&self, reason: &str) {
        Counters::add(&self.dispatcher.registry.counters.engine_deaths, 1);
        self.dispatcher.registry.disconnect(&StreamError::EngineDied {
            reason: reason.to_owned(),
        });
        self.dispatcher.utilities.fail_all("the engine died");
        self.dispatcher.stats.send_modify(SchedulerSnapshot::clear_gauges);
    }
}

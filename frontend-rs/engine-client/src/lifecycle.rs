//! The life of an engine as its client lives it: bind, start, register, serve, bury, perhaps again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use zeromq::{RouterRecvHalf, RouterSocket, SocketEvent, SocketRecv};

use crate::client::Shared;
use crate::config::EngineSource;
use crate::dispatch::Verdict;
use crate::error::{ClientError, StreamError};
use crate::events::EngineEvent;
use crate::health::EngineHealth;
use crate::link::{LAST_WORDS, Link};
use crate::mock::{self, MockError};
use crate::runtime_dir::RuntimeDir;
use crate::sender;
use crate::supervisor::EngineSupervisor;
use crate::watchdog::{self, Prober};

/// Who runs the engine, while it runs.
enum Running {
    External,
    Process(Box<EngineSupervisor>),
    Mock {
        task: AbortOnDropHandle<Result<(), MockError>>,
        stop: CancellationToken,
    },
}

/// How an incarnation ended.
struct End {
    reason: String,
    may_restart: bool,
    /// How long it served; `None` if it never registered.
    served: Option<Duration>,
}

impl End {
    fn before_ready(error: &ClientError, may_restart: bool) -> Self {
        Self {
            reason: error.to_string(),
            may_restart,
            served: None,
        }
    }
}

/// Runs incarnations until one ends for good or the client shuts down.
pub(crate) async fn run(shared: Arc<Shared>, dir: RuntimeDir) {
    let mut attempt = 0;
    let mut incarnation = 0;
    loop {
        let end = incarnate(&shared, &dir, incarnation).await;
        if shared.shutdown.is_cancelled() {
            break;
        }
        incarnation += 1;
        let policy = shared.config.restart;
        if end.served.is_some_and(|served| served >= policy.forgive_after) {
            attempt = 0;
        }
        let external = matches!(shared.config.source, EngineSource::External { .. });
        let again = end.may_restart && (external || attempt < policy.max_restarts);
        attempt += 1;
        // Health first: whoever sees a stream end must not find the engine ready.
        shared.health.send_replace(if again {
            tracing::warn!(attempt, reason = %end.reason, "the engine died and is started again");
            EngineHealth::Restarting {
                attempt,
                reason: end.reason.clone(),
            }
        } else {
            tracing::error!(reason = %end.reason, "the engine is gone");
            EngineHealth::Dead {
                reason: end.reason.clone(),
            }
        });
        shared.bury(&end.reason);
        if !again {
            return;
        }
        let backoff = policy.backoff.saturating_mul(1 << (attempt - 1).min(5));
        tokio::select! {
            () = tokio::time::sleep(backoff) => {}
            () = shared.shutdown.cancelled() => break,
        }
    }
    shared.dispatcher.registry.disconnect(&StreamError::Closed);
    shared.dispatcher.utilities.fail_all("the client was shut down");
    shared.health.send_replace(EngineHealth::Dead {
        reason: "shut down".to_owned(),
    });
}

/// One engine, from fresh sockets to its end.
async fn incarnate(shared: &Arc<Shared>, dir: &RuntimeDir, incarnation: u32) -> End {
    shared.set_stage("handshake", 0, 0);
    match Link::bind(&shared.config, dir, incarnation).await {
        Ok(mut link) => {
            let end = live(shared, &mut link).await;
            link.close().await;
            end
        }
        Err(error) => End::before_ready(&error, false),
    }
}

/// Starts an engine on bound sockets and stays with it to its end.
async fn live(shared: &Arc<Shared>, link: &mut Link) -> End {
    let config = &shared.config;
    let (events, mut said) = mpsc::unbounded_channel();
    let mut running = match start(shared, link, events).await {
        Ok(running) => running,
        Err(error) => return End::before_ready(&error, false),
    };
    let deadline = tokio::time::sleep(config.ready_timeout);
    tokio::pin!(deadline);
    let ready = loop {
        tokio::select! {
            biased;
            Some(event) = said.recv() => shared.on_event(event),
            ready = link.register() => break ready,
            end = running.wait(false) => return end,
            () = &mut deadline => {
                break Err(ClientError::ReadyTimeout { timeout: config.ready_timeout });
            }
            () = shared.shutdown.cancelled() => {
                running.stop().await;
                return End { reason: "shut down".to_owned(), may_restart: false, served: None };
            }
        }
    };
    match ready {
        Ok(ready) => shared.set_ready(ready),
        Err(error) => {
            running.kill().await;
            return End::before_ready(&error, false);
        }
    }
    serve(shared, link, running, said).await
}

async fn start(
    shared: &Arc<Shared>,
    link: &Link,
    events: mpsc::UnboundedSender<EngineEvent>,
) -> Result<Running, ClientError> {
    let config = &shared.config;
    match &config.source {
        EngineSource::External { handshake_address } => {
            tracing::info!(address = %handshake_address, "waiting for an engine");
            Ok(Running::External)
        }
        EngineSource::Spawn(spawn) => {
            let process =
                EngineSupervisor::spawn(spawn, &link.handshake_address, config.engine_index, events).await?;
            Ok(Running::Process(Box::new(process)))
        }
        EngineSource::Mock(mock) => {
            let stop = CancellationToken::new();
            let mut mock = (**mock).clone();
            mock.engine_index = config.engine_index;
            let engine = mock::run_mock_engine(mock, link.handshake_address.clone(), stop.clone());
            Ok(Running::Mock {
                task: AbortOnDropHandle::new(tokio::spawn(engine)),
                stop,
            })
        }
    }
}

/// An engine that is over: until when its last messages may arrive, why, and whether to start again.
type Ending = Option<(tokio::time::Instant, String, bool)>;

/// What the serving loop knows besides messages.
struct Service {
    shared: Arc<Shared>,
    running: Running,
    since: Instant,
    ending: Ending,
    prober: Prober,
}

/// Waits for the end of the last messages; for ever if the engine lives.
async fn until(ending: &Ending) {
    match ending {
        Some((at, ..)) => tokio::time::sleep_until(*at).await,
        None => std::future::pending().await,
    }
}

/// Moves messages until the engine is over, and gives its last ones time to arrive.
async fn serve(
    shared: &Arc<Shared>,
    link: &mut Link,
    running: Running,
    mut said: mpsc::UnboundedReceiver<EngineEvent>,
) -> End {
    let (to_engine, mut from_engine) = link.take_input().split();
    let Link {
        handshake,
        output,
        output_events,
        identity,
        ..
    } = link;
    let (outgoing, queue) = mpsc::unbounded_channel();
    let dispatcher = shared.dispatcher.clone();
    let _sender = AbortOnDropHandle::new(tokio::spawn(sender::run(
        to_engine,
        identity.clone(),
        queue,
        dispatcher.registry.clone(),
        dispatcher.utilities.clone(),
    )));
    dispatcher.registry.connect(outgoing);
    shared.health.send_replace(EngineHealth::Ready);
    let mut service = Service {
        shared: shared.clone(),
        running,
        since: Instant::now(),
        ending: None,
        prober: Prober::default(),
    };
    let mut tick = tokio::time::interval(watchdog::TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        // The end is looked for after messages, so that nothing that has arrived is lost.
        tokio::select! {
            biased;
            message = output.recv() => service.on_output(message),
            Some(event) = said.recv() => shared.on_event(event),
            Some(event) = output_events.next() => service.on_socket_event(&event),
            () = drain(handshake, &mut from_engine) => {}
            end = service.running.wait(true), if !service.is_ending() => {
                service.end_soon(end.reason, end.may_restart);
            }
            () = until(&service.ending) => break,
            _ = tick.tick() => service.on_tick().await,
            () = shared.shutdown.cancelled() => {
                service.running.stop().await;
                return service.end("shut down".to_owned(), false);
            }
        }
    }
    service.finish().await
}

/// Reads what an engine may still say on sockets that have done their work. Reading is also what
/// makes the ROUTER notice that its peer is gone.
async fn drain(handshake: &mut RouterSocket, from_engine: &mut RouterRecvHalf) {
    let message = tokio::select! {
        message = handshake.recv() => message,
        message = from_engine.recv() => message,
    };
    match message {
        Ok(message) => tracing::debug!(frames = message.len(), "late start-up message"),
        Err(error) => {
            tracing::debug!(%error, "start-up socket");
            // An error may repeat at once; the loop must not spin on it.
            tokio::time::sleep(watchdog::TICK).await;
        }
    }
}

impl Service {
    fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    fn end_soon(&mut self, reason: String, may_restart: bool) {
        let at = tokio::time::Instant::now() + LAST_WORDS;
        self.ending.get_or_insert((at, reason, may_restart));
    }

    fn on_output(&mut self, message: zeromq::ZmqResult<zeromq::ZmqMessage>) {
        match message {
            Ok(message) => match self.shared.dispatcher.on_message(&message.into_vec()) {
                Verdict::Continue => {}
                Verdict::EngineDead => self.end_soon("the engine reported a fatal error".to_owned(), true),
            },
            Err(error) => self.shared.dispatcher.on_broken_transport(&error.to_string()),
        }
    }

    /// An engine that closes its output socket is over, whether or not its process has ended yet.
    fn on_socket_event(&mut self, event: &SocketEvent) {
        if let SocketEvent::Disconnected(_) = event {
            match &mut self.ending {
                // All it had to say has been read.
                Some((at, ..)) => *at = tokio::time::Instant::now(),
                None => self.end_soon("the engine closed its connection".to_owned(), true),
            }
        }
    }

    async fn on_tick(&mut self) {
        if self.is_ending() {
            return;
        }
        let config = &self.shared.config;
        let dispatcher = &self.shared.dispatcher;
        let debt = dispatcher.registry.debt();
        let owned = matches!(self.running, Running::Process(_) | Running::Mock { .. });
        let kill_after = config.kill_stalled_after.filter(|_| owned);
        let told = |silent_for: Duration| {
            let (seconds, open) = (silent_for.as_secs(), debt.open);
            format!("no progress for {seconds} s with {open} requests open")
        };
        match watchdog::judge(debt, config.stall_after, kill_after) {
            watchdog::Verdict::Fine => self.prober.forget(dispatcher),
            watchdog::Verdict::Doubtful => self.prober.ask(dispatcher),
            watchdog::Verdict::Stalled(silent_for) => {
                self.prober.ask(dispatcher);
                self.shared.set_stalled(|| told(silent_for));
            }
            watchdog::Verdict::Hung(silent_for) => {
                self.running.kill().await;
                self.end_soon(told(silent_for), true);
            }
        }
    }

    fn end(&self, reason: String, may_restart: bool) -> End {
        End {
            reason,
            may_restart,
            served: Some(self.since.elapsed()),
        }
    }

    /// The process's own account of its end is better than what the sockets showed.
    async fn finish(mut self) -> End {
        let (_, reason, may_restart) = self
            .ending
            .take()
            .unwrap_or_else(|| (tokio::time::Instant::now(), String::new(), true));
        let end = self.end(reason, may_restart);
        match &mut self.running {
            Running::External | Running::Mock { .. } => end,
            Running::Process(process) => {
                let exit = tokio::time::timeout(Duration::from_secs(2), process.wait()).await;
                if let Ok(exit) = exit {
                    return self.end(exit.reason.clone(), exit.may_restart(true));
                }
                process.kill().await;
                end
            }
        }
    }
}

impl Running {
    /// Waits for the engine to end by itself. May be dropped and called again.
    async fn wait(&mut self, was_ready: bool) -> End {
        let end = |reason, may_restart| End {
            reason,
            may_restart,
            served: None,
        };
        match self {
            Self::External => std::future::pending().await,
            Self::Process(process) => {
                let exit = process.wait().await;
                let may_restart = exit.may_restart(was_ready);
                end(exit.reason, may_restart)
            }
            Self::Mock { task, .. } => match task.await {
                Ok(Ok(())) => end("the mock engine stopped".to_owned(), false),
                Ok(Err(error)) => end(error.to_string(), true),
                Err(error) => end(error.to_string(), true),
            },
        }
    }

    async fn stop(&mut self) {
        match self {
            Self::External => {}
            Self::Process(process) => process.stop().await,
            Self::Mock { stop, .. } => stop.cancel(),
        }
    }

    async fn kill(&mut self) {
        match self {
            Self::External => {}
            Self::Process(process) => process.kill().await,
            Self::Mock { task, .. } => task.abort(),
        }
    }
}

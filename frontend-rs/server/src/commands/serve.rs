//! `vllm-rs serve`: HTTP first, then the model, then the engine; and the way down again.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vllm_rs_engine_client::{
    BuildIdentity, ClientConfig, EngineClient, EngineHealth, EngineSource, SpawnConfig,
};
use vllm_rs_flags::Config;

use super::resolve::resolve_config;
use super::signals::StopSignals;
use super::startup::StartupDisplay;
use super::{CommandError, headless};
use crate::app;
use crate::build_info;
use crate::cli::ServeCommand;
use crate::facts;
use crate::listen::{self, Listener};
use crate::metrics::EngineMetrics;
use crate::model::Model;
use crate::remote_engine::{RemoteEngine, record_memory, record_steps};
use crate::state::{AppState, Serving};
use crate::stats_log;

/// How often the drain looks whether all is done.
const DRAIN_POLL: Duration = Duration::from_millis(20);
/// For connections to send what is left, once no sequence runs.
const LAST_BYTES: Duration = Duration::from_secs(2);

/// HTTP while it runs.
struct Http {
    stop: CancellationToken,
    task: JoinHandle<()>,
    url: String,
}

/// Why the server goes down.
enum Cause {
    Signal(&'static str),
    EngineGone(String),
}

pub async fn run(command: ServeCommand, config: Config) -> Result<(), CommandError> {
    let mut signals = StopSignals::new()?;
    let state = AppState::new(&config);
    tracing::info!(version = %build_info::long_version(), model = %config.model.model, "configuration resolved");
    let http = start_http(&config, &state).await?;
    let mut client = None;
    let outcome = tokio::select! {
        outcome = serve_until_gone(&command, config.clone(), &state, &http.url, &mut client) => outcome,
        signal = signals.next() => Ok(Cause::Signal(signal)),
    };
    let result = match outcome {
        Ok(Cause::Signal(signal)) => {
            drain(&state, signal, config.link.shutdown_timeout, &mut signals).await;
            Ok(())
        }
        Ok(Cause::EngineGone(reason)) => Err(CommandError::Engine(format!(
            "the engine is gone and will not be restarted: {reason}"
        ))),
        Err(error) => Err(error),
    };
    state.set_draining();
    http.stop.cancel();
    if let Some(client) = client {
        client.shutdown().await;
    }
    // What has not been sent by then is not wanted any more.
    let _ = tokio::time::timeout(LAST_BYTES, http.task).await;
    result
}

async fn start_http(config: &Config, state: &AppState) -> Result<Http, CommandError> {
    let listener = Listener::bind(&config.frontend).await?;
    let url = listener.url();
    tracing::info!(%url, "listening; not ready before the engine is");
    if config.frontend.allow_unauthenticated && config.frontend.api_key.is_empty() {
        tracing::warn!(%url, "--allow-unauthenticated: whoever reaches this address may use the model");
    }
    let stop = CancellationToken::new();
    let router = app::router(state.clone(), &config.frontend.allowed_origins);
    let task = tokio::spawn(listen::serve(listener, router, state.clone(), stop.clone()));
    Ok(Http { stop, task, url })
}

/// Brings model and engine up and waits until the engine is gone for good.
async fn serve_until_gone(
    command: &ServeCommand,
    mut config: Config,
    state: &AppState,
    url: &str,
    kept_client: &mut Option<EngineClient>,
) -> Result<Cause, CommandError> {
    state.set_stage("finding the model");
    let path = resolve_config(&mut config).await?;
    let client_config = client_config(command, &config);
    tracing::info!("starting the engine");
    let client =
        EngineClient::start(client_config).map_err(|error| CommandError::Engine(error.to_string()))?;
    *kept_client = Some(client.clone());
    let events = client.events();

    let model_config = config.model.clone();
    let limits = state.limits().clone();
    // The engine loads its weights meanwhile.
    let model = tokio::task::spawn_blocking(move || Model::open(&model_config, &path, &limits))
        .await
        .map_err(|error| CommandError::Runtime(error.to_string()))?
        .map_err(|source| CommandError::Model {
            model: config.model.model.clone(),
            source,
        })?;
    wait_ready(&client, state).await?;
    let metrics = open_for_work(&config, state, &client, model);
    tokio::spawn(record_memory(events, metrics));
    announce(&config, url, state);
    Ok(Cause::EngineGone(until_dead(&client).await))
}

fn client_config(command: &ServeCommand, config: &Config) -> ClientConfig {
    let source = if command.mock {
        EngineSource::Mock(Box::new(command.mock_args.to_config(0)))
    } else if config.link.data_parallel_size_local == 0 {
        EngineSource::External {
            handshake_address: headless::handshake_address(config),
        }
    } else {
        EngineSource::Spawn(Box::new(SpawnConfig::new(config.engine_json())))
    };
    let mut client = ClientConfig::new(source);
    let frontend = &config.frontend;
    client.stall_after = Duration::from_secs_f64(frontend.engine_stall_timeout);
    let kill_after = Duration::from_secs_f64(frontend.engine_kill_timeout);
    client.kill_stalled_after = (!kill_after.is_zero()).then_some(kill_after);
    client.tcp_host.clone_from(&config.link.data_parallel_address);
    client.build = Some(BuildIdentity {
        version: build_info::VERSION.to_owned(),
        build_id: build_info::BUILD_ID.to_owned(),
    });
    client
}

async fn wait_ready(client: &EngineClient, state: &AppState) -> Result<(), CommandError> {
    let mut display = StartupDisplay::new(state.clone());
    let mut health = client.health();
    loop {
        let current = health.borrow_and_update().clone();
        display.show(&current);
        match current {
            EngineHealth::Ready => return Ok(()),
            EngineHealth::Dead { reason } => return Err(CommandError::Engine(reason)),
            _ => {}
        }
        if health.changed().await.is_err() {
            return Err(CommandError::Engine("the engine's client is gone".to_owned()));
        }
    }
}

/// Puts model and engine where the routes find them.
fn open_for_work(
    config: &Config,
    state: &AppState,
    client: &EngineClient,
    model: Model,
) -> Arc<EngineMetrics> {
    // First, since the buckets of histograms go by it.
    model.max_model_len.learn(&client.ready());
    let metrics = Arc::new(EngineMetrics::new(
        &model.names[0],
        u64::from(model.max_model_len.get()),
    ));
    let model = Arc::new(model);
    tokio::spawn(facts::follow(
        config.clone(),
        client.clone(),
        model.clone(),
        metrics.clone(),
    ));
    tokio::spawn(record_steps(client.stats_feed(), metrics.clone()));
    if !config.observability.disable_log_stats {
        tokio::spawn(stats_log::follow(client.stats(), metrics.clone()));
    }
    let engine = Arc::new(RemoteEngine::new(client.clone()));
    let serving = Serving::new(model, engine, metrics.clone(), state.limits().clone());
    state.set_serving(Arc::new(serving));
    metrics
}

/// Says that the server is ready, with a line that works when pasted.
fn announce(config: &Config, url: &str, state: &AppState) {
    let Some(serving) = state.serving() else { return };
    let model = &serving.model;
    tracing::info!(%url, model = %model.names[0], max_model_len = model.max_model_len.get(), "ready");
    let (socket, base) = match url.strip_prefix("unix:") {
        Some(path) => (format!(" --unix-socket {path}"), "http://localhost"),
        None => (String::new(), url),
    };
    let key = if config.frontend.api_key.is_empty() {
        ""
    } else {
        " -H \"Authorization: Bearer $VLLM_API_KEY\""
    };
    let (route, body) = if model.template.is_some() {
        (
            "chat/completions",
            r#""messages": [{"role": "user", "content": "What is the capital of France?"}]"#,
        )
    } else {
        ("completions", r#""prompt": "The capital of France is""#)
    };
    println!(
        "\nReady. Try:\n  curl{socket} {base}/v1/{route}{key} -H 'content-type: application/json' \
         -d '{{\"model\": \"{}\", {body}, \"temperature\": 0}}'\n",
        model.names[0]
    );
}

async fn until_dead(client: &EngineClient) -> String {
    let mut health = client.health();
    let dead = health
        .wait_for(|health| matches!(health, EngineHealth::Dead { .. }))
        .await;
    match dead.as_deref() {
        Ok(EngineHealth::Dead { reason }) => reason.clone(),
        _ => "its client is gone".to_owned(),
    }
}

/// Waits until no request is prepared and no sequence runs, the time is up, or a second signal comes.
async fn drain(state: &AppState, signal: &str, timeout_s: f64, signals: &mut StopSignals) {
    state.set_draining();
    let busy = || state.busy();
    tracing::info!(
        signal,
        busy = busy(),
        timeout_s,
        "draining: no new work is taken; a second signal ends it now"
    );
    let drained = async {
        while busy() > 0 {
            tokio::time::sleep(DRAIN_POLL).await;
        }
    };
    let timeout = Duration::try_from_secs_f64(timeout_s).unwrap_or(LAST_BYTES);
    tokio::select! {
        () = drained => tracing::info!("drained"),
        () = tokio::time::sleep(timeout) => {
            tracing::warn!(busy = busy(), "--shutdown-timeout is over; the rest is cut off");
        }
        again = signals.next() => tracing::warn!(signal = again, busy = busy(), "not waiting any longer"),
    }
}

//! An engine process that we own: started, fed its configuration, listened to, and ended with us.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::ClientError;
use crate::events::EngineEvent;
use crate::python::find_python;

/// How an engine process is started.
#[derive(Debug, Clone)]
pub struct SpawnConfig {
    /// Interpreter; searched for where absent.
    pub python: Option<PathBuf>,
    /// Arguments of the interpreter.
    pub args: Vec<String>,
    /// Added to our environment.
    pub env: Vec<(String, String)>,
    /// The resolved configuration (sections and fields). The link to us is filled in here.
    pub engine_config: Value,
    /// From end of input to kill.
    pub stop_grace: Duration,
}

impl SpawnConfig {
    pub fn new(engine_config: Value) -> Self {
        Self {
            python: None,
            args: vec!["-m".to_owned(), "vllm_rs.core.proc".to_owned()],
            env: Vec::new(),
            engine_config,
            stop_grace: Duration::from_secs(5),
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineExit {
    /// Absent if a signal ended it.
    pub code: Option<i32>,
    /// One line for people: the engine's own words where it left any.
    pub reason: String,
}

/// Exit codes that the engine gives a meaning to.
const EXIT_BAD_CONFIGURATION: i32 = 2;
const EXIT_FATAL: i32 = 3;

impl EngineExit {
    fn new(status: ExitStatus, last_words: Option<EngineEvent>) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("the engine exited with code {code}"),
            (None, Some(signal)) => format!("the engine was killed by signal {signal}"),
            (None, None) => "the engine ended".to_owned(),
        };
        let reason = match last_words {
            Some(EngineEvent::Error {
                message,
                hint: Some(hint),
                ..
            }) if !hint.is_empty() => {
                format!("{message} ({hint})")
            }
            Some(EngineEvent::Error { message, .. }) => message,
            _ => how,
        };
        Self {
            code: status.code(),
            reason,
        }
    }

    /// Whether starting it again can help. A code without a meaning (a Python traceback) counts as
    /// accident only once the engine has worked.
    pub fn may_restart(&self, was_ready: bool) -> bool {
        match self.code {
            None | Some(EXIT_FATAL) => true,
            Some(0 | EXIT_BAD_CONFIGURATION) => false,
            Some(_) => was_ready,
        }
    }
}

/// A running engine process. Dropping it kills the process.
#[derive(Debug)]
pub struct EngineSupervisor {
    child: Child,
    /// Kept open: its end tells the engine that we are gone, however we went.
    stdin: Option<ChildStdin>,
    stop_grace: Duration,
    reader: JoinHandle<()>,
    last_words: Arc<Mutex<Option<EngineEvent>>>,
}

/// Longest line of the engine's stdout that is looked at.
const MAX_LINE_BYTES: u64 = 1 << 20;

impl EngineSupervisor {
    /// Starts the process and hands it its configuration; `events` gets what it says.
    pub async fn spawn(
        config: &SpawnConfig,
        handshake_address: &str,
        engine_index: u16,
        events: mpsc::UnboundedSender<EngineEvent>,
    ) -> Result<Self, ClientError> {
        let failed = |reason: String| ClientError::Spawn { reason };
        let python = match &config.python {
            Some(python) => python.clone(),
            // The search may run interpreters, so it leaves the event loop alone.
            None => tokio::task::spawn_blocking(find_python)
                .await
                .map_err(|error| failed(error.to_string()))?
                .map_err(|error| failed(error.to_string()))?,
        };
        let line = config_line(&config.engine_config, handshake_address, engine_index).map_err(failed)?;
        let mut child = Command::new(&python)
            .args(&config.args)
            .envs(config.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(format!("{}: {error}", python.display())))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("its pipes are missing".to_owned()));
        };
        // A process that died at once is reported by `wait`, with its exit code.
        if let Err(error) = stdin.write_all(line.as_bytes()).await {
            tracing::debug!(%error, "the engine did not read its configuration");
        }
        let last_words = Arc::new(Mutex::new(None));
        let reader = tokio::spawn(relay(stdout, events, last_words.clone()));
        Ok(Self {
            child,
            stdin: Some(stdin),
            stop_grace: config.stop_grace,
            reader,
            last_words,
        })
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for the process to end. May be dropped and called again.
    pub async fn wait(&mut self) -> EngineExit {
        let status = self.child.wait().await;
        // The pipe ends with the process, unless a grandchild keeps it: then its words are not awaited.
        if !self.reader.is_finished() {
            let _ = tokio::time::timeout(Duration::from_millis(500), &mut self.reader).await;
        }
        let last_words = self
            .last_words
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match status {
            Ok(status) => EngineExit::new(status, last_words),
            Err(error) => EngineExit {
                code: None,
                reason: format!("lost sight of the engine: {error}"),
            },
        }
    }

    /// Ends the process: first by closing its input, then by force.
    pub async fn stop(&mut self) {
        drop(self.stdin.take());
        if tokio::time::timeout(self.stop_grace, self.wait()).await.is_err() {
            tracing::warn!("the engine did not stop in time and is killed");
            self.kill().await;
        }
    }

    /// Ends the process by force and waits until it is gone.
    pub async fn kill(&mut self) {
        if let Err(error) = self.child.kill().await {
            tracing::debug!(%error, "the engine was gone before it could be killed");
        }
    }
}

impl Drop for EngineSupervisor {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The configuration as one line, with the way back to us in its `link` section.
fn config_line(config: &Value, handshake_address: &str, engine_index: u16) -> Result<String, String> {
    let mut config = config.clone();
    let Some(root) = config.as_object_mut() else {
        return Err("the engine configuration is not a JSON object".to_owned());
    };
    let link = root
        .entry("link")
        .or_insert_with(|| Value::Object(serde_json::Map::new()));
    let Some(link) = link.as_object_mut() else {
        return Err("the section 'link' of the engine configuration is not a JSON object".to_owned());
    };
    link.insert("handshake_address".to_owned(), handshake_address.into());
    link.insert("engine_index".to_owned(), engine_index.into());
    Ok(format!("{config}\n"))
}

/// Passes on what the engine says until its stdout ends; keeps the last error.
async fn relay(
    stdout: ChildStdout,
    events: mpsc::UnboundedSender<EngineEvent>,
    last_words: Arc<Mutex<Option<EngineEvent>>>,
) {
    let mut lines = BufReader::new(stdout);
    while let Some(line) = next_line(&mut lines).await {
        match EngineEvent::parse(&line) {
            Some(event) => {
                if matches!(event, EngineEvent::Error { .. }) {
                    *last_words.lock().unwrap_or_else(PoisonError::into_inner) = Some(event.clone());
                }
                // Nobody listens any more: go on reading, or the engine blocks on a full pipe.
                let _ = events.send(event);
            }
            None if line.trim().is_empty() => {}
            None => tracing::info!(target: "engine", "{}", line.trim_end()),
        }
    }
}

/// One line, cut at the limit; `None` at the end.
async fn next_line(lines: &mut BufReader<impl AsyncRead + Unpin>) -> Option<String> {
    let mut bytes = Vec::new();
    match (&mut *lines)
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', &mut bytes)
        .await
    {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

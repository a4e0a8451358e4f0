//! The mock's loop: take messages in, let what is due speak, once per step.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use tokio::time::Instant;
use vllm_rs_wire::{
    ENGINE_CORE_DEAD, EngineCoreOutput, EngineCoreOutputs, FinishReason, RequestType, SchedulerStats,
    UtilityOutput, UtilityRequest, UtilityResult, Value, decode_aborts, decode_payload, decode_request,
    encode_outputs,
};
use zeromq::SocketRecv;

use crate::mock::request::MockRequest;
use crate::mock::sockets::Sockets;
use crate::mock::{GarbageKind, MockConfig, MockError};

/// A batch whose only output begins with a byte that msgpack never uses.
const GARBAGE: &[u8] = b"\x93\x00\x91\xc1 this is no engine output";

pub(crate) struct Engine {
    config: MockConfig,
    sockets: Sockets,
    running: Vec<MockRequest>,
    waiting: VecDeque<MockRequest>,
    outputs_sent: u64,
    steps: u64,
    started: Instant,
}

impl Engine {
    pub(crate) fn new(config: MockConfig, sockets: Sockets) -> Self {
        Self {
            config,
            sockets,
            running: Vec::new(),
            waiting: VecDeque::new(),
            outputs_sent: 0,
            steps: 0,
            started: Instant::now(),
        }
    }

    pub(crate) async fn run(mut self) -> Result<(), MockError> {
        loop {
            let next_due = self.running.iter().filter_map(|request| request.due).min();
            let due = async {
                match next_due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                message = self.sockets.input.recv() => self.on_message(&message?.into_vec()).await?,
                () = due => self.step().await?,
            }
        }
    }

    async fn on_message(&mut self, frames: &[Bytes]) -> Result<(), MockError> {
        let Some((kind, payload)) = frames.split_first() else {
            return Ok(());
        };
        match RequestType::from_frame(kind) {
            Some(RequestType::Add) => self.add(payload).await,
            Some(RequestType::Abort) => {
                match decode_aborts(payload) {
                    Ok(ids) => self.abort(&ids),
                    Err(error) => tracing::warn!(%error, "unreadable abort dropped"),
                }
                Ok(())
            }
            Some(RequestType::Utility) => self.utility(payload).await,
            Some(RequestType::StartDpWave) | None => {
                tracing::warn!(?kind, "message of an unknown type dropped");
                Ok(())
            }
        }
    }

    async fn add(&mut self, payload: &[Bytes]) -> Result<(), MockError> {
        match decode_request(payload) {
            Ok(request) if request.abort_immediately => {}
            Ok(request) => {
                let client_index = request.client_index;
                match MockRequest::new(&self.config, request) {
                    Ok(request) => {
                        self.waiting.push_back(request);
                        self.admit();
                    }
                    Err(answer) => self.send(client_index, vec![*answer]).await?,
                }
            }
            Err(error) => {
                tracing::warn!(%error, "unreadable request");
                if let (Some(request_id), Some(client_index)) = (error.request_id, error.client_index) {
                    let finish_reason = Some(FinishReason::Error);
                    let answer = EngineCoreOutput {
                        request_id,
                        finish_reason,
                        ..EngineCoreOutput::default()
                    };
                    self.send(client_index, vec![answer]).await?;
                }
            }
        }
        Ok(())
    }

    fn admit(&mut self) {
        let now = Instant::now();
        while self.running.len() < self.config.max_num_seqs as usize {
            let Some(mut request) = self.waiting.pop_front() else {
                break;
            };
            request.start(now, self.config.first_token_delay);
            self.running.push(request);
        }
    }

    fn abort(&mut self, ids: &[String]) {
        self.running.retain(|request| !ids.contains(&request.request_id));
        self.waiting.retain(|request| !ids.contains(&request.request_id));
        self.admit();
    }

    /// Everything that is due gets one output; one message per client.
    async fn step(&mut self) -> Result<(), MockError> {
        let now = Instant::now();
        self.steps += 1;
        let mut batches: BTreeMap<u32, Vec<EngineCoreOutput>> = BTreeMap::new();
        let mut garbage = None;
        for request in &mut self.running {
            if request.due.is_none_or(|due| due > now) {
                continue;
            }
            let output = request.step(now, &self.config);
            if self.config.garbage_after == Some(self.outputs_sent) {
                garbage = Some((request.client_index, output.request_id.clone()));
            } else {
                batches.entry(request.client_index).or_default().push(output);
            }
            self.outputs_sent += 1;
        }
        let over: Vec<&str> = batches
            .values()
            .flatten()
            .filter(|output| output.finish_reason.is_some())
            .map(|output| output.request_id.as_str())
            .collect();
        self.running
            .retain(|request| !over.contains(&request.request_id.as_str()));
        self.admit();
        for (client_index, outputs) in batches {
            self.send(client_index, outputs).await?;
        }
        if let Some((client_index, request_id)) = garbage {
            let frame = garbage_frame(self.config.garbage_kind, &request_id);
            self.sockets.send_to(client_index, vec![frame]).await?;
        }
        self.act_out().await
    }

    /// Crashes or hangs, if it is time to.
    async fn act_out(&mut self) -> Result<(), MockError> {
        let reached = |limit: Option<u64>| limit.is_some_and(|limit| self.outputs_sent >= limit);
        if reached(self.config.hang_after) {
            std::future::pending::<()>().await;
        }
        if reached(self.config.crash_after) {
            if !self.config.crash_silently {
                self.sockets.send_to_all(ENGINE_CORE_DEAD).await?;
            }
            return Err(MockError::Crashed);
        }
        Ok(())
    }

    async fn utility(&mut self, payload: &[Bytes]) -> Result<(), MockError> {
        let call: UtilityRequest = match decode_payload(payload) {
            Ok(call) => call,
            Err(error) => {
                tracing::warn!(%error, "unreadable call dropped");
                return Ok(());
            }
        };
        let result = match call.method.as_str() {
            "is_sleeping" | "is_scheduler_paused" => Ok(Value::Boolean(false)),
            "reset_prefix_cache" | "wake_up" => Ok(Value::Boolean(true)),
            "get_supported_tasks" => Ok(Value::Array(vec!["generate".into()])),
            "reset_mm_cache" | "reset_encoder_cache" | "execute_dummy_batch" => Ok(Value::Nil),
            method => Err(format!(
                "Call to {method} method failed: the mock engine has no such method"
            )),
        };
        let (result, failure_message) = match result {
            Ok(value) => (Some(UtilityResult(value)), None),
            Err(message) => (None, Some(message)),
        };
        let answer = EngineCoreOutputs {
            engine_index: u32::from(self.config.engine_index),
            timestamp: self.started.elapsed().as_secs_f64(),
            utility_output: Some(UtilityOutput {
                call_id: i128::from(call.call_id),
                failure_message,
                result,
            }),
            ..EngineCoreOutputs::default()
        };
        self.sockets
            .send_to(call.client_index, encode_outputs(&answer))
            .await
    }

    async fn send(&mut self, client_index: u32, outputs: Vec<EngineCoreOutput>) -> Result<(), MockError> {
        let batch = EngineCoreOutputs {
            engine_index: u32::from(self.config.engine_index),
            outputs,
            scheduler_stats: self.config.log_stats.then(|| Box::new(self.stats())),
            timestamp: self.started.elapsed().as_secs_f64(),
            ..EngineCoreOutputs::default()
        };
        self.sockets.send_to(client_index, encode_outputs(&batch)).await
    }

    fn stats(&self) -> SchedulerStats {
        let tokens: usize = self.running.iter().map(MockRequest::num_tokens).sum();
        let capacity = f64::from(self.config.num_gpu_blocks) * f64::from(self.config.block_size);
        SchedulerStats {
            num_running_reqs: self.running.len() as u64,
            num_waiting_reqs: self.waiting.len() as u64,
            step_counter: self.steps,
            kv_cache_usage: (tokens as f64 / capacity.max(1.0)).min(1.0),
            ..SchedulerStats::default()
        }
    }
}

fn garbage_frame(kind: GarbageKind, request_id: &str) -> Bytes {
    match kind {
        GarbageKind::Unattributable => Bytes::from_static(GARBAGE),
        GarbageKind::Attributable => {
            // A batch of one output whose tokens are a string.
            let output = Value::Array(vec![request_id.into(), "no tokens".into()]);
            let batch = Value::Array(vec![0.into(), Value::Array(vec![output])]);
            vllm_rs_wire::encode_payload(&batch).swap_remove(0)
        }
    }
}

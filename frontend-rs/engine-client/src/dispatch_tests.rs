//! The law of malformed messages: every stream ends or goes on rightly, and the loop always goes on.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures::FutureExt;
use futures::StreamExt;
use tokio::sync::{broadcast, mpsc, watch};
use vllm_rs_wire::{
    ENGINE_CORE_DEAD, EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest, FinishReason, Limits,
    UtilityOutput, UtilityResult, Value, encode_outputs,
};

use crate::dispatch::{Dispatcher, Verdict};
use crate::error::{ClientError, StreamError};
use crate::health::EngineHealth;
use crate::registry::Registry;
use crate::sender::Outgoing;
use crate::snapshot::{Counters, SchedulerSnapshot};
use crate::stream::OutputStream;
use crate::utility::Utilities;
use crate::watchdog::Prober;

struct Bench {
    dispatcher: Dispatcher,
    sent: mpsc::UnboundedReceiver<Outgoing>,
}

impl Bench {
    fn new() -> Self {
        let registry = Arc::new(Registry::new(Arc::new(Counters::default()), 1000));
        let (outgoing, sent) = mpsc::unbounded_channel();
        registry.connect(outgoing);
        let dispatcher = Dispatcher {
            registry,
            utilities: Arc::new(Utilities::default()),
            health: watch::channel(EngineHealth::Ready).0,
            stats: watch::channel(SchedulerSnapshot::default()).0,
            stats_feed: broadcast::channel(4).0,
            max_buffered_tokens: 1000,
            limits: Limits::DEFAULT,
        };
        Self { dispatcher, sent }
    }

    fn open(&self, id: &str) -> OutputStream {
        let request = EngineCoreRequest {
            request_id: id.to_owned(),
            ..EngineCoreRequest::default()
        };
        let not_ready = || ClientError::NotReady { state: String::new() };
        self.dispatcher.registry.submit(&request, not_ready).unwrap()
    }

    fn health(&self) -> EngineHealth {
        self.dispatcher.health.borrow().clone()
    }

    fn aborted(&mut self) -> Vec<String> {
        let mut ids = Vec::new();
        while let Ok(message) = self.sent.try_recv() {
            if let Outgoing::Abort(id) = message {
                ids.push(id.to_string());
            }
        }
        ids
    }
}

fn output(id: &str, tokens: &[u32], finish_reason: Option<FinishReason>) -> EngineCoreOutput {
    EngineCoreOutput {
        request_id: id.to_owned(),
        new_token_ids: tokens.to_vec(),
        finish_reason,
        ..EngineCoreOutput::default()
    }
}

fn batch(outputs: Vec<EngineCoreOutput>) -> Vec<Bytes> {
    encode_outputs(&EngineCoreOutputs {
        outputs,
        ..EngineCoreOutputs::default()
    })
}

/// What a look at the stream gives now.
fn take(stream: &mut OutputStream) -> Poll<Option<Result<EngineCoreOutput, StreamError>>> {
    stream.poll_next_unpin(&mut Context::from_waker(Waker::noop()))
}

fn damaged_batch(id: &str) -> Vec<Bytes> {
    let bad = Value::Array(vec![id.into(), Value::from(3)]);
    let good = Value::Array(vec!["good".into(), Value::Array(vec![8.into()])]);
    vllm_rs_wire::encode_payload(&Value::Array(vec![0.into(), Value::Array(vec![bad, good])]))
}

#[test]
fn a_bad_output_ends_its_stream_and_no_other() {
    let mut bench = Bench::new();
    let [mut bad, mut good] = ["bad", "good"].map(|id| bench.open(id));
    assert_eq!(
        bench.dispatcher.on_message(&damaged_batch("bad")),
        Verdict::Continue
    );
    assert!(matches!(
        take(&mut bad),
        Poll::Ready(Some(Err(StreamError::Malformed { .. })))
    ));
    assert_eq!(take(&mut bad), Poll::Ready(None));
    assert!(matches!(take(&mut good), Poll::Ready(Some(Ok(output))) if output.new_token_ids == [8]));
    assert_eq!(take(&mut good), Poll::Pending);
    assert_eq!(bench.health(), EngineHealth::Ready);
    assert_eq!(
        bench.aborted(),
        ["bad"],
        "the engine is told to stop working on it"
    );
}

#[test]
fn damage_under_an_unknown_id_may_be_anyones() {
    let mut bench = Bench::new();
    let mut good = bench.open("good");
    bench.dispatcher.on_message(&damaged_batch("mangled"));
    assert!(
        matches!(take(&mut good), Poll::Ready(Some(Ok(_)))),
        "what was read is delivered first"
    );
    assert!(matches!(
        take(&mut good),
        Poll::Ready(Some(Err(StreamError::EngineMalformed { .. })))
    ));
    assert!(matches!(bench.health(), EngineHealth::Unhealthy { .. }));
    assert_eq!(bench.aborted(), ["good"]);
    bench.dispatcher.on_message(&batch(vec![]));
    assert_eq!(bench.health(), EngineHealth::Ready);
}

#[test]
fn outputs_for_nobody_are_counted_and_harmless() {
    let bench = Bench::new();
    bench
        .dispatcher
        .on_message(&batch(vec![output("gone", &[1], None)]));
    assert_eq!(bench.dispatcher.registry.counters.read().late_outputs, 1);
    assert_eq!(bench.health(), EngineHealth::Ready);
}

#[test]
fn bad_statistics_cost_nobody_a_stream() {
    let mut bench = Bench::new();
    let mut stream = bench.open("a");
    let message = Value::Array(vec![
        0.into(),
        Value::Array(vec![]),
        "no map".into(),
        Value::F64(1.0),
    ]);
    bench
        .dispatcher
        .on_message(&vllm_rs_wire::encode_payload(&message));
    assert_eq!(take(&mut stream), Poll::Pending);
    assert_eq!(bench.dispatcher.registry.counters.read().malformed_side_parts, 1);
    assert_eq!(bench.aborted(), Vec::<String>::new());
}

#[test]
fn the_last_word_of_an_engine_is_understood() {
    let bench = Bench::new();
    let verdict = bench
        .dispatcher
        .on_message(&[Bytes::from_static(ENGINE_CORE_DEAD)]);
    assert_eq!(verdict, Verdict::EngineDead);
}

#[test]
fn answers_reach_their_callers_and_notifications_nobody() {
    let bench = Bench::new();
    let (call_id, answer) = bench.dispatcher.utilities.open();
    for call_id in [-1, i128::from(u64::MAX), i128::from(call_id)] {
        let result = Some(UtilityResult(Value::from(7)));
        let utility_output = Some(UtilityOutput {
            call_id,
            failure_message: None,
            result,
        });
        let message = EngineCoreOutputs {
            utility_output,
            ..EngineCoreOutputs::default()
        };
        bench.dispatcher.on_message(&encode_outputs(&message));
    }
    assert_eq!(answer.now_or_never(), Some(Ok(Ok(Value::from(7)))));
}

/// Mutated batches, `FUZZ_CASES` of them: after each, a stream is still open and will take a good
/// output, or it has ended, with an error or as the message said.
#[test]
fn no_mutated_message_hangs_a_stream_or_ends_the_loop() {
    let cases: u64 = std::env::var("FUZZ_CASES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(20_000);
    let bench = Bench::new();
    let mut state = 42_u64;
    let mut random = move |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound.max(1)
    };
    let names = ["a", "b", "c"];
    for _ in 0..cases {
        let streams = names.map(|id| bench.open(id));
        let valid = batch(names.map(|id| output(id, &[1, 2], None)).to_vec());
        let mut frame = valid[0].to_vec();
        for _ in 0..=random(3) {
            let at = random(frame.len());
            match random(4) {
                0 => frame.truncate(at),
                1 if !frame.is_empty() => frame[at] = random(256) as u8,
                2 => frame.insert(at, random(256) as u8),
                _ if !frame.is_empty() => drop(frame.remove(at)),
                _ => {}
            }
        }
        assert_eq!(bench.dispatcher.on_message(&[frame.into()]), Verdict::Continue);
        bench.dispatcher.on_message(&batch(
            names
                .map(|id| output(id, &[9], Some(FinishReason::Stop)))
                .to_vec(),
        ));
        assert_eq!(bench.health(), EngineHealth::Ready, "a good message heals");
        for stream in streams {
            let items = stream.collect::<Vec<_>>().now_or_never().expect("an end");
            assert!(!items.is_empty());
        }
        assert_eq!(bench.dispatcher.registry.debt().open, 0);
    }
}

#[test]
fn a_fault_is_owed_for_until_a_good_message_and_asked_about_once() {
    let mut bench = Bench::new();
    let registry = bench.dispatcher.registry.clone();
    assert_eq!(registry.debt().silent_for, None);
    let garbage = [Bytes::from_static(b"\xc1")];
    let mut prober = Prober::default();
    let mut asked = |dispatcher: &Dispatcher| {
        prober.ask(dispatcher);
        let is_question = |message| matches!(message, Ok(Outgoing::Utility { call_id, .. }) if call_id < 9);
        is_question(bench.sent.try_recv())
    };
    bench.dispatcher.on_message(&garbage);
    assert!(registry.debt().faulty && registry.debt().silent_for.is_some());
    assert!(asked(&bench.dispatcher));
    assert!(!asked(&bench.dispatcher), "its answer may still come");
    // The answer itself may have been what could not be read.
    bench.dispatcher.on_message(&garbage);
    assert!(asked(&bench.dispatcher));
    bench.dispatcher.on_message(&encode_outputs(&EngineCoreOutputs {
        utility_output: Some(UtilityOutput {
            call_id: 1,
            failure_message: None,
            result: Some(UtilityResult(Value::Boolean(false))),
        }),
        ..EngineCoreOutputs::default()
    }));
    assert_eq!(bench.health(), EngineHealth::Ready);
    assert_eq!(registry.debt().silent_for, None, "nothing is left to do");
    assert!(!registry.debt().faulty);
}

#[test]
fn what_an_engine_owes_outlives_the_streams_that_asked_for_it() {
    let bench = Bench::new();
    let registry = &bench.dispatcher.registry;
    let stream = bench.open("a");
    let owed = registry.debt().silent_for;
    drop(stream);
    drop(bench.open("b"));
    assert_eq!(registry.debt().open, 0);
    assert!(registry.debt().silent_for >= owed && owed.is_some());
    let bystander = bench.open("c");
    bench
        .dispatcher
        .on_message(&batch(vec![output("c", &[1], Some(FinishReason::Length))]));
    assert_eq!(registry.debt().silent_for, None);
    drop(bystander);
}

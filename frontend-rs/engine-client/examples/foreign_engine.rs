//! Waits for an engine that something else starts, sends it one greedy request, and prints what it says.
//!
//! `cargo run -p vllm-rs-engine-client --example foreign_engine -- tcp://127.0.0.1:29550 32 1 4093 198`
//! (handshake address, tokens to generate, prompt token ids)

use std::process::ExitCode;
use std::time::Instant;

use futures::StreamExt;
use vllm_rs_engine_client::{ClientConfig, EngineClient, EngineSource};
use vllm_rs_wire::{EngineCoreRequest, RequestOutputKind, SamplingParams};

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(handshake_address), Some(Ok(max_tokens))) = (args.next(), args.next().map(|n| n.parse()))
    else {
        eprintln!("usage: foreign_engine HANDSHAKE_ADDRESS MAX_TOKENS PROMPT_TOKEN_ID...");
        return ExitCode::from(2);
    };
    let prompt_token_ids: Vec<u32> = args.filter_map(|id| id.parse().ok()).collect();
    match converse(handshake_address, max_tokens, prompt_token_ids).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn converse(
    handshake_address: String,
    max_tokens: u32,
    prompt_token_ids: Vec<u32>,
) -> Result<(), Box<dyn std::error::Error>> {
    let started = Instant::now();
    let client =
        EngineClient::connect(ClientConfig::new(EngineSource::External { handshake_address })).await?;
    println!(
        "registered after {:.1} s: {:?}",
        started.elapsed().as_secs_f64(),
        client.ready()
    );
    for method in ["get_supported_tasks", "is_sleeping"] {
        println!("{method}: {}", client.utility(method, vec![]).await?);
    }
    for (request_id, logprobs) in [("probe-1", None), ("probe-2", Some(2))] {
        let sampling_params = SamplingParams {
            temperature: 0.0,
            max_tokens: Some(max_tokens),
            logprobs,
            prompt_logprobs: logprobs,
            output_kind: RequestOutputKind::Delta,
            skip_reading_prefix_cache: logprobs.map(|_| true),
            ..SamplingParams::default()
        };
        let mut stream = client.submit(EngineCoreRequest {
            request_id: request_id.to_owned(),
            prompt_token_ids: Some(prompt_token_ids.clone()),
            sampling_params: Some(sampling_params),
            arrival_time: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)?
                .as_secs_f64(),
            ..EngineCoreRequest::default()
        })?;
        while let Some(output) = stream.next().await {
            println!("{:?}", output?);
        }
    }
    let aborted = client.submit(EngineCoreRequest {
        request_id: "probe-3".to_owned(),
        prompt_token_ids: Some(prompt_token_ids),
        sampling_params: Some(SamplingParams {
            max_tokens: Some(1000),
            ..SamplingParams::default()
        }),
        ..EngineCoreRequest::default()
    })?;
    drop(aborted);
    println!("is_sleeping: {}", client.utility("is_sleeping", vec![]).await?);
    println!("{:?}\n{:?}", *client.stats().borrow(), client.counters());
    client.shutdown().await;
    Ok(())
}

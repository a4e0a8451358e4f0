//! Generated from `flags.toml` by `generate.py`; do not edit.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::parse;
use crate::secret::Secret;
use crate::{FlagError, RefusedFlag, ScaledEnv};

/// Values of `--load-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum LoadFormat {
    #[default]
    #[value(name = "auto")]
    #[serde(rename = "auto")]
    Auto,
    #[value(name = "safetensors")]
    #[serde(rename = "safetensors")]
    Safetensors,
    #[value(name = "gguf")]
    #[serde(rename = "gguf")]
    Gguf,
}

impl LoadFormat {
    /// The value as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Safetensors => "safetensors",
            Self::Gguf => "gguf",
        }
    }
}

/// Values of `--dtype`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Dtype {
    #[default]
    #[value(name = "auto")]
    #[serde(rename = "auto")]
    Auto,
    #[value(name = "float32", aliases = ["float"])]
    #[serde(rename = "float32")]
    Float32,
    #[value(name = "bfloat16")]
    #[serde(rename = "bfloat16")]
    Bfloat16,
    #[value(name = "float16", aliases = ["half"])]
    #[serde(rename = "float16")]
    Float16,
}

impl Dtype {
    /// The value as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
            Self::Float16 => "float16",
        }
    }
}

/// Values of `--kv-cache-dtype`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum KvCacheDtype {
    #[default]
    #[value(name = "auto")]
    #[serde(rename = "auto")]
    Auto,
    #[value(name = "float32", aliases = ["float"])]
    #[serde(rename = "float32")]
    Float32,
    #[value(name = "bfloat16")]
    #[serde(rename = "bfloat16")]
    Bfloat16,
}

impl KvCacheDtype {
    /// The value as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
        }
    }
}

/// Values of `--scheduling-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum SchedulingPolicy {
    #[default]
    #[value(name = "fcfs")]
    #[serde(rename = "fcfs")]
    Fcfs,
    #[value(name = "priority")]
    #[serde(rename = "priority")]
    Priority,
}

impl SchedulingPolicy {
    /// The value as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Priority => "priority",
        }
    }
}

/// Values of `--device`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Device {
    #[default]
    #[value(name = "cpu")]
    #[serde(rename = "cpu")]
    Cpu,
    #[value(name = "torch")]
    #[serde(rename = "torch")]
    Torch,
}

impl Device {
    /// The value as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Torch => "torch",
        }
    }
}

/// Values of `--cpu-isa`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum CpuIsa {
    #[default]
    #[value(name = "auto")]
    #[serde(rename = "auto")]
    Auto,
    #[value(name = "amx")]
    #[serde(rename = "amx")]
    Amx,
    #[value(name = "avx512_bf16")]
    #[serde(rename = "avx512_bf16")]
    Avx512Bf16,
    #[value(name = "avx512")]
    #[serde(rename = "avx512")]
    Avx512,
    #[value(name = "avx2")]
    #[serde(rename = "avx2")]
    Avx2,
    #[value(name = "scalar")]
    #[serde(rename = "scalar")]
    Scalar,
}

impl CpuIsa {
    /// The value as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Amx => "amx",
            Self::Avx512Bf16 => "avx512_bf16",
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Scalar => "scalar",
        }
    }
}

/// Values of `--log-level`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum LogLevel {
    #[value(name = "error", aliases = ["critical"])]
    #[serde(rename = "error")]
    Error,
    #[value(name = "warning", aliases = ["warn"])]
    #[serde(rename = "warning")]
    Warning,
    #[default]
    #[value(name = "info")]
    #[serde(rename = "info")]
    Info,
    #[value(name = "debug")]
    #[serde(rename = "debug")]
    Debug,
    #[value(name = "trace")]
    #[serde(rename = "trace")]
    Trace,
}

impl LogLevel {
    /// The value as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// Values of `--log-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum LogFormat {
    #[default]
    #[value(name = "text")]
    #[serde(rename = "text")]
    Text,
    #[value(name = "json")]
    #[serde(rename = "json")]
    Json,
}

impl LogFormat {
    /// The value as it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Flags of `vllm-rs serve`.
#[derive(Args, Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct ServeArgs {
    /// What to serve: an embedded name (smollm2), a local folder or .gguf file, or a hub repository id.
    #[arg(
        value_name = "MODEL",
        env = "VLLM_RS_MODEL",
        help = "What to serve: an embedded name (smollm2), a local folder or .gguf file, or a hub repository id [default: smollm2]"
    )]
    pub model: Option<String>,
    /// The same, as a flag.
    #[arg(id = "model-flag", long = "model", value_name = "MODEL", hide = true)]
    pub model_flag: Option<String>,
    /// Names clients may use for the model; the first is the one reported. Default: the model as given.
    #[arg(long = "served-model-name", env = "VLLM_RS_SERVED_MODEL_NAME", help_heading = "Model", num_args = 1.., help = "Names clients may use for the model; the first is the one reported. Default: the model as given")]
    pub served_model_name: Vec<String>,
    /// Local folder or .gguf file to take the tokenizer from, when it is not the model's own.
    #[arg(
        long = "tokenizer",
        env = "VLLM_RS_TOKENIZER",
        help_heading = "Model",
        help = "Local folder or .gguf file to take the tokenizer from, when it is not the model's own"
    )]
    pub tokenizer: Option<String>,
    /// Branch, tag or commit of the hub repository.
    #[arg(
        long = "revision",
        env = "VLLM_RS_REVISION",
        help_heading = "Model",
        help = "Branch, tag or commit of the hub repository"
    )]
    pub revision: Option<String>,
    /// Folder for downloaded models. Default: VLLM_RS_CACHE, or vllm-rs in the user's cache folder.
    #[arg(
        long = "download-dir",
        env = "VLLM_RS_DOWNLOAD_DIR",
        help_heading = "Model",
        help = "Folder for downloaded models. Default: VLLM_RS_CACHE, or vllm-rs in the user's cache folder"
    )]
    pub download_dir: Option<String>,
    /// Format of the weights; auto looks at the files. Pickled formats (.bin, .pt) are refused.
    #[arg(
        long = "load-format",
        env = "VLLM_RS_LOAD_FORMAT",
        help_heading = "Model",
        ignore_case = true,
        value_enum,
        default_value = "auto",
        help = "Format of the weights; auto looks at the files. Pickled formats (.bin, .pt) are refused"
    )]
    pub load_format: LoadFormat,
    /// Arithmetic of weights and activations. auto: bfloat16 on CPU. float32 is the reference the tests use. float16 is refused on CPU.
    #[arg(
        long = "dtype",
        env = "VLLM_RS_DTYPE",
        help_heading = "Model",
        ignore_case = true,
        value_enum,
        default_value = "auto",
        help = "Arithmetic of weights and activations. auto: bfloat16 on CPU. float32 is the reference the tests use. float16 is refused on CPU"
    )]
    pub dtype: Dtype,
    /// Longest prompt plus output of one request. Default: what the model's config says, lowered to what memory holds when auto.
    #[arg(long = "max-model-len", env = "VLLM_RS_MAX_MODEL_LEN", help_heading = "Model", value_parser = |text: &str| parse::auto_or(text, |text| parse::human_int(text, 1, 16777216)), help = "Longest prompt plus output of one request. Default: what the model's config says, lowered to what memory holds when auto [tokens] [1 to 16777216]", allow_negative_numbers = true, value_name = "TOKENS")]
    pub max_model_len: Option<parse::Auto>,
    /// Base seed for requests that carry none. Default: drawn at start.
    #[arg(long = "seed", env = "VLLM_RS_SEED", help_heading = "Model", value_parser = |text: &str| parse::int(text, 0, 9223372036854775807), help = "Base seed for requests that carry none. Default: drawn at start [0 to 9223372036854775807]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Most log-probabilities per token a request may ask for; -1 = as many as the vocabulary has.
    #[arg(long = "max-logprobs", env = "VLLM_RS_MAX_LOGPROBS", help_heading = "Model", value_parser = |text: &str| parse::signed_int(text, -1, 1048576), default_value = "20", help = "Most log-probabilities per token a request may ask for; -1 = as many as the vocabulary has [-1 to 1048576]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub max_logprobs: i64,
    /// Parsed for compatibility and always refused: code from a model repository is never run; the architectures listed in the README work without it.
    #[arg(long = "trust-remote-code", env = "VLLM_RS_TRUST_REMOTE_CODE", help_heading = "Model", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "trust_remote_code_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Parsed for compatibility and always refused: code from a model repository is never run; the architectures listed in the README work without it [default: off; --no-trust-remote-code turns it off]")]
    pub trust_remote_code: Option<bool>,
    /// Turns `--trust-remote-code` off.
    #[arg(
        long = "no-trust-remote-code",
        overrides_with = "trust_remote_code",
        hide = true
    )]
    pub trust_remote_code_off: bool,
    /// Chat template: a file, or the Jinja text itself. Default: the model's own.
    #[arg(
        long = "chat-template",
        env = "VLLM_RS_CHAT_TEMPLATE",
        help_heading = "Model",
        help = "Chat template: a file, or the Jinja text itself. Default: the model's own"
    )]
    pub chat_template: Option<String>,
    /// Where default sampling values come from: auto (the model's generation_config.json), vllm (none), or a folder.
    #[arg(
        long = "generation-config",
        env = "VLLM_RS_GENERATION_CONFIG",
        help_heading = "Model",
        default_value = "auto",
        help = "Where default sampling values come from: auto (the model's generation_config.json), vllm (none), or a folder"
    )]
    pub generation_config: String,
    /// Tokens per KV cache block.
    #[arg(long = "block-size", env = "VLLM_RS_BLOCK_SIZE", help_heading = "KV cache", value_parser = |text: &str| parse::int_of(text, &[8, 16, 32, 64, 128, 256, 512, 1024]), default_value = "16", help = "Tokens per KV cache block [tokens] [one of 8, 16, 32, 64, 128, 256, 512, 1024]", allow_negative_numbers = true, value_name = "TOKENS")]
    pub block_size: u64,
    /// Keep finished blocks and reuse them for requests with the same prefix.
    #[arg(long = "enable-prefix-caching", env = "VLLM_RS_ENABLE_PREFIX_CACHING", help_heading = "KV cache", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "enable_prefix_caching_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Keep finished blocks and reuse them for requests with the same prefix [default: on; --no-enable-prefix-caching turns it off]")]
    pub enable_prefix_caching: Option<bool>,
    /// Turns `--enable-prefix-caching` off.
    #[arg(
        long = "no-enable-prefix-caching",
        overrides_with = "enable_prefix_caching",
        hide = true
    )]
    pub enable_prefix_caching_off: bool,
    /// Memory for the KV cache; wins over --gpu-memory-utilization. Default on CPU: the least of 4 GiB, half of the free memory, and max-num-seqs x max-model-len.
    #[arg(long = "kv-cache-memory-bytes", env = "VLLM_RS_KV_CACHE_MEMORY_BYTES", help_heading = "KV cache", value_parser = |text: &str| parse::human_int(text, 1, 1125899906842624), help = "Memory for the KV cache; wins over --gpu-memory-utilization. Default on CPU: the least of 4 GiB, half of the free memory, and max-num-seqs x max-model-len [bytes] [1 to 1125899906842624]", allow_negative_numbers = true, value_name = "BYTES")]
    pub kv_cache_memory_bytes: Option<u64>,
    /// Fraction of the device's memory (on CPU: of the memory this process may use) for weights, activations and KV cache together.
    #[arg(long = "gpu-memory-utilization", env = "VLLM_RS_GPU_MEMORY_UTILIZATION", help_heading = "KV cache", value_parser = |text: &str| parse::float(text, parse::Low::Above(0.0), 1.0), help = "Fraction of the device's memory (on CPU: of the memory this process may use) for weights, activations and KV cache together [above 0, at most 1]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub gpu_memory_utilization: Option<f64>,
    /// Storage type of keys and values. auto: that of --dtype.
    #[arg(
        long = "kv-cache-dtype",
        env = "VLLM_RS_KV_CACHE_DTYPE",
        help_heading = "KV cache",
        ignore_case = true,
        value_enum,
        default_value = "auto",
        help = "Storage type of keys and values. auto: that of --dtype"
    )]
    pub kv_cache_dtype: KvCacheDtype,
    /// Requests that may run in one step.
    #[arg(long = "max-num-seqs", env = "VLLM_RS_MAX_NUM_SEQS", help_heading = "Scheduler", value_parser = |text: &str| parse::int(text, 1, 8192), default_value = "64", help = "Requests that may run in one step [requests] [1 to 8192]", allow_negative_numbers = true, value_name = "REQUESTS")]
    pub max_num_seqs: u64,
    /// Token budget of one step, decode tokens and prefill chunks together.
    #[arg(long = "max-num-batched-tokens", env = "VLLM_RS_MAX_NUM_BATCHED_TOKENS", help_heading = "Scheduler", value_parser = |text: &str| parse::human_int(text, 1, 1048576), default_value = "512", help = "Token budget of one step, decode tokens and prefill chunks together [tokens] [1 to 1048576]", allow_negative_numbers = true, value_name = "TOKENS")]
    pub max_num_batched_tokens: u64,
    /// Split prompts over steps when they exceed the budget. Off: a prompt runs whole or waits.
    #[arg(long = "enable-chunked-prefill", env = "VLLM_RS_ENABLE_CHUNKED_PREFILL", help_heading = "Scheduler", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "enable_chunked_prefill_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Split prompts over steps when they exceed the budget. Off: a prompt runs whole or waits [default: on; --no-enable-chunked-prefill turns it off]")]
    pub enable_chunked_prefill: Option<bool>,
    /// Turns `--enable-chunked-prefill` off.
    #[arg(
        long = "no-enable-chunked-prefill",
        overrides_with = "enable_chunked_prefill",
        hide = true
    )]
    pub enable_chunked_prefill_off: bool,
    /// Largest prefill chunk of one request in one step; 0 = no limit beyond the budget.
    #[arg(long = "long-prefill-token-threshold", env = "VLLM_RS_LONG_PREFILL_TOKEN_THRESHOLD", help_heading = "Scheduler", value_parser = |text: &str| parse::human_int(text, 0, 1048576), default_value = "0", help = "Largest prefill chunk of one request in one step; 0 = no limit beyond the budget [tokens] [0 to 1048576]", allow_negative_numbers = true, value_name = "TOKENS")]
    pub long_prefill_token_threshold: u64,
    /// Order of waiting requests: first come first served, or by the request's `priority` (smaller first).
    #[arg(
        long = "scheduling-policy",
        env = "VLLM_RS_SCHEDULING_POLICY",
        help_heading = "Scheduler",
        ignore_case = true,
        value_enum,
        default_value = "fcfs",
        help = "Order of waiting requests: first come first served, or by the request's `priority` (smaller first)"
    )]
    pub scheduling_policy: SchedulingPolicy,
    /// While requests are decoding, cut prefill so that a step takes about this long; 16 tokens of prefill still run in every step. Default: only --max-num-batched-tokens cuts it.
    #[arg(long = "decode-latency-target-ms", env = "VLLM_RS_DECODE_LATENCY_TARGET_MS", help_heading = "Scheduler", value_parser = |text: &str| parse::float(text, parse::Low::Above(0.0), 600000.0), help = "While requests are decoding, cut prefill so that a step takes about this long; 16 tokens of prefill still run in every step. Default: only --max-num-batched-tokens cuts it [milliseconds] [above 0, at most 600000]", allow_negative_numbers = true, value_name = "MILLISECONDS")]
    pub decode_latency_target_ms: Option<f64>,
    /// Requests that may wait for their first token; beyond it the answer is 429.
    #[arg(long = "max-num-queued-reqs", env = "VLLM_RS_MAX_NUM_QUEUED_REQS", help_heading = "Scheduler", value_parser = |text: &str| parse::int(text, 1, 1048576), default_value = "4096", help = "Requests that may wait for their first token; beyond it the answer is 429 [requests] [1 to 1048576]", allow_negative_numbers = true, value_name = "REQUESTS")]
    pub max_num_queued_reqs: u64,
    /// Prompt tokens of the requests that wait for their first token; beyond it the answer is 429. Default: no limit.
    #[arg(long = "max-num-queued-tokens", env = "VLLM_RS_MAX_NUM_QUEUED_TOKENS", help_heading = "Scheduler", value_parser = |text: &str| parse::human_int(text, 1, 1099511627776), help = "Prompt tokens of the requests that wait for their first token; beyond it the answer is 429. Default: no limit [tokens] [1 to 1099511627776]", allow_negative_numbers = true, value_name = "TOKENS")]
    pub max_num_queued_tokens: Option<u64>,
    /// Back end: cpu (our kernels), or torch (the readable reference; needs torch installed).
    #[arg(
        long = "device",
        env = "VLLM_RS_DEVICE",
        help_heading = "Execution",
        ignore_case = true,
        value_enum,
        default_value = "cpu",
        help = "Back end: cpu (our kernels), or torch (the readable reference; needs torch installed)"
    )]
    pub device: Device,
    /// Threads of the kernel pool. Default: the physical cores this process may use, or fewer where a control group's CPU quota is smaller.
    #[arg(long = "cpu-threads", env = "VLLM_RS_CPU_THREADS", help_heading = "Execution", value_parser = |text: &str| parse::int(text, 1, 1024), help = "Threads of the kernel pool. Default: the physical cores this process may use, or fewer where a control group's CPU quota is smaller [1 to 1024]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub cpu_threads: Option<u64>,
    /// Kernel set. auto: the best this CPU offers; `vllm-rs doctor` lists them.
    #[arg(
        long = "cpu-isa",
        env = "VLLM_RS_CPU_ISA",
        help_heading = "Execution",
        ignore_case = true,
        value_enum,
        default_value = "auto",
        help = "Kernel set. auto: the best this CPU offers; `vllm-rs doctor` lists them"
    )]
    pub cpu_isa: CpuIsa,
    /// Replay the recorded program one call at a time instead of in one native call (for debugging).
    #[arg(long = "enforce-eager", env = "VLLM_RS_ENFORCE_EAGER", help_heading = "Execution", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "enforce_eager_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Replay the recorded program one call at a time instead of in one native call (for debugging) [default: off; --no-enforce-eager turns it off]")]
    pub enforce_eager: Option<bool>,
    /// Turns `--enforce-eager` off.
    #[arg(long = "no-enforce-eager", overrides_with = "enforce_eager", hide = true)]
    pub enforce_eager_off: bool,
    /// Least severe messages to print, in the server and in the engine.
    #[arg(
        long = "log-level",
        env = "VLLM_LOGGING_LEVEL",
        help_heading = "Observability",
        ignore_case = true,
        value_enum,
        default_value = "info",
        help = "Least severe messages to print, in the server and in the engine"
    )]
    pub log_level: LogLevel,
    /// One line of text, or one JSON object, per message.
    #[arg(
        long = "log-format",
        env = "VLLM_RS_LOG_FORMAT",
        help_heading = "Observability",
        ignore_case = true,
        value_enum,
        default_value = "text",
        help = "One line of text, or one JSON object, per message"
    )]
    pub log_format: LogFormat,
    /// Do not print throughput and queue lengths every ten seconds while requests run.
    #[arg(long = "disable-log-stats", env = "VLLM_RS_DISABLE_LOG_STATS", help_heading = "Observability", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "disable_log_stats_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Do not print throughput and queue lengths every ten seconds while requests run [default: off; --no-disable-log-stats turns it off]")]
    pub disable_log_stats: Option<bool>,
    /// Turns `--disable-log-stats` off.
    #[arg(
        long = "no-disable-log-stats",
        overrides_with = "disable_log_stats",
        hide = true
    )]
    pub disable_log_stats_off: bool,
    /// Do not log requests. Prompts are never logged, with either setting.
    #[arg(long = "disable-log-requests", env = "VLLM_RS_DISABLE_LOG_REQUESTS", help_heading = "Observability", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "disable_log_requests_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Do not log requests. Prompts are never logged, with either setting [default: on; --enable-log-requests turns it off]")]
    pub disable_log_requests: Option<bool>,
    /// Turns `--disable-log-requests` off.
    #[arg(
        long = "enable-log-requests",
        overrides_with = "disable_log_requests",
        hide = true
    )]
    pub disable_log_requests_off: bool,
    /// Address to listen on. Beyond loopback a key is needed, or --allow-unauthenticated.
    #[arg(
        long = "host",
        env = "VLLM_RS_HOST",
        help_heading = "Frontend",
        default_value = "127.0.0.1",
        help = "Address to listen on. Beyond loopback a key is needed, or --allow-unauthenticated"
    )]
    pub host: String,
    /// TCP port; 0 picks a free one and prints it.
    #[arg(long = "port", env = "VLLM_RS_PORT", help_heading = "Frontend", value_parser = |text: &str| parse::int(text, 0, 65535), default_value = "8000", help = "TCP port; 0 picks a free one and prints it [0 to 65535]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub port: u64,
    /// Listen on this Unix socket instead of host and port.
    #[arg(
        long = "uds",
        env = "VLLM_RS_UDS",
        help_heading = "Frontend",
        help = "Listen on this Unix socket instead of host and port"
    )]
    pub uds: Option<String>,
    /// Key that clients must send as a bearer token; repeat it for several keys.
    #[arg(
        long = "api-key",
        env = "VLLM_API_KEY",
        help_heading = "Frontend",
        hide_env_values = true,
        help = "Key that clients must send as a bearer token; repeat it for several keys"
    )]
    pub api_key: Vec<Secret>,
    /// Listen beyond loopback without a key.
    #[arg(long = "allow-unauthenticated", env = "VLLM_RS_ALLOW_UNAUTHENTICATED", help_heading = "Frontend", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "allow_unauthenticated_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Listen beyond loopback without a key [default: off; --no-allow-unauthenticated turns it off]")]
    pub allow_unauthenticated: Option<bool>,
    /// Turns `--allow-unauthenticated` off.
    #[arg(
        long = "no-allow-unauthenticated",
        overrides_with = "allow_unauthenticated",
        hide = true
    )]
    pub allow_unauthenticated_off: bool,
    /// Origins that browsers may call from; repeatable, or a JSON list, or '*' for any. Default: none.
    #[arg(
        long = "allowed-origins",
        env = "VLLM_RS_ALLOWED_ORIGINS",
        help_heading = "Frontend",
        help = "Origins that browsers may call from; repeatable, or a JSON list, or '*' for any. Default: none"
    )]
    pub allowed_origins: Vec<String>,
    /// How long running requests may take to finish after SIGTERM or Ctrl-C.
    #[arg(long = "shutdown-timeout", env = "VLLM_RS_SHUTDOWN_TIMEOUT", help_heading = "Engine link", value_parser = |text: &str| parse::float(text, parse::Low::From(0.0), 86400.0), default_value = "30.0", help = "How long running requests may take to finish after SIGTERM or Ctrl-C [seconds] [0 to 86400]", allow_negative_numbers = true, value_name = "SECONDS")]
    pub shutdown_timeout: f64,
    /// Report cached prompt tokens in `usage.prompt_tokens_details`.
    #[arg(long = "enable-prompt-tokens-details", env = "VLLM_RS_ENABLE_PROMPT_TOKENS_DETAILS", help_heading = "Frontend", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "enable_prompt_tokens_details_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Report cached prompt tokens in `usage.prompt_tokens_details` [default: off; --no-enable-prompt-tokens-details turns it off]")]
    pub enable_prompt_tokens_details: Option<bool>,
    /// Turns `--enable-prompt-tokens-details` off.
    #[arg(
        long = "no-enable-prompt-tokens-details",
        overrides_with = "enable_prompt_tokens_details",
        hide = true
    )]
    pub enable_prompt_tokens_details_off: bool,
    /// Send usage at the end of every stream, asked for or not.
    #[arg(long = "enable-force-include-usage", env = "VLLM_RS_ENABLE_FORCE_INCLUDE_USAGE", help_heading = "Frontend", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "enable_force_include_usage_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Send usage at the end of every stream, asked for or not [default: off; --no-enable-force-include-usage turns it off]")]
    pub enable_force_include_usage: Option<bool>,
    /// Turns `--enable-force-include-usage` off.
    #[arg(
        long = "no-enable-force-include-usage",
        overrides_with = "enable_force_include_usage",
        hide = true
    )]
    pub enable_force_include_usage_off: bool,
    /// How long a sign of life may be due from the engine before /health and /ready answer 503; must be above the longest single step. Requests are still taken and wait.
    #[arg(long = "engine-stall-timeout", env = "VLLM_RS_ENGINE_STALL_TIMEOUT", help_heading = "Frontend", value_parser = |text: &str| parse::float(text, parse::Low::From(1.0), 86400.0), default_value = "60.0", help = "How long a sign of life may be due from the engine before /health and /ready answer 503; must be above the longest single step. Requests are still taken and wait [seconds] [1 to 86400]", allow_negative_numbers = true, value_name = "SECONDS")]
    pub engine_stall_timeout: f64,
    /// The same before an engine that this server started is killed and started again; 0: never.
    #[arg(long = "engine-kill-timeout", env = "VLLM_RS_ENGINE_KILL_TIMEOUT", help_heading = "Frontend", value_parser = |text: &str| parse::float(text, parse::Low::From(0.0), 86400.0), default_value = "300.0", help = "The same before an engine that this server started is killed and started again; 0: never [seconds] [0 to 86400]", allow_negative_numbers = true, value_name = "SECONDS")]
    pub engine_kill_timeout: f64,
    /// Largest request body; beyond it the answer is 413.
    #[arg(long = "max-request-bytes", env = "VLLM_RS_MAX_REQUEST_BYTES", help_heading = "Frontend", value_parser = |text: &str| parse::human_int(text, 1024, 4294967296), default_value = "33554432", help = "Largest request body; beyond it the answer is 413 [bytes] [1024 to 4294967296]", allow_negative_numbers = true, value_name = "BYTES")]
    pub max_request_bytes: u64,
    /// Largest `n`, and largest number of prompts in one completion request times `n`.
    #[arg(long = "max-n", env = "VLLM_MAX_N_SEQUENCES", help_heading = "Frontend", value_parser = |text: &str| parse::int(text, 1, 16384), default_value = "64", help = "Largest `n`, and largest number of prompts in one completion request times `n` [1 to 16384]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub max_n: u64,
    /// Most stop strings in one request.
    #[arg(long = "max-stop-strings", env = "VLLM_RS_MAX_STOP_STRINGS", help_heading = "Frontend", value_parser = |text: &str| parse::int(text, 0, 65536), default_value = "64", help = "Most stop strings in one request [0 to 65536]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub max_stop_strings: u64,
    /// Longest stop string.
    #[arg(long = "max-stop-string-bytes", env = "VLLM_RS_MAX_STOP_STRING_BYTES", help_heading = "Frontend", value_parser = |text: &str| parse::human_int(text, 1, 1048576), default_value = "1024", help = "Longest stop string [bytes] [1 to 1048576]", allow_negative_numbers = true, value_name = "BYTES")]
    pub max_stop_string_bytes: u64,
    /// Most entries of `logit_bias` in one request.
    #[arg(long = "max-logit-bias", env = "VLLM_RS_MAX_LOGIT_BIAS", help_heading = "Frontend", value_parser = |text: &str| parse::int(text, 0, 4096), default_value = "1024", help = "Most entries of `logit_bias` in one request [0 to 4096]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub max_logit_bias: u64,
    /// Run the engine only, for a frontend that something else started at --data-parallel-address.
    #[arg(long = "headless", env = "VLLM_RS_HEADLESS", help_heading = "Engine link", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", overrides_with = "headless_off", value_parser = clap::builder::BoolishValueParser::new(), help = "Run the engine only, for a frontend that something else started at --data-parallel-address [default: off; --no-headless turns it off]")]
    pub headless: Option<bool>,
    /// Turns `--headless` off.
    #[arg(long = "no-headless", overrides_with = "headless", hide = true)]
    pub headless_off: bool,
    /// Engines behind the frontend; one for now.
    #[arg(long = "data-parallel-size", env = "VLLM_RS_DATA_PARALLEL_SIZE", help_heading = "Engine link", value_parser = |text: &str| parse::int(text, 1, 1), default_value = "1", help = "Engines behind the frontend; one for now [1 to 1]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub data_parallel_size: u64,
    /// Engines started on this machine; 0 = serve an engine that something else starts.
    #[arg(long = "data-parallel-size-local", env = "VLLM_RS_DATA_PARALLEL_SIZE_LOCAL", help_heading = "Engine link", value_parser = |text: &str| parse::int(text, 0, 1), default_value = "1", help = "Engines started on this machine; 0 = serve an engine that something else starts [0 to 1]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub data_parallel_size_local: u64,
    /// Where frontend and engine meet when one of them was started elsewhere.
    #[arg(
        long = "data-parallel-address",
        env = "VLLM_RS_DATA_PARALLEL_ADDRESS",
        help_heading = "Engine link",
        default_value = "127.0.0.1",
        help = "Where frontend and engine meet when one of them was started elsewhere"
    )]
    pub data_parallel_address: String,
    /// Port of the handshake at --data-parallel-address.
    #[arg(long = "data-parallel-rpc-port", env = "VLLM_RS_DATA_PARALLEL_RPC_PORT", help_heading = "Engine link", value_parser = |text: &str| parse::int(text, 1, 65535), default_value = "29550", help = "Port of the handshake at --data-parallel-address [1 to 65535]", allow_negative_numbers = true, value_name = "NUMBER")]
    pub data_parallel_rpc_port: u64,
}

/// The section `model`, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// What to serve: an embedded name (smollm2), a local folder or .gguf file, or a hub repository id.
    pub model: String,
    /// The local folder or .gguf file that `model` was resolved to.
    pub model_path: Option<String>,
    /// Names clients may use for the model; the first is the one reported. Default: the model as given.
    pub served_model_name: Vec<String>,
    /// Local folder or .gguf file to take the tokenizer from, when it is not the model's own.
    pub tokenizer: Option<String>,
    /// Branch, tag or commit of the hub repository.
    pub revision: Option<String>,
    /// Folder for downloaded models. Default: VLLM_RS_CACHE, or vllm-rs in the user's cache folder.
    pub download_dir: Option<String>,
    /// Format of the weights; auto looks at the files. Pickled formats (.bin, .pt) are refused.
    pub load_format: LoadFormat,
    /// Arithmetic of weights and activations. auto: bfloat16 on CPU. float32 is the reference the tests use. float16 is refused on CPU.
    pub dtype: Dtype,
    /// Longest prompt plus output of one request. Default: what the model's config says, lowered to what memory holds when auto. [tokens]
    pub max_model_len: Option<u64>,
    /// Base seed for requests that carry none. Default: drawn at start.
    pub seed: Option<u64>,
    /// Most log-probabilities per token a request may ask for; -1 = as many as the vocabulary has.
    pub max_logprobs: i64,
    /// Parsed for compatibility and always refused: code from a model repository is never run; the architectures listed in the README work without it.
    pub trust_remote_code: bool,
    /// Chat template: a file, or the Jinja text itself. Default: the model's own.
    pub chat_template: Option<String>,
    /// Where default sampling values come from: auto (the model's generation_config.json), vllm (none), or a folder.
    pub generation_config: String,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            model: "smollm2".to_owned(),
            model_path: None,
            served_model_name: Vec::new(),
            tokenizer: None,
            revision: None,
            download_dir: None,
            load_format: LoadFormat::Auto,
            dtype: Dtype::Auto,
            max_model_len: None,
            seed: None,
            max_logprobs: 20,
            trust_remote_code: false,
            chat_template: None,
            generation_config: "auto".to_owned(),
        }
    }
}

/// The section `cache`, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Tokens per KV cache block. [tokens]
    pub block_size: u64,
    /// Keep finished blocks and reuse them for requests with the same prefix.
    pub enable_prefix_caching: bool,
    /// Memory for the KV cache; wins over --gpu-memory-utilization. Default on CPU: the least of 4 GiB, half of the free memory, and max-num-seqs x max-model-len. [bytes]
    pub kv_cache_memory_bytes: Option<u64>,
    /// Fraction of the device's memory (on CPU: of the memory this process may use) for weights, activations and KV cache together.
    pub gpu_memory_utilization: Option<f64>,
    /// Storage type of keys and values. auto: that of --dtype.
    pub kv_cache_dtype: KvCacheDtype,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            block_size: 16,
            enable_prefix_caching: true,
            kv_cache_memory_bytes: None,
            gpu_memory_utilization: None,
            kv_cache_dtype: KvCacheDtype::Auto,
        }
    }
}

/// The section `scheduler`, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulerConfig {
    /// Requests that may run in one step. [requests]
    pub max_num_seqs: u64,
    /// Token budget of one step, decode tokens and prefill chunks together. [tokens]
    pub max_num_batched_tokens: u64,
    /// Split prompts over steps when they exceed the budget. Off: a prompt runs whole or waits.
    pub enable_chunked_prefill: bool,
    /// Largest prefill chunk of one request in one step; 0 = no limit beyond the budget. [tokens]
    pub long_prefill_token_threshold: u64,
    /// Order of waiting requests: first come first served, or by the request's `priority` (smaller first).
    pub scheduling_policy: SchedulingPolicy,
    /// While requests are decoding, cut prefill so that a step takes about this long; 16 tokens of prefill still run in every step. Default: only --max-num-batched-tokens cuts it. [milliseconds]
    pub decode_latency_target_ms: Option<f64>,
    /// Requests that may wait for their first token; beyond it the answer is 429. [requests]
    pub max_num_queued_reqs: u64,
    /// Prompt tokens of the requests that wait for their first token; beyond it the answer is 429. Default: no limit. [tokens]
    pub max_num_queued_tokens: Option<u64>,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            max_num_seqs: 64,
            max_num_batched_tokens: 512,
            enable_chunked_prefill: true,
            long_prefill_token_threshold: 0,
            scheduling_policy: SchedulingPolicy::Fcfs,
            decode_latency_target_ms: None,
            max_num_queued_reqs: 4_096,
            max_num_queued_tokens: None,
        }
    }
}

/// The section `execution`, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExecutionConfig {
    /// Back end: cpu (our kernels), or torch (the readable reference; needs torch installed).
    pub device: Device,
    /// Threads of the kernel pool. Default: the physical cores this process may use, or fewer where a control group's CPU quota is smaller.
    pub cpu_threads: Option<u64>,
    /// Kernel set. auto: the best this CPU offers; `vllm-rs doctor` lists them.
    pub cpu_isa: CpuIsa,
    /// Replay the recorded program one call at a time instead of in one native call (for debugging).
    pub enforce_eager: bool,
}

impl Default for ExecutionConfig {
    fn default() -> Self {
        Self {
            device: Device::Cpu,
            cpu_threads: None,
            cpu_isa: CpuIsa::Auto,
            enforce_eager: false,
        }
    }
}

/// The section `observability`, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObservabilityConfig {
    /// Least severe messages to print, in the server and in the engine.
    pub log_level: LogLevel,
    /// One line of text, or one JSON object, per message.
    pub log_format: LogFormat,
    /// Do not print throughput and queue lengths every ten seconds while requests run.
    pub disable_log_stats: bool,
    /// Do not log requests. Prompts are never logged, with either setting.
    pub disable_log_requests: bool,
}

impl Default for ObservabilityConfig {
    fn default() -> Self {
        Self {
            log_level: LogLevel::Info,
            log_format: LogFormat::Text,
            disable_log_stats: false,
            disable_log_requests: true,
        }
    }
}

/// The section `link`, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkConfig {
    /// How long running requests may take to finish after SIGTERM or Ctrl-C. [seconds]
    pub shutdown_timeout: f64,
    /// Run the engine only, for a frontend that something else started at --data-parallel-address.
    pub headless: bool,
    /// Engines behind the frontend; one for now.
    pub data_parallel_size: u64,
    /// Engines started on this machine; 0 = serve an engine that something else starts.
    pub data_parallel_size_local: u64,
    /// Where frontend and engine meet when one of them was started elsewhere.
    pub data_parallel_address: String,
    /// Port of the handshake at --data-parallel-address.
    pub data_parallel_rpc_port: u64,
    /// ZMQ address of the frontend's handshake socket.
    pub handshake_address: Option<String>,
    /// Index of this engine behind its frontend; its ZMQ identity.
    pub engine_index: u64,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            shutdown_timeout: 30.0,
            headless: false,
            data_parallel_size: 1,
            data_parallel_size_local: 1,
            data_parallel_address: "127.0.0.1".to_owned(),
            data_parallel_rpc_port: 29_550,
            handshake_address: None,
            engine_index: 0,
        }
    }
}

/// The section `frontend`, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FrontendConfig {
    /// Address to listen on. Beyond loopback a key is needed, or --allow-unauthenticated.
    pub host: String,
    /// TCP port; 0 picks a free one and prints it.
    pub port: u64,
    /// Listen on this Unix socket instead of host and port.
    pub uds: Option<String>,
    /// Key that clients must send as a bearer token; repeat it for several keys.
    pub api_key: Vec<Secret>,
    /// Listen beyond loopback without a key.
    pub allow_unauthenticated: bool,
    /// Origins that browsers may call from; repeatable, or a JSON list, or '*' for any. Default: none.
    pub allowed_origins: Vec<String>,
    /// Report cached prompt tokens in `usage.prompt_tokens_details`.
    pub enable_prompt_tokens_details: bool,
    /// Send usage at the end of every stream, asked for or not.
    pub enable_force_include_usage: bool,
    /// How long a sign of life may be due from the engine before /health and /ready answer 503; must be above the longest single step. Requests are still taken and wait. [seconds]
    pub engine_stall_timeout: f64,
    /// The same before an engine that this server started is killed and started again; 0: never. [seconds]
    pub engine_kill_timeout: f64,
    /// Largest request body; beyond it the answer is 413. [bytes]
    pub max_request_bytes: u64,
    /// Largest `n`, and largest number of prompts in one completion request times `n`.
    pub max_n: u64,
    /// Most stop strings in one request.
    pub max_stop_strings: u64,
    /// Longest stop string. [bytes]
    pub max_stop_string_bytes: u64,
    /// Most entries of `logit_bias` in one request.
    pub max_logit_bias: u64,
}

impl Default for FrontendConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8_000,
            uds: None,
            api_key: Vec::new(),
            allow_unauthenticated: false,
            allowed_origins: Vec::new(),
            enable_prompt_tokens_details: false,
            enable_force_include_usage: false,
            engine_stall_timeout: 60.0,
            engine_kill_timeout: 300.0,
            max_request_bytes: 33_554_432,
            max_n: 64,
            max_stop_strings: 64,
            max_stop_string_bytes: 1_024,
            max_logit_bias: 1_024,
        }
    }
}

/// Every section, resolved. What the engine is told is `engine_json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The section `model`.
    pub model: ModelConfig,
    /// The section `cache`.
    pub cache: CacheConfig,
    /// The section `scheduler`.
    pub scheduler: SchedulerConfig,
    /// The section `execution`.
    pub execution: ExecutionConfig,
    /// The section `observability`.
    pub observability: ObservabilityConfig,
    /// The section `link`.
    pub link: LinkConfig,
    /// The section `frontend`.
    pub frontend: FrontendConfig,
}

/// The sections the engine receives.
pub const ENGINE_SECTIONS: &[&str] = &[
    "model",
    "cache",
    "scheduler",
    "execution",
    "observability",
    "link",
];

impl ServeArgs {
    /// Defaults, environment and flags become one value per field.
    pub fn resolve(self) -> Result<Config, FlagError> {
        Ok(Config {
            model: ModelConfig {
                model: parse::positional("model", self.model, self.model_flag, "smollm2")?,
                model_path: None,
                served_model_name: parse::list("served-model-name", self.served_model_name)?,
                tokenizer: self.tokenizer,
                revision: self.revision,
                download_dir: self.download_dir,
                load_format: self.load_format,
                dtype: self.dtype,
                max_model_len: self.max_model_len.and_then(parse::Auto::value),
                seed: self.seed,
                max_logprobs: self.max_logprobs,
                trust_remote_code: parse::switch(self.trust_remote_code, self.trust_remote_code_off, false),
                chat_template: self.chat_template,
                generation_config: self.generation_config,
            },
            cache: CacheConfig {
                block_size: self.block_size,
                enable_prefix_caching: parse::switch(
                    self.enable_prefix_caching,
                    self.enable_prefix_caching_off,
                    true,
                ),
                kv_cache_memory_bytes: self.kv_cache_memory_bytes,
                gpu_memory_utilization: self.gpu_memory_utilization,
                kv_cache_dtype: self.kv_cache_dtype,
            },
            scheduler: SchedulerConfig {
                max_num_seqs: self.max_num_seqs,
                max_num_batched_tokens: self.max_num_batched_tokens,
                enable_chunked_prefill: parse::switch(
                    self.enable_chunked_prefill,
                    self.enable_chunked_prefill_off,
                    true,
                ),
                long_prefill_token_threshold: self.long_prefill_token_threshold,
                scheduling_policy: self.scheduling_policy,
                decode_latency_target_ms: self.decode_latency_target_ms,
                max_num_queued_reqs: self.max_num_queued_reqs,
                max_num_queued_tokens: self.max_num_queued_tokens,
            },
            execution: ExecutionConfig {
                device: self.device,
                cpu_threads: self.cpu_threads,
                cpu_isa: self.cpu_isa,
                enforce_eager: parse::switch(self.enforce_eager, self.enforce_eager_off, false),
            },
            observability: ObservabilityConfig {
                log_level: self.log_level,
                log_format: self.log_format,
                disable_log_stats: parse::switch(self.disable_log_stats, self.disable_log_stats_off, false),
                disable_log_requests: parse::switch(
                    self.disable_log_requests,
                    self.disable_log_requests_off,
                    true,
                ),
            },
            link: LinkConfig {
                shutdown_timeout: self.shutdown_timeout,
                headless: parse::switch(self.headless, self.headless_off, false),
                data_parallel_size: self.data_parallel_size,
                data_parallel_size_local: self.data_parallel_size_local,
                data_parallel_address: self.data_parallel_address,
                data_parallel_rpc_port: self.data_parallel_rpc_port,
                handshake_address: None,
                engine_index: 0,
            },
            frontend: FrontendConfig {
                host: self.host,
                port: self.port,
                uds: self.uds,
                api_key: self.api_key,
                allow_unauthenticated: parse::switch(
                    self.allow_unauthenticated,
                    self.allow_unauthenticated_off,
                    false,
                ),
                allowed_origins: parse::list("allowed-origins", self.allowed_origins)?,
                enable_prompt_tokens_details: parse::switch(
                    self.enable_prompt_tokens_details,
                    self.enable_prompt_tokens_details_off,
                    false,
                ),
                enable_force_include_usage: parse::switch(
                    self.enable_force_include_usage,
                    self.enable_force_include_usage_off,
                    false,
                ),
                engine_stall_timeout: self.engine_stall_timeout,
                engine_kill_timeout: self.engine_kill_timeout,
                max_request_bytes: self.max_request_bytes,
                max_n: self.max_n,
                max_stop_strings: self.max_stop_strings,
                max_stop_string_bytes: self.max_stop_string_bytes,
                max_logit_bias: self.max_logit_bias,
            },
        })
    }
}

/// Every flag of the table, with its section.
pub const FLAGS: &[(&str, &str)] = &[
    ("model", "model"),
    ("served-model-name", "model"),
    ("tokenizer", "model"),
    ("revision", "model"),
    ("download-dir", "model"),
    ("load-format", "model"),
    ("dtype", "model"),
    ("max-model-len", "model"),
    ("seed", "model"),
    ("max-logprobs", "model"),
    ("trust-remote-code", "model"),
    ("chat-template", "model"),
    ("generation-config", "model"),
    ("block-size", "cache"),
    ("enable-prefix-caching", "cache"),
    ("kv-cache-memory-bytes", "cache"),
    ("gpu-memory-utilization", "cache"),
    ("kv-cache-dtype", "cache"),
    ("max-num-seqs", "scheduler"),
    ("max-num-batched-tokens", "scheduler"),
    ("enable-chunked-prefill", "scheduler"),
    ("long-prefill-token-threshold", "scheduler"),
    ("scheduling-policy", "scheduler"),
    ("decode-latency-target-ms", "scheduler"),
    ("max-num-queued-reqs", "scheduler"),
    ("max-num-queued-tokens", "scheduler"),
    ("device", "execution"),
    ("cpu-threads", "execution"),
    ("cpu-isa", "execution"),
    ("enforce-eager", "execution"),
    ("log-level", "observability"),
    ("log-format", "observability"),
    ("disable-log-stats", "observability"),
    ("disable-log-requests", "observability"),
    ("host", "frontend"),
    ("port", "frontend"),
    ("uds", "frontend"),
    ("api-key", "frontend"),
    ("allow-unauthenticated", "frontend"),
    ("allowed-origins", "frontend"),
    ("shutdown-timeout", "link"),
    ("enable-prompt-tokens-details", "frontend"),
    ("enable-force-include-usage", "frontend"),
    ("engine-stall-timeout", "frontend"),
    ("engine-kill-timeout", "frontend"),
    ("max-request-bytes", "frontend"),
    ("max-n", "frontend"),
    ("max-stop-strings", "frontend"),
    ("max-stop-string-bytes", "frontend"),
    ("max-logit-bias", "frontend"),
    ("headless", "link"),
    ("data-parallel-size", "link"),
    ("data-parallel-size-local", "link"),
    ("data-parallel-address", "link"),
    ("data-parallel-rpc-port", "link"),
];

/// Spellings of vLLM that stand for a long flag.
pub const SHORT: &[(&str, &str)] = &[
    ("-dp", "data-parallel-size"),
    ("-dpl", "data-parallel-size-local"),
    ("-dpa", "data-parallel-address"),
    ("-dpp", "data-parallel-rpc-port"),
    ("-tp", "tensor-parallel-size"),
    ("-pp", "pipeline-parallel-size"),
    ("-q", "quantization"),
    ("-O", "compilation-config"),
    ("-cc", "compilation-config"),
    ("-n", "nnodes"),
    ("-r", "node-rank"),
    ("-ep", "enable-expert-parallel"),
    ("-dcp", "decode-context-parallel-size"),
];

/// Environment variables that set a flag in another unit.
pub const SCALED_ENV: &[ScaledEnv] = &[ScaledEnv {
    name: "VLLM_CPU_KVCACHE_SPACE",
    flag: "kv-cache-memory-bytes",
    own_env: "VLLM_RS_KV_CACHE_MEMORY_BYTES",
    factor: 1_073_741_824,
    unit: "GiB",
}];

/// vLLM flags that we know and do not have.
pub const REFUSED: &[RefusedFlag] = &[
    RefusedFlag {
        name: "tensor-parallel-size",
        accepts: &["1"],
        switch: false,
        instead: "one device runs the whole model for now; leave it out",
    },
    RefusedFlag {
        name: "pipeline-parallel-size",
        accepts: &["1"],
        switch: false,
        instead: "one device runs the whole model for now; leave it out",
    },
    RefusedFlag {
        name: "decode-context-parallel-size",
        accepts: &["1"],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "data-parallel-start-rank",
        accepts: &["0"],
        switch: false,
        instead: "only one engine per frontend exists for now; leave it out",
    },
    RefusedFlag {
        name: "data-parallel-hybrid-lb",
        accepts: &[],
        switch: true,
        instead: "only one engine per frontend exists for now",
    },
    RefusedFlag {
        name: "data-parallel-external-lb",
        accepts: &[],
        switch: true,
        instead: "only one engine per frontend exists for now",
    },
    RefusedFlag {
        name: "data-parallel-multi-port-external-lb",
        accepts: &[],
        switch: true,
        instead: "only one engine per frontend exists for now",
    },
    RefusedFlag {
        name: "data-parallel-backend",
        accepts: &["mp"],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "enable-expert-parallel",
        accepts: &[],
        switch: true,
        instead: "no mixture-of-experts model is supported yet",
    },
    RefusedFlag {
        name: "distributed-executor-backend",
        accepts: &["uni", "mp"],
        switch: false,
        instead: "leave it out: the executor runs in the engine process",
    },
    RefusedFlag {
        name: "nnodes",
        accepts: &["1"],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "node-rank",
        accepts: &["0"],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "api-server-count",
        accepts: &["0", "1"],
        switch: false,
        instead: "leave it out: one process serves on all its threads",
    },
    RefusedFlag {
        name: "quantization",
        accepts: &["none", "gguf"],
        switch: false,
        instead: "give a .gguf file as the model: its quantised weights are read as they are",
    },
    RefusedFlag {
        name: "compilation-config",
        accepts: &[],
        switch: false,
        instead: "leave it out: the step is recorded at load; --enforce-eager turns the replay off",
    },
    RefusedFlag {
        name: "swap-space",
        accepts: &["0", "4"],
        switch: false,
        instead: "leave it out: preempted requests are recomputed; --kv-cache-memory-bytes sizes the cache",
    },
    RefusedFlag {
        name: "cpu-offload-gb",
        accepts: &["0"],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "num-gpu-blocks-override",
        accepts: &[],
        switch: false,
        instead: "--kv-cache-memory-bytes",
    },
    RefusedFlag {
        name: "prefix-caching-hash-algo",
        accepts: &["sha256", "sha256_cbor"],
        switch: false,
        instead: "leave it out: blocks are hashed with SHA-256",
    },
    RefusedFlag {
        name: "max-num-partial-prefills",
        accepts: &["1"],
        switch: false,
        instead: "--long-prefill-token-threshold",
    },
    RefusedFlag {
        name: "max-long-partial-prefills",
        accepts: &["1"],
        switch: false,
        instead: "--long-prefill-token-threshold",
    },
    RefusedFlag {
        name: "async-scheduling",
        accepts: &[],
        switch: true,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "stream-interval",
        accepts: &["1"],
        switch: false,
        instead: "leave it out: every token is streamed when it is made",
    },
    RefusedFlag {
        name: "tokenizer-mode",
        accepts: &["auto", "hf"],
        switch: false,
        instead: "leave it out: there is one tokenizer implementation",
    },
    RefusedFlag {
        name: "skip-tokenizer-init",
        accepts: &[],
        switch: true,
        instead: "send token ids as `prompt`; the tokenizer costs little",
    },
    RefusedFlag {
        name: "config-format",
        accepts: &["auto", "hf"],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "hf-overrides",
        accepts: &[],
        switch: false,
        instead: "edit config.json in a local copy of the model",
    },
    RefusedFlag {
        name: "hf-config-path",
        accepts: &[],
        switch: false,
        instead: "a local folder that holds config.json beside the weights",
    },
    RefusedFlag {
        name: "hf-token",
        accepts: &[],
        switch: false,
        instead: "the environment variable HF_TOKEN",
    },
    RefusedFlag {
        name: "code-revision",
        accepts: &[],
        switch: false,
        instead: "leave it out: code from a model repository is never run",
    },
    RefusedFlag {
        name: "tokenizer-revision",
        accepts: &[],
        switch: false,
        instead: "--revision, or --tokenizer with a local folder",
    },
    RefusedFlag {
        name: "task",
        accepts: &["auto", "generate"],
        switch: false,
        instead: "leave it out: only text generation is supported yet",
    },
    RefusedFlag {
        name: "runner",
        accepts: &["auto", "generate"],
        switch: false,
        instead: "leave it out: only text generation is supported yet",
    },
    RefusedFlag {
        name: "convert",
        accepts: &["auto", "none"],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "speculative-config",
        accepts: &[],
        switch: false,
        instead: "leave it out: speculative decoding is not built yet",
    },
    RefusedFlag {
        name: "speculative-model",
        accepts: &[],
        switch: false,
        instead: "leave it out: speculative decoding is not built yet",
    },
    RefusedFlag {
        name: "num-speculative-tokens",
        accepts: &[],
        switch: false,
        instead: "leave it out: speculative decoding is not built yet",
    },
    RefusedFlag {
        name: "spec-method",
        accepts: &[],
        switch: false,
        instead: "leave it out: speculative decoding is not built yet",
    },
    RefusedFlag {
        name: "spec-model",
        accepts: &[],
        switch: false,
        instead: "leave it out: speculative decoding is not built yet",
    },
    RefusedFlag {
        name: "spec-tokens",
        accepts: &[],
        switch: false,
        instead: "leave it out: speculative decoding is not built yet",
    },
    RefusedFlag {
        name: "kv-transfer-config",
        accepts: &[],
        switch: false,
        instead: "leave it out: KV transfer is not built yet",
    },
    RefusedFlag {
        name: "kv-events-config",
        accepts: &[],
        switch: false,
        instead: "leave it out: KV events are not built yet",
    },
    RefusedFlag {
        name: "enable-lora",
        accepts: &[],
        switch: true,
        instead: "a model with the adapter merged in",
    },
    RefusedFlag {
        name: "lora-modules",
        accepts: &[],
        switch: false,
        instead: "a model with the adapter merged in",
    },
    RefusedFlag {
        name: "max-loras",
        accepts: &[],
        switch: false,
        instead: "a model with the adapter merged in",
    },
    RefusedFlag {
        name: "max-lora-rank",
        accepts: &[],
        switch: false,
        instead: "a model with the adapter merged in",
    },
    RefusedFlag {
        name: "structured-outputs-config",
        accepts: &[],
        switch: false,
        instead: "leave it out: structured outputs are not built yet",
    },
    RefusedFlag {
        name: "guided-decoding-backend",
        accepts: &[],
        switch: false,
        instead: "leave it out: structured outputs are not built yet",
    },
    RefusedFlag {
        name: "reasoning-parser",
        accepts: &[],
        switch: false,
        instead: "leave it out: reasoning text stays in `content` for now",
    },
    RefusedFlag {
        name: "enable-auto-tool-choice",
        accepts: &[],
        switch: true,
        instead: "leave it out: tool calls are not parsed yet",
    },
    RefusedFlag {
        name: "tool-call-parser",
        accepts: &[],
        switch: false,
        instead: "leave it out: tool calls are not parsed yet",
    },
    RefusedFlag {
        name: "default-chat-template-kwargs",
        accepts: &[],
        switch: false,
        instead: "`chat_template_kwargs` in the request",
    },
    RefusedFlag {
        name: "chat-template-content-format",
        accepts: &["auto"],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "response-role",
        accepts: &["assistant"],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "limit-mm-per-prompt",
        accepts: &[],
        switch: false,
        instead: "leave it out: only text models are supported yet",
    },
    RefusedFlag {
        name: "allowed-media-domains",
        accepts: &[],
        switch: false,
        instead: "leave it out: only text models are supported yet",
    },
    RefusedFlag {
        name: "allowed-local-media-path",
        accepts: &[],
        switch: false,
        instead: "leave it out: only text models are supported yet",
    },
    RefusedFlag {
        name: "override-generation-config",
        accepts: &[],
        switch: false,
        instead: "--generation-config with a folder that holds your generation_config.json",
    },
    RefusedFlag {
        name: "enable-sleep-mode",
        accepts: &[],
        switch: true,
        instead: "leave it out: stop and start the server, it takes a second or two",
    },
    RefusedFlag {
        name: "enable-cumem-allocator",
        accepts: &[],
        switch: true,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "mamba-cache-mode",
        accepts: &[],
        switch: false,
        instead: "leave it out: no state-space model is supported yet",
    },
    RefusedFlag {
        name: "ssl-keyfile",
        accepts: &[],
        switch: false,
        instead: "a reverse proxy that ends TLS",
    },
    RefusedFlag {
        name: "ssl-certfile",
        accepts: &[],
        switch: false,
        instead: "a reverse proxy that ends TLS",
    },
    RefusedFlag {
        name: "ssl-ca-certs",
        accepts: &[],
        switch: false,
        instead: "a reverse proxy that ends TLS",
    },
    RefusedFlag {
        name: "ssl-cert-reqs",
        accepts: &[],
        switch: false,
        instead: "a reverse proxy that ends TLS",
    },
    RefusedFlag {
        name: "root-path",
        accepts: &[],
        switch: false,
        instead: "a reverse proxy that strips the prefix",
    },
    RefusedFlag {
        name: "middleware",
        accepts: &[],
        switch: false,
        instead: "a reverse proxy: Python code is not loaded into the server",
    },
    RefusedFlag {
        name: "allow-credentials",
        accepts: &[],
        switch: true,
        instead: "bearer tokens: cookies are never used",
    },
    RefusedFlag {
        name: "allowed-methods",
        accepts: &[],
        switch: false,
        instead: "leave it out: the methods the routes take are allowed",
    },
    RefusedFlag {
        name: "allowed-headers",
        accepts: &[],
        switch: false,
        instead: "leave it out: the headers the routes take are allowed",
    },
    RefusedFlag {
        name: "enable-request-id-headers",
        accepts: &[],
        switch: true,
        instead: "leave it out: X-Request-Id is always answered",
    },
    RefusedFlag {
        name: "max-log-len",
        accepts: &[],
        switch: false,
        instead: "leave it out: prompts are never logged",
    },
    RefusedFlag {
        name: "uvicorn-log-level",
        accepts: &[],
        switch: false,
        instead: "--log-level",
    },
    RefusedFlag {
        name: "disable-uvicorn-access-log",
        accepts: &[],
        switch: true,
        instead: "--log-level warning",
    },
    RefusedFlag {
        name: "disable-frontend-multiprocessing",
        accepts: &[],
        switch: true,
        instead: "leave it out: the frontend is one native process",
    },
    RefusedFlag {
        name: "disable-fastapi-docs",
        accepts: &[],
        switch: true,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "enable-tokenizer-info-endpoint",
        accepts: &[],
        switch: true,
        instead: "the model's own tokenizer_config.json",
    },
    RefusedFlag {
        name: "enable-server-load-tracking",
        accepts: &[],
        switch: true,
        instead: "the gauges of /metrics",
    },
    RefusedFlag {
        name: "rate-limit-interval",
        accepts: &[],
        switch: false,
        instead: "--max-num-queued-reqs or --max-num-queued-tokens",
    },
    RefusedFlag {
        name: "rate-limit-token",
        accepts: &[],
        switch: false,
        instead: "--max-num-queued-reqs or --max-num-queued-tokens",
    },
    RefusedFlag {
        name: "grpc",
        accepts: &[],
        switch: true,
        instead: "the HTTP routes",
    },
    RefusedFlag {
        name: "config",
        accepts: &[],
        switch: false,
        instead: "the environment twins of the flags, listed in docs/flags.md",
    },
    RefusedFlag {
        name: "otlp-traces-endpoint",
        accepts: &[],
        switch: false,
        instead: "leave it out: traces are not exported yet",
    },
    RefusedFlag {
        name: "collect-detailed-traces",
        accepts: &[],
        switch: false,
        instead: "leave it out: traces are not exported yet",
    },
    RefusedFlag {
        name: "attention-backend",
        accepts: &[],
        switch: false,
        instead: "--device and --cpu-isa",
    },
    RefusedFlag {
        name: "max-seq-len-to-capture",
        accepts: &[],
        switch: false,
        instead: "leave it out",
    },
    RefusedFlag {
        name: "disable-custom-all-reduce",
        accepts: &[],
        switch: true,
        instead: "leave it out",
    },
];

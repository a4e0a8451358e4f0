//! The command line. `serve`'s flags come from the one flags table; the rest is small.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use vllm_rs_engine_client::mock::{GarbageKind, MockConfig, MockTokens};
use vllm_rs_flags::ServeArgs;

/// Serve open-weight language models behind an OpenAI-compatible API.
#[derive(Debug, Parser)]
#[command(
    name = "vllm-rs",
    version = crate::build_info::long_version(),
    after_help = "Examples:\n  \
        vllm-rs serve                          serve the default model on http://127.0.0.1:8000\n  \
        vllm-rs serve ./model --port 9000      serve a folder or a .gguf file\n  \
        vllm-rs pull smollm2                   fetch a model now, to start offline later\n  \
        vllm-rs doctor                         show what this machine has and what would be used\n\n\
        Every flag of `serve` has an environment twin; docs/flags.md lists them."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The command line as it is shown: the mock's flags are hidden in `serve`, and bare in `mock-engine`.
    pub fn shown() -> clap::Command {
        let hide = |arg: clap::Arg| {
            let of_mock = arg.get_id().as_str().starts_with("mock");
            if of_mock { arg.hide(true) } else { arg }
        };
        let strip = |arg: clap::Arg| {
            let bare = arg
                .get_long()
                .and_then(|long| long.strip_prefix("mock-"))
                .map(str::to_owned);
            match bare {
                Some(long) => arg.long(long),
                None => arg,
            }
        };
        Self::command()
            .mut_subcommand("serve", |serve| serve.mut_args(hide))
            .mut_subcommand("mock-engine", |mock| mock.mut_args(strip))
    }

    /// Reads the command line, or ends the process with what is wrong with it.
    pub fn read(args: Vec<OsString>) -> Self {
        let matches = Self::shown().get_matches_from(args);
        // Both come from one declaration.
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a model over HTTP, with an engine of its own.
    ///
    /// MODEL is a folder, a .gguf file, a hub id (org/name), or the embedded default `smollm2`.
    /// HTTP is up at once: /live answers 200, /health and /ready 503 until the engine is ready.
    Serve(Box<ServeCommand>),
    /// Fetch a model into the local cache, without serving it.
    Pull(PullCommand),
    /// Run a fake engine that speaks the engine's protocol: for tests and load measurements.
    MockEngine(Box<MockCommand>),
    /// Show what this machine has, and what `serve` would use of it.
    Doctor,
    /// Not a command of its own: the OpenAI-compatible server is `vllm-rs serve`.
    #[command(hide = true, disable_help_flag = true)]
    Openai {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct ServeCommand {
    #[command(flatten)]
    pub args: ServeArgs,
    /// Serve a mock engine instead of a real one; its temper comes from the mock flags.
    #[arg(long, hide = true)]
    pub mock: bool,
    #[command(flatten)]
    pub mock_args: MockArgs,
}

#[derive(Debug, Args)]
pub struct PullCommand {
    /// Hub id, or the embedded default.
    #[arg(default_value = "smollm2")]
    pub model: String,
    /// Folder that models are kept in.
    #[arg(long, env = "VLLM_RS_DOWNLOAD_DIR")]
    pub download_dir: Option<String>,
    /// Branch, tag or commit of a hub model.
    #[arg(long, env = "VLLM_RS_REVISION")]
    pub revision: Option<String>,
}

#[derive(Debug, Args)]
pub struct MockCommand {
    /// Address of the frontend's handshake socket, `tcp://HOST:PORT` or `ipc://PATH`.
    #[arg(long)]
    pub handshake_address: String,
    /// Rank this engine registers as.
    #[arg(long, default_value_t = 0)]
    pub engine_index: u16,
    /// End when standard input ends, as an engine does whose parent died.
    #[arg(long)]
    pub until_stdin_ends: bool,
    #[command(flatten)]
    pub mock_args: MockArgs,
}

/// The temper of a mock engine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Mock engine")]
#[expect(
    clippy::struct_field_names,
    reason = "flattened beside flags of the same names"
)]
pub struct MockArgs {
    /// Wait before the first token of a request, seconds.
    #[arg(
        long = "mock-first-token-delay",
        default_value_t = 0.0,
        value_name = "SECONDS"
    )]
    mock_first_token_delay_s: f64,
    /// Tokens per second of each request; 0 = as fast as it can.
    #[arg(long = "mock-tokens-per-second", default_value_t = 0.0, value_name = "NUMBER")]
    mock_tokens_per_second: f64,
    /// Tokens in one output.
    #[arg(long = "mock-tokens-per-output", default_value_t = 1, value_name = "NUMBER")]
    mock_tokens_per_output: u32,
    /// Report death and end after this many outputs.
    #[arg(long = "mock-crash-after", value_name = "OUTPUTS")]
    mock_crash_after: Option<u64>,
    /// End without a word when crashing, as if killed.
    #[arg(long = "mock-crash-silently")]
    mock_crash_silently: bool,
    /// Say nothing more after this many outputs, but stay.
    #[arg(long = "mock-hang-after", value_name = "OUTPUTS")]
    mock_hang_after: Option<u64>,
    /// Replace one output by garbage after this many.
    #[arg(long = "mock-garbage-after", value_name = "OUTPUTS")]
    mock_garbage_after: Option<u64>,
    /// Leave the request id of the garbage readable.
    #[arg(long = "mock-garbage-attributable")]
    mock_garbage_attributable: bool,
    /// Answer with the prompt's tokens, over and over, instead of random ones.
    #[arg(long = "mock-echo")]
    mock_echo: bool,
    /// Seed of the random tokens.
    #[arg(long = "mock-seed", default_value_t = 0, value_name = "NUMBER")]
    mock_seed: u64,
    /// Random tokens are below this.
    #[arg(long = "mock-vocab-size", default_value_t = 32_000, value_name = "NUMBER")]
    mock_vocab_size: u32,
    /// Context length the engine reports, tokens.
    #[arg(long = "mock-max-model-len", default_value_t = 8192, value_name = "TOKENS")]
    mock_max_model_len: u32,
    /// Requests that run at once; the others wait.
    #[arg(long = "mock-max-num-seqs", default_value_t = 1024, value_name = "NUMBER")]
    mock_max_num_seqs: u32,
}

impl MockArgs {
    pub fn to_config(&self, engine_index: u16) -> MockConfig {
        let delay = Duration::try_from_secs_f64(self.mock_first_token_delay_s).unwrap_or_default();
        MockConfig {
            engine_index,
            first_token_delay: delay,
            tokens_per_second: self.mock_tokens_per_second.max(0.0),
            tokens_per_output: self.mock_tokens_per_output.max(1),
            crash_after: self.mock_crash_after,
            crash_silently: self.mock_crash_silently,
            hang_after: self.mock_hang_after,
            garbage_after: self.mock_garbage_after,
            garbage_kind: if self.mock_garbage_attributable {
                GarbageKind::Attributable
            } else {
                GarbageKind::Unattributable
            },
            tokens: if self.mock_echo {
                MockTokens::EchoPrompt
            } else {
                MockTokens::Random
            },
            seed: self.mock_seed,
            vocab_size: self.mock_vocab_size.max(1),
            max_model_len: self.mock_max_model_len,
            max_num_seqs: self.mock_max_num_seqs.max(1),
            ..MockConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Command {
        Cli::from_arg_matches(&Cli::shown().get_matches_from(line.split(' ')))
            .expect("declared")
            .command
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::shown().debug_assert();
    }

    #[test]
    fn serve_hides_the_mock_and_mock_engine_drops_the_prefix() {
        let mut shown = Cli::shown();
        let help = shown
            .find_subcommand_mut("serve")
            .expect("declared")
            .render_long_help()
            .to_string();
        assert!(!help.contains("--mock") && help.contains("--max-model-len"));
        let Command::MockEngine(mock) =
            read("vllm-rs mock-engine --handshake-address tcp://h:1 --tokens-per-second 5")
        else {
            panic!("another command")
        };
        assert!((mock.mock_args.to_config(0).tokens_per_second - 5.0).abs() < 1e-9);
        let Command::Serve(serve) = read("vllm-rs serve m --mock --mock-echo --port 0") else {
            panic!("another command")
        };
        assert!(serve.mock);
        assert_eq!(serve.mock_args.to_config(0).tokens, MockTokens::EchoPrompt);
    }
}

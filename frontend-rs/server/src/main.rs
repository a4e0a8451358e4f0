//! The program `vllm-rs`: reads the command line, runs one subcommand, ends with its exit code.

use std::process::ExitCode;

use vllm_rs_server::cli::{Cli, Command, ServeCommand};
use vllm_rs_server::commands::{self, CommandError, doctor, headless, mock_engine, pull, serve};
use vllm_rs_server::logging;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn serve(mut command: ServeCommand) -> Result<(), CommandError> {
    let config = std::mem::take(&mut command.args).resolve()?;
    config.validate()?;
    logging::init(&config.observability);
    let runtime = commands::runtime()?;
    if config.link.headless {
        return runtime.block_on(headless::run(config));
    }
    let result = runtime.block_on(serve::run(command, config));
    // A prompt that is still being tokenised must not hold the process back.
    runtime.shutdown_background();
    result
}

fn run(cli: Cli) -> Result<(), CommandError> {
    match cli.command {
        Command::Serve(command) => serve(*command),
        Command::Pull(command) => pull::run(&command),
        Command::MockEngine(command) => {
            logging::init(&vllm_rs_flags::ObservabilityConfig::default());
            commands::runtime()?.block_on(mock_engine::run(*command))
        }
        Command::Doctor => {
            doctor::run();
            Ok(())
        }
        Command::Openai { .. } => {
            println!("The OpenAI-compatible server is `vllm-rs serve`; it takes vLLM's flags.");
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    let args = match vllm_rs_flags::prepare(std::env::args_os(), |name| std::env::var_os(name)) {
        Ok(args) => args,
        Err(error) => return fail(&error.into()),
    };
    let outcome = run(Cli::read(args));
    logging::flush();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &CommandError) -> ExitCode {
    eprintln!("vllm-rs: {error}");
    ExitCode::from(error.exit_code())
}

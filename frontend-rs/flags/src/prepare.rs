//! What happens to a command line before clap sees it.

use std::ffi::OsString;

use crate::FlagError;
use crate::generated::{REFUSED, SCALED_ENV, SHORT};

/// Rewrites the arguments of `serve` as clap wants them, and refuses by name the vLLM flags that we do not have.
///
/// `args` is the whole command line with the program's name; other subcommands pass through. Underscores in flag names
/// become dashes, vLLM's multi-letter short forms become long ones, flags that ask for what happens anyway are dropped,
/// and environment variables in another unit (`VLLM_CPU_KVCACHE_SPACE`) become flags unless the flag or its own twin is
/// there. `env` reads the environment.
pub fn prepare(
    args: impl IntoIterator<Item = OsString>,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>, FlagError> {
    let args: Vec<OsString> = args.into_iter().collect();
    if args.get(1).is_none_or(|command| command != "serve") {
        return Ok(args);
    }
    let mut prepared: Vec<OsString> = args[..2].to_vec();
    let mut rest = args.into_iter().skip(2).peekable();
    let mut positional_only = Vec::new();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            positional_only.push(arg);
            positional_only.extend(rest);
            break;
        }
        let Some((name, inline)) = arg.to_str().and_then(long_name) else {
            prepared.push(arg);
            continue;
        };
        if let Some(refused) = REFUSED.iter().find(|refused| refused.name == name) {
            let looks_like_value = |next: &OsString| !next.to_string_lossy().starts_with('-');
            let value = match inline {
                Some(value) => Some(value),
                None if refused.switch => None,
                None => rest
                    .next_if(looks_like_value)
                    .map(|value| value.to_string_lossy().into_owned()),
            };
            if value.is_some_and(|value| refused.accepts.contains(&value.as_str())) {
                continue;
            }
            return Err(FlagError::Refused {
                flag: name,
                instead: refused.instead,
            });
        }
        prepared.push(
            inline
                .map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"))
                .into(),
        );
    }
    for flag in scaled_flags(&prepared, env)? {
        prepared.insert(2, flag.into());
    }
    prepared.extend(positional_only);
    Ok(prepared)
}

/// The long name of a flag, dashes for underscores, and its value when it is written with `=`.
fn long_name(arg: &str) -> Option<(String, Option<String>)> {
    let (name, value) = match arg.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (arg, None),
    };
    if let Some((_, long)) = SHORT.iter().find(|(short, _)| *short == name) {
        return Some(((*long).to_owned(), value));
    }
    let long = name.strip_prefix("--").filter(|long| !long.is_empty())?;
    Some((long.replace('_', "-"), value))
}

/// Flags that stand for environment variables in another unit.
fn scaled_flags(args: &[OsString], env: impl Fn(&str) -> Option<OsString>) -> Result<Vec<String>, FlagError> {
    let mut flags = Vec::new();
    for scaled in SCALED_ENV {
        let flag = format!("--{}", scaled.flag);
        let given = args.iter().filter_map(|arg| arg.to_str()).any(|arg| {
            arg.strip_prefix(flag.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        });
        let Some(text) = env(scaled.name).filter(|_| !given && env(scaled.own_env).is_none()) else {
            continue;
        };
        let text = text.to_string_lossy().into_owned();
        let value: Option<f64> = text
            .trim()
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite() && *value >= 0.0);
        match value {
            Some(0.0) => {} // vLLM's spelling of "choose for me"
            Some(value) => flags.push(format!("{flag}={}", (value * scaled.factor as f64) as u64)),
            None => {
                return Err(FlagError::Invalid {
                    flag: scaled.name.to_owned(),
                    expected: format!("a number of {}", scaled.unit),
                    given: text,
                });
            }
        }
    }
    Ok(flags)
}

use std::net::IpAddr;

use crate::{Config, Device, Dtype, FlagError};

impl Config {
    /// Rules that need more than one field, and the flags that are parsed only to be refused.
    pub fn validate(&self) -> Result<(), FlagError> {
        if self.model.trust_remote_code {
            return Err(FlagError::Refused {
                flag: "trust-remote-code".to_owned(),
                instead: "leave it out: code from a model repository is never run, and the supported architectures \
                          work without it",
            });
        }
        if self.model.dtype == Dtype::Float16 && self.execution.device == Device::Cpu {
            return Err(FlagError::Conflict(
                "--dtype float16 is not supported on CPU; use bfloat16 or float32".to_owned(),
            ));
        }
        let (tokens, requests) = (self.scheduler.max_num_batched_tokens, self.scheduler.max_num_seqs);
        if tokens < requests {
            return Err(FlagError::Conflict(format!(
                "--max-num-batched-tokens {tokens} is below --max-num-seqs {requests}: every running request needs \
                 one token per step; raise the first or lower the second"
            )));
        }
        if self.scheduler.decode_latency_target_ms.is_some() && !self.scheduler.enable_chunked_prefill {
            return Err(FlagError::Conflict(
                "--decode-latency-target-ms cuts prompts into chunks: it cannot go with --no-enable-chunked-prefill"
                    .to_owned(),
            ));
        }
        let frontend = &self.frontend;
        let (stall, kill) = (frontend.engine_stall_timeout, frontend.engine_kill_timeout);
        if kill > 0.0 && kill < stall {
            return Err(FlagError::Conflict(format!(
                "--engine-kill-timeout {kill} is below --engine-stall-timeout {stall}: an engine would be killed \
                 before it is reported; raise the first, lower the second, or give 0 for never"
            )));
        }
        self.check_exposure()
    }

    /// Listening beyond this machine needs a key, or the word of whoever starts the server.
    fn check_exposure(&self) -> Result<(), FlagError> {
        let frontend = &self.frontend;
        let guarded = !frontend.api_key.is_empty() || frontend.allow_unauthenticated;
        if guarded || frontend.uds.is_some() || self.link.headless || is_loopback(&frontend.host) {
            return Ok(());
        }
        Err(FlagError::Conflict(format!(
            "--host {} listens beyond this machine without a key; give --api-key KEY, or --allow-unauthenticated",
            frontend.host
        )))
    }
}

/// Whether a host means this machine only.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

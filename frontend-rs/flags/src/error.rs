/// A setting that cannot be used; the message names the flag, what is allowed and what was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// A flag of vLLM that we know and do not have.
    #[error("--{flag} is a vLLM flag that vllm-rs does not have; instead: {instead}")]
    Refused { flag: String, instead: &'static str },
    /// A value outside what the flag allows.
    #[error("{flag}: expected {expected}, got {given:?}")]
    Invalid {
        flag: String,
        expected: String,
        given: String,
    },
    /// Two settings that exclude each other.
    #[error("{0}")]
    Conflict(String),
}

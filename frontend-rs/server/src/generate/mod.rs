//! From a validated request to streams of text: parameters, admission, fan-out, detokenising, log-probabilities.

pub mod admission;
pub mod choice;
pub mod logprobs;
pub mod params;
pub mod start;

pub use choice::{ChoiceDelta, ChoiceStream, Finish};
pub use start::{Generation, GenerationPlan, start};

//! Tells an engine that works from one that only looks alive.
//!
//! An engine owes a sign of life from the moment it is sent a request, or says something that cannot
//! be read, until its next good message. Whether anybody still waits for that request does not matter:
//! clients that hang up must not hide a hang. So that an engine with nothing to say (idle, paused, in
//! the middle of a long prompt) can pay what it owes, it is asked something cheap whenever in doubt.
//!
//! The question is a utility call on purpose. Engines answer those between two steps, in the loop that
//! runs the steps, so an answer proves that the loop turns. A heartbeat from one of their socket
//! threads would go on while a step hangs. The price is that a single long step looks like a hang, so
//! the limits are far above what a step takes, and they are flags. What this cannot see is a loop that
//! turns without ever scheduling a request that waits.

use std::time::Duration;

use tokio::sync::oneshot;
use vllm_rs_wire::{UtilityRequest, encode_payload};

use crate::dispatch::Dispatcher;
use crate::sender::Outgoing;
use crate::snapshot::Counters;
use crate::utility::Answer;

/// How often silence is measured.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// What an engine is asked when in doubt. Ours and vLLM's know it and only read a flag; one that does
/// not know it says so, which proves as much.
const PROBE_METHOD: &str = "is_scheduler_paused";

/// What an engine owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Debt {
    /// How long a sign of life has been due; `None` if none is.
    pub(crate) silent_for: Option<Duration>,
    /// Something that could not be read came last.
    pub(crate) faulty: bool,
    /// Requests open now.
    pub(crate) open: usize,
}

/// What to make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    /// Worth a question.
    Doubtful,
    /// Long enough to say so.
    Stalled(Duration),
    /// Long enough to end the process.
    Hung(Duration),
}

/// Judges what an engine owes. One that owes nothing may be silent for ever.
pub(crate) fn judge(debt: Debt, stall_after: Duration, kill_after: Option<Duration>) -> Verdict {
    let Some(silent_for) = debt.silent_for else {
        return Verdict::Fine;
    };
    if kill_after.is_some_and(|limit| silent_for >= limit) {
        Verdict::Hung(silent_for)
    } else if silent_for >= stall_after {
        Verdict::Stalled(silent_for)
    } else if debt.faulty || silent_for >= stall_after / 2 {
        // Early enough for the answer to come before the engine is called stalled.
        Verdict::Doubtful
    } else {
        Verdict::Fine
    }
}

/// The one question that waits for its answer, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Prober {
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    call_id: u64,
    answer: oneshot::Receiver<Answer>,
    /// Unreadable messages by then: one more may have been the answer.
    faults: u64,
}

impl Prober {
    /// Asks, unless an answer may still come; a hung engine is not sent one question after the other.
    pub(crate) fn ask(&mut self, dispatcher: &Dispatcher) {
        let faults = dispatcher.registry.counters.read().malformed_messages;
        let may_come = |asked: &Asked| asked.faults == faults && asked.answer.is_empty();
        if self.asked.as_ref().is_some_and(may_come) {
            return;
        }
        self.forget(dispatcher);
        let (call_id, answer) = dispatcher.utilities.open();
        let call = UtilityRequest {
            client_index: 0,
            call_id,
            method: PROBE_METHOD.to_owned(),
            args: vec![],
        };
        let frames = encode_payload(&call);
        if dispatcher.registry.send(Outgoing::Utility { call_id, frames }) {
            Counters::add(&dispatcher.registry.counters.probes_sent, 1);
            self.asked = Some(Asked {
                call_id,
                answer,
                faults,
            });
        } else {
            dispatcher.utilities.forget(call_id);
        }
    }

    /// The doubt is gone.
    pub(crate) fn forget(&mut self, dispatcher: &Dispatcher) {
        if let Some(asked) = self.asked.take() {
            dispatcher.utilities.forget(asked.call_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(6);
    const KILL: Duration = Duration::from_mins(1);

    fn debt(silent_s: Option<u64>, faulty: bool) -> Debt {
        Debt {
            silent_for: silent_s.map(Duration::from_secs),
            faulty,
            open: 0,
        }
    }

    #[test]
    fn silence_counts_from_when_something_is_due_whoever_still_waits() {
        let judge = |silent_s| judge(debt(silent_s, false), STALL, Some(KILL));
        assert_eq!(judge(None), Verdict::Fine);
        assert_eq!(judge(Some(2)), Verdict::Fine);
        assert_eq!(judge(Some(3)), Verdict::Doubtful);
        assert_eq!(judge(Some(6)), Verdict::Stalled(STALL));
        assert_eq!(judge(Some(60)), Verdict::Hung(KILL));
    }

    #[test]
    fn a_fault_is_doubtful_at_once_and_without_a_kill_limit_nothing_is_hung() {
        assert_eq!(judge(debt(Some(0), true), STALL, Some(KILL)), Verdict::Doubtful);
        let long = Duration::from_hours(1);
        assert_eq!(
            judge(debt(Some(3600), false), STALL, None),
            Verdict::Stalled(long)
        );
    }
}

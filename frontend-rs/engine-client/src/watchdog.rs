//! Tells an engine that works from one that only looks alive.

use std::time::Duration;

/// How often silence is measured.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// What silence means while requests are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    Fine,
    /// Long enough to say so.
    Stalled,
    /// Long enough to end the process.
    Hung,
}

/// Judges `silent_for` with `open` requests waiting. An idle engine may be silent for ever.
pub(crate) fn judge(
    open: usize,
    silent_for: Duration,
    stall_after: Duration,
    kill_after: Option<Duration>,
) -> Silence {
    if open == 0 || silent_for < stall_after {
        Silence::Fine
    } else if kill_after.is_some_and(|limit| silent_for >= limit) {
        Silence::Hung
    } else {
        Silence::Stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_only_while_requests_are_open() {
        let [stall, kill] = [Duration::from_secs(5), Duration::from_mins(1)];
        let judge = |open, seconds| judge(open, Duration::from_secs(seconds), stall, Some(kill));
        assert_eq!(judge(0, 3600), Silence::Fine);
        assert_eq!(judge(1, 4), Silence::Fine);
        assert_eq!(judge(1, 5), Silence::Stalled);
        assert_eq!(judge(1, 60), Silence::Hung);
    }
}

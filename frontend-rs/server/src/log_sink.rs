//! Where log lines go: a bounded queue in front of a thread that writes them, so that a reader of our stderr
//! who stops reading costs lines and never holds up a request.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines a stalled reader may hold back; later ones are dropped and counted.
const MAX_QUEUED_LINES: usize = 8192;
/// Longest wait at exit for a reader that does not take the last lines.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

static INSTALLED: OnceLock<LogSink> = OnceLock::new();

enum Item {
    Line(Vec<u8>),
    /// Answered once everything before it is written.
    Flush(SyncSender<()>),
}

/// Hands lines to the writing thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogSink {
    queue: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
}

impl LogSink {
    /// A sink whose thread writes to `target`.
    pub fn new(target: impl Write + Send + 'static) -> Self {
        let (queue, lines) = sync_channel(MAX_QUEUED_LINES);
        // Without the thread every line counts as dropped: the server goes on.
        let _ = std::thread::Builder::new()
            .name("vllm-rs-log".to_owned())
            .spawn(move || write_all(&lines, target));
        Self {
            queue,
            dropped: Arc::default(),
        }
    }

    /// Lines that found the queue full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Waits until what was logged so far is written, but not for a reader that is stuck.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(Item::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_LIMIT);
        }
    }

    /// Makes this the sink that `flush_installed` waits for.
    pub fn install(&self) {
        let _ = INSTALLED.set(self.clone());
    }
}

/// Before the process ends: lets the last lines out.
pub fn flush_installed() {
    if let Some(sink) = INSTALLED.get() {
        sink.flush();
    }
}

fn write_all(lines: &Receiver<Item>, mut target: impl Write) {
    while let Ok(item) = lines.recv() {
        match item {
            // Nobody is left to be told of a failing stderr.
            Item::Line(line) => drop(target.write_all(&line)),
            Item::Flush(done) => drop(done.send(())),
        }
    }
}

impl Write for LogSink {
    /// One call is one line: the formatter buffers.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(Item::Line(line.to_vec()))
        {
            self.dropped.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogSink {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_arrive_whole_and_in_order_before_a_flush_returns() {
        let target = Shared::default();
        let mut sink = LogSink::new(target.clone());
        let mut expected = Vec::new();
        for number in 0..1000 {
            let line = format!("line {number}\n");
            sink.write_all(line.as_bytes()).expect("never fails");
            expected.extend_from_slice(line.as_bytes());
        }
        LogSink::flush(&sink);
        assert_eq!(*target.0.lock().expect("no writer panics"), expected);
        assert_eq!(sink.dropped(), 0);
    }

    struct Stuck(Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Blocks until the test is over.
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_reading_costs_lines_and_no_waiting() {
        let (_unblock, blocked) = sync_channel(0);
        let mut sink = LogSink::new(Stuck(blocked));
        for _ in 0..MAX_QUEUED_LINES * 2 {
            sink.write_all(b"line\n").expect("never fails");
        }
        assert!(sink.dropped() >= MAX_QUEUED_LINES as u64 - 1);
    }
}

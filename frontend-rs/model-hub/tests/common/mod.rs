//! A hub on a loopback port: serves files in ranges, breaks off where told, keeps what it was asked.
#![allow(clippy::unwrap_used, reason = "a test may stop at once")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use serde_json::json;
use sha2::{Digest, Sha256};

/// What happens to one file's transfers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection closes once this many bytes of the file are out.
    BreakAt(usize),
    /// Nothing more is sent from there on, the connection staying open; `stalled` is told.
    StallAt(usize),
    /// One byte is changed.
    Garble,
}

#[derive(Default)]
pub struct State {
    pub files: BTreeMap<String, Vec<u8>>,
    pub faults: BTreeMap<String, Fault>,
    /// Request lines with their `Range` and `Authorization`.
    pub requests: Vec<String>,
    pub commit: String,
}

pub struct FakeHub {
    pub endpoint: String,
    pub state: Arc<Mutex<State>>,
    pub stalled: mpsc::Receiver<()>,
}

impl FakeHub {
    /// Serves `org/model` with these files.
    pub fn start(files: &[(&str, Vec<u8>)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let files = files
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), bytes.clone()))
            .collect();
        let state = State {
            files,
            commit: "c0ffee".to_owned(),
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let (stalls, stalled) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, stalls) = (Arc::clone(&shared), stalls.clone());
                thread::spawn(move || answer(&stream, &shared, &stalls));
            }
        });
        Self {
            endpoint,
            state,
            stalled,
        }
    }

    pub fn set_fault(&self, file: &str, fault: Option<Fault>) {
        let mut state = self.state.lock().unwrap();
        match fault {
            Some(fault) => state.faults.insert(file.to_owned(), fault),
            None => state.faults.remove(file),
        };
    }

    /// The requests so far; the list starts anew.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

/// One request, one answer, connection closed. An error of the connection is the client's to notice.
fn answer(stream: &TcpStream, state: &Mutex<State>, stalls: &mpsc::Sender<()>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut from = None;
    let mut record = path.clone();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(range) = header.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse::<usize>().ok();
            record = format!("{record} from {}", range.trim_end_matches('-'));
        }
        if header.starts_with("authorization: ") {
            record.push_str(" authorised");
        }
    }
    let (listing, found, fault) = {
        let mut state = state.lock().unwrap();
        state.requests.push(record);
        let name = path
            .strip_prefix(&format!("/org/model/resolve/{}/", state.commit))
            .unwrap_or_default();
        let found = state.files.get(name).cloned();
        (listing(&state), found, state.faults.get(name).copied())
    };
    if path.starts_with("/api/models/org/model/revision/main") {
        return send(stream, "200 OK", "", listing.as_bytes());
    }
    let Some(mut body) = found else {
        return send(stream, "404 Not Found", "", b"");
    };
    if fault == Some(Fault::Garble) {
        body[0] ^= 1;
    }
    let start = from.unwrap_or(0);
    if start >= body.len() && start > 0 {
        return send(stream, "416 Range Not Satisfiable", "", b"");
    }
    let range = format!(
        "Content-Range: bytes {start}-{}/{}\r\n",
        body.len() - 1,
        body.len()
    );
    let (status, range) = if from.is_some() {
        ("206 Partial Content", range.as_str())
    } else {
        ("200 OK", "")
    };
    let mut out = stream;
    write!(
        out,
        "HTTP/1.1 {status}\r\n{range}Content-Length: {}\r\n\r\n",
        body.len() - start
    )
    .ok()?;
    match fault {
        Some(Fault::BreakAt(end)) => out.write_all(body.get(start..end).unwrap_or_default()).ok(),
        Some(Fault::StallAt(end)) => {
            out.write_all(body.get(start..end).unwrap_or_default()).ok()?;
            stalls.send(()).ok()?;
            // Ends when the client goes away.
            reader.read_line(&mut String::new()).ok().map(|_| ())
        }
        _ => out.write_all(&body[start..]).ok(),
    }
}

fn listing(state: &State) -> String {
    let siblings = state.files.iter().map(|(name, bytes)| {
        let sha256 = hex(&Sha256::digest(bytes));
        let lfs = (bytes.len() > 1000).then(|| json!({"sha256": sha256, "size": bytes.len()}));
        json!({"rfilename": name, "size": bytes.len(), "lfs": lfs})
    });
    json!({"sha": state.commit, "siblings": siblings.collect::<Vec<_>>()}).to_string()
}

fn send(mut stream: &TcpStream, status: &str, headers: &str, body: &[u8]) -> Option<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .ok()?;
    stream.write_all(body).ok()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

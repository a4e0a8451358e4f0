//! What the operating system says about this process.

use super::render::Exposition;

/// Resident bytes of this process, from `/proc/self/statm`.
fn resident_bytes() -> Option<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096.0)
}

/// User and system seconds of this process; the kernel counts in hundredths.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command name may hold spaces; fields are counted from its closing parenthesis.
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

pub fn render(out: &mut Exposition, start_time_unix_s: f64) {
    if let Some(bytes) = resident_bytes() {
        out.gauge(
            "process_resident_memory_bytes",
            "Resident memory of the server process, bytes.",
            "",
            bytes,
        );
    }
    if let Some(seconds) = cpu_seconds() {
        out.family(
            "process_cpu_seconds_total",
            "counter",
            "CPU time of the server process, seconds.",
        );
        out.sample("", seconds);
    }
    out.gauge(
        "process_start_time_seconds",
        "Start of the server process, Unix seconds.",
        "",
        start_time_unix_s,
    );
}

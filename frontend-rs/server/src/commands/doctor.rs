//! `vllm-rs doctor`: what this machine has, and what would be used.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use vllm_rs_engine_client::find_python;
use vllm_rs_model_hub::{DEFAULT_MODEL, ResolveOptions};

use crate::build_info;

const GIB: f64 = (1_u64 << 30) as f64;

/// CPU flags that decide which kernels run.
const FEATURES: [&str; 9] = [
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
];

/// A report with one fact per line.
#[derive(Debug, Default)]
struct Report(String);

impl Report {
    fn section(&mut self, name: &str) {
        let _ = writeln!(self.0, "{}{name}", if self.0.is_empty() { "" } else { "\n" });
    }

    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "  {name:18} {value}");
    }
}

/// The value after `key` in a `key : value` file such as `/proc/cpuinfo`.
fn proc_value(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The kernels a set of CPU flags allows, best first.
fn best_isa(flags: &str) -> &'static str {
    let has = |name: &str| flags.split(' ').any(|flag| flag == name);
    if has("amx_tile") && has("amx_bf16") {
        "AMX (BF16, INT8)"
    } else if has("avx512f") && has("avx512_bf16") {
        "AVX-512 (BF16, VNNI)"
    } else if has("avx2") && has("fma") {
        "AVX2"
    } else {
        "portable"
    }
}

/// Bytes of a memory line such as `MemAvailable:  123 kB`.
fn memory_bytes(meminfo: &str, key: &str) -> Option<f64> {
    let value = proc_value(meminfo, key)?;
    Some(value.split(' ').next()?.parse::<f64>().ok()? * 1024.0)
}

/// A cgroup v2 limit in bytes; `None` = no limit.
fn cgroup_memory_limit() -> Option<f64> {
    let text = fs::read_to_string("/sys/fs/cgroup/memory.max")
        .or_else(|_| fs::read_to_string("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
        .ok()?;
    // cgroup v1 writes "no limit" as a number near 2^63.
    text.trim().parse::<f64>().ok().filter(|bytes| *bytes < 1e18)
}

/// Cores a cgroup v2 quota allows; `None` = no quota.
fn cgroup_cores() -> Option<f64> {
    let text = fs::read_to_string("/sys/fs/cgroup/cpu.max").ok()?;
    let mut fields = text.split_whitespace();
    let quota: f64 = fields.next()?.parse().ok()?;
    let period: f64 = fields.next()?.parse().ok()?;
    Some(quota / period)
}

fn cpu(report: &mut Report) {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = proc_value(&cpuinfo, "flags").unwrap_or_default();
    let known: Vec<&str> = FEATURES
        .into_iter()
        .filter(|name| flags.split(' ').any(|flag| flag == *name))
        .collect();
    report.section("CPU");
    report.line(
        "model",
        proc_value(&cpuinfo, "model name").unwrap_or_else(|| "unknown".to_owned()),
    );
    report.line(
        "cores",
        std::thread::available_parallelism().map_or(1, usize::from),
    );
    report.line(
        "cgroup quota",
        cgroup_cores().map_or("none".to_owned(), |cores| format!("{cores} cores")),
    );
    report.line(
        "features",
        if known.is_empty() {
            "none of ours".to_owned()
        } else {
            known.join(" ")
        },
    );
    report.line("kernels", best_isa(&flags));
}

fn memory(report: &mut Report) {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let gib =
        |bytes: Option<f64>| bytes.map_or("unknown".to_owned(), |bytes| format!("{:.1} GiB", bytes / GIB));
    let available = memory_bytes(&meminfo, "MemAvailable");
    let limit = cgroup_memory_limit();
    let usable = match (available, limit) {
        (Some(available), Some(limit)) => Some(available.min(limit)),
        (available, limit) => available.or(limit),
    };
    report.section("Memory");
    report.line("total", gib(memory_bytes(&meminfo, "MemTotal")));
    report.line("available", gib(available));
    report.line(
        "cgroup limit",
        limit.map_or("none".to_owned(), |bytes| gib(Some(bytes))),
    );
    report.line(
        "KV cache, at most",
        gib(usable.map(|bytes| (bytes / 2.0).min(4.0 * GIB))),
    );
}

/// Asks the engine's Python for its versions, and in a second line for the architectures it serves.
fn ask_python(python: &std::path::Path) -> Result<String, String> {
    let code = "import sys, numpy, msgspec, zmq; from vllm_rs.models.registry import get_supported_archs; \
                print(sys.version.split()[0], numpy.__version__, msgspec.__version__, zmq.__version__); \
                print(*get_supported_archs())";
    let output = Command::new(python)
        .args(["-c", code])
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text
        .lines()
        .last()
        .unwrap_or("it failed without a word")
        .to_owned())
}

fn python(report: &mut Report) {
    report.section("Python");
    let path = match find_python() {
        Ok(path) => path,
        Err(error) => return report.line("interpreter", error),
    };
    report.line("interpreter", path.display());
    match ask_python(&path) {
        Ok(answer) => {
            let (versions, architectures) = answer.split_once('\n').unwrap_or((&answer, ""));
            let names = ["python", "numpy", "msgspec", "pyzmq"];
            for (name, version) in names.into_iter().zip(versions.split(' ')) {
                report.line(name, version);
            }
            report.line("architectures", architectures.trim());
        }
        Err(error) => report.line("engine package", format!("cannot be imported: {error}")),
    }
}

fn model(report: &mut Report) {
    let options = ResolveOptions::from_env();
    let cache = options.cache_dir.display().to_string();
    let offline = ResolveOptions {
        offline: true,
        ..options
    };
    report.section("Models");
    report.line("cache", cache);
    match vllm_rs_model_hub::resolve(DEFAULT_MODEL, &offline, &|_| true) {
        Ok(path) => report.line(DEFAULT_MODEL, path.display()),
        Err(_) => report.line(DEFAULT_MODEL, "not fetched yet; `vllm-rs pull` does it (98 MB)"),
    }
}

/// Prints the report.
pub fn run() {
    let mut report = Report::default();
    report.section("vllm-rs");
    report.line("version", build_info::long_version());
    cpu(&mut report);
    memory(&mut report);
    python(&mut report);
    model(&mut report);
    print!("{}", report.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_choose_the_kernels() {
        assert_eq!(
            best_isa("fpu avx2 fma avx512f avx512_bf16 amx_tile amx_bf16"),
            "AMX (BF16, INT8)"
        );
        assert_eq!(
            best_isa("fpu avx2 fma avx512f avx512_bf16"),
            "AVX-512 (BF16, VNNI)"
        );
        assert_eq!(best_isa("fpu avx2 fma avx512f"), "AVX2");
        assert_eq!(best_isa("fpu"), "portable");
    }

    #[test]
    fn memory_lines_are_read_in_bytes() {
        assert_eq!(
            memory_bytes("MemTotal: 5 kB\nMemAvailable:    2 kB\n", "MemAvailable"),
            Some(2048.0)
        );
    }
}

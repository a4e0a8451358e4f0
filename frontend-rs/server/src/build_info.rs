//! Which build this is.

/// The release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of the sources, set by the build (`VLLM_RS_BUILD_ID`), or "dev".
pub const BUILD_ID: &str = match option_env!("VLLM_RS_BUILD_ID") {
    Some(id) => id,
    None => "dev",
};
/// What `--version` prints after the program's name.
pub fn long_version() -> String {
    format!("{VERSION} (build {BUILD_ID})")
}

//! The hub's HTTP interface: one listing, and files in ranges.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::HubName;
use crate::error::{ResolveError, Result};
use crate::options::ResolveOptions;
use crate::resolve::near_known;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// A transfer that brings nothing for this long is cut, and gone on with by range.
const SILENCE_TIMEOUT: Duration = Duration::from_mins(1);
const LISTING_LIMIT_BYTES: u64 = 32 << 20;

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HubFile {
    pub(super) name: String,
    pub(super) size_bytes: u64,
    /// Known for the large ones.
    pub(super) sha256: Option<String>,
}

/// The files of one commit.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) commit: String,
    pub(super) files: Vec<HubFile>,
}

#[derive(Deserialize)]
struct RawListing {
    sha: String,
    siblings: Vec<RawFile>,
}

#[derive(Deserialize)]
struct RawFile {
    #[serde(rename = "rfilename")]
    name: String,
    size: Option<u64>,
    lfs: Option<RawLfs>,
}

#[derive(Deserialize)]
struct RawLfs {
    sha256: Option<String>,
    size: Option<u64>,
}

/// The part of a file that a request brought.
pub(super) struct Part {
    /// Where in the file it starts: what was asked for, or 0 where the server sends no ranges.
    pub(super) start: u64,
    pub(super) body: Box<dyn Read>,
}

/// A client of one hub for one repository.
pub(super) struct Hub<'a> {
    agent: Agent,
    options: &'a ResolveOptions,
    repo: &'a str,
}

impl<'a> Hub<'a> {
    pub(super) fn new(options: &'a ResolveOptions, name: &'a HubName) -> Result<Self> {
        let mut tls = TlsConfig::builder();
        if let Some(roots) = own_certificates()? {
            tls = tls.root_certs(roots);
        }
        // The proxy comes from the environment, as ureq does by default; a token is never sent on to
        // where the hub redirects.
        let agent = Agent::config_builder()
            .tls_config(tls.build())
            .http_status_as_error(false)
            .user_agent(concat!("vllm-rs/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_per_read(Some(SILENCE_TIMEOUT))
            .build()
            .new_agent();
        Ok(Self {
            agent,
            options,
            repo: &name.repo,
        })
    }

    /// The files of `revision`.
    pub(super) fn listing(&self, revision: &str) -> Result<Listing> {
        let endpoint = &self.options.hub_endpoint;
        let revision_in_path = revision.replace('/', "%2F");
        let url = format!(
            "{endpoint}/api/models/{}/revision/{revision_in_path}?blobs=true",
            self.repo
        );
        let response = self.get(&url, None)?;
        self.check_status(&url, revision, response.status().as_u16())?;
        let wrong = |problem: String| ResolveError::HubAnswer {
            url: url.clone(),
            problem,
        };
        let mut body = Vec::new();
        let mut reader = response.into_body().into_reader().take(LISTING_LIMIT_BYTES);
        reader
            .read_to_end(&mut body)
            .map_err(|error| self.unreachable(&url, &error.to_string()))?;
        let raw: RawListing = serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
        if raw.sha.is_empty()
            || raw.sha.len() > 64
            || !raw.sha.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Err(wrong(format!("{:?} is no commit", raw.sha)));
        }
        let files = raw.siblings.into_iter().map(|file| {
            let lfs = file.lfs.as_ref();
            let size = file.size.or(lfs.and_then(|lfs| lfs.size));
            let size_bytes = size.ok_or_else(|| wrong(format!("file {:?} has no size", file.name)))?;
            let sha256 = file
                .lfs
                .and_then(|lfs| lfs.sha256)
                .map(|sha256| sha256.to_lowercase());
            Ok(HubFile {
                name: file.name,
                size_bytes,
                sha256,
            })
        });
        Ok(Listing {
            commit: raw.sha,
            files: files.collect::<Result<_>>()?,
        })
    }

    /// A file of `commit` from byte `start` on.
    pub(super) fn read(&self, commit: &str, file: &str, start: u64) -> Result<Part> {
        let url = format!(
            "{}/{}/resolve/{commit}/{file}",
            self.options.hub_endpoint, self.repo
        );
        let response = self.get(&url, (start > 0).then_some(start))?;
        let status = response.status().as_u16();
        let start = match status {
            206 => content_range_start(&response)
                .filter(|found| *found == start)
                .ok_or_else(|| {
                    let problem = format!("asked for bytes from {start}, got another range");
                    ResolveError::HubAnswer {
                        url: url.clone(),
                        problem,
                    }
                })?,
            // Nothing is left beyond `start`: the caller starts over.
            416 => {
                return Ok(Part {
                    start: 0,
                    body: Box::new(std::io::empty()),
                });
            }
            _ => {
                self.check_status(&url, commit, status)?;
                0
            }
        };
        Ok(Part {
            start,
            body: Box::new(response.into_body().into_reader()),
        })
    }

    fn get(&self, url: &str, from: Option<u64>) -> Result<Response<ureq::Body>> {
        let mut request = self.agent.get(url).header("Accept-Encoding", "identity");
        if let Some(token) = &self.options.hub_token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(from) = from {
            request = request.header("Range", format!("bytes={from}-"));
        }
        request
            .call()
            .map_err(|error| self.unreachable(url, &error.to_string()))
    }

    fn check_status(&self, url: &str, revision: &str, status: u16) -> Result<()> {
        let repo = self.repo.to_owned();
        let endpoint = self.options.hub_endpoint.clone();
        match status {
            200 => Ok(()),
            // The hub hides what a visitor may not see behind 401.
            401 | 404 => {
                let near = near_known(&repo, self.options);
                let near = near.into_iter().filter(|name| *name != repo).collect();
                Err(ResolveError::NotOnHub {
                    endpoint,
                    repo,
                    revision: revision.to_owned(),
                    near,
                })
            }
            403 => Err(ResolveError::Gated { endpoint, repo }),
            status => Err(ResolveError::HubStatus {
                url: url.to_owned(),
                status,
            }),
        }
    }

    #[expect(clippy::unused_self, reason = "reads as what the hub is")]
    fn unreachable(&self, url: &str, problem: &str) -> ResolveError {
        ResolveError::Unreachable {
            url: url.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

/// `bytes 100-199/200` → 100.
fn content_range_start(response: &Response<ureq::Body>) -> Option<u64> {
    let value = response.headers().get("content-range")?.to_str().ok()?;
    value.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok()
}

/// Certificates of a company's own authority, where the usual variables name a file of them.
fn own_certificates() -> Result<Option<RootCerts>> {
    let variables = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"];
    let set = variables
        .iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty());
    let Some(path) = set.map(PathBuf::from) else {
        return Ok(None);
    };
    let pem = std::fs::read(&path).map_err(|source| ResolveError::io(&path, 0, source))?;
    let certificates = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() {
        return Ok(None);
    }
    Ok(Some(RootCerts::new_with_certs(&certificates)))
}

//! Requests as they came, and what somebody is allowed to have done of them.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use control::{KnownCatalog, Requester, ShareRecord, SnapshotTime, Who};
use hyper::StatusCode;
use hyper::http::request::Parts;
use jiff::Timestamp;
use server::admin::{AuditOrigin, AuditProof, AuditRefusal, AuditSource, NotedOrigin};

use super::{Operation, Service};
use crate::auth::{self, CopySource, Evidence, Proven, Way};
use crate::failure::{Code, Failure};
use crate::head::is_true;
use crate::listener::{Held, InLine};
use crate::query::Query;
use crate::target::Target;

/// A request as it came. Nothing is done of it but as an [`Ask`].
pub(crate) struct Asked {
    /// Its head, as it is proved.
    pub(crate) parts: Parts,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) body: Bytes,
    /// Where it comes from.
    pub(crate) peer: SocketAddr,
    /// It is encrypted, and so are answers.
    pub(crate) is_secure: bool,
    /// The number that it is told by.
    pub(crate) id: String,
    /// The service's own address as the client named it, without a `/` at its end.
    pub(crate) endpoint: String,
    /// What its body takes, as long as somebody works with it.
    pub(crate) held: Held,
    /// Where it stands, if it asks for a file that is sent in a turn.
    pub(crate) line: InLine,
}

/// What a request proves when it is looked at: keys are replaced, and what was signed ends, while it waits for something.
pub(crate) struct Proof {
    pub(crate) by: Proven,
    pub(crate) operation: Operation,
    snapshot: Option<SnapshotTime>,
    pub(super) source: Option<CopySource>,
}

impl Asked {
    /// Who asks and for what, where that one may do it now.
    pub(crate) fn prove(&self, known: &KnownCatalog) -> Result<Proof, Failure> {
        let Asked { parts, query, target, .. } = self;
        let way = Way { peer: self.peer.ip(), is_secure: self.is_secure, at: Timestamp::now() };
        let by = auth::prove(parts, query, target, way, known)?;
        let operation = Operation::of(&parts.method, target, query, &parts.headers)?;
        by.allows(operation, &parts.headers)?;
        // Whatever is asked of a share: what changes it does not reach its files.
        if let Some(share) = target.share.as_deref().and_then(|name| known.share_of(by.account(), name)) {
            check_hosts(&share, way.peer)?;
        }
        let snapshot = query.snapshot("sharesnapshot")?;
        if parts.headers.contains_key("x-ms-snapshot") {
            return Err(Failure::header("x-ms-snapshot", "none: a snapshot is named by sharesnapshot in the query"));
        }
        if snapshot.is_some() && !operation.is_of_snapshots() {
            let message = "The specified operation is not supported on a share snapshot.";
            return Err(Failure::new(Code::ShareSnapshotOperationNotSupported, message));
        }
        let source = auth::source(&by, operation, (target, &parts.headers), way, known)?;
        Ok(Proof { by, operation, snapshot, source })
    }

    /// Has the audit log tell that it was refused for who asks: nobody has proved who that is, or it may not be done. Gives what was proved.
    pub(crate) fn tell_refused(&self, failure: &Failure, operation: &'static str, service: &Service) -> AuditProof {
        let Asked { parts, query, target, .. } = self;
        let way = Way { peer: self.peer.ip(), is_secure: self.is_secure, at: Timestamp::now() };
        let known = &service.catalog;
        let by = auth::prove(parts, query, target, way, known).map(|by| by.evidence().clone());
        let proof = by.as_ref().map_or(AuditProof::Claimed, |by| by.proof);
        if !matches!(failure.code.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return proof;
        }
        let account = known.keys(&target.account).map(|_| target.account.clone());
        let evidence = by.unwrap_or_else(|_| Evidence {
            proof: AuditProof::Claimed,
            requester: account.clone().unwrap_or_default(),
            token: String::new(),
        });
        let share = target.share.as_deref().and_then(|share| known.share_of(&target.account, share));
        service.operations.audit_refusal(AuditRefusal {
            operation,
            origin: self.origin_by(evidence),
            account,
            share: share.map(|share| share.name),
            path: (!target.names.is_empty()).then(|| target.path()),
            code: failure.code.name(),
        });
        proof
    }

    /// Whose it is, as the audit log tells.
    fn origin(&self, by: &Proven) -> AuditOrigin {
        self.origin_by(by.evidence().clone())
    }

    fn origin_by(&self, Evidence { proof, requester, token }: Evidence) -> AuditOrigin {
        let protocol = if self.is_secure { "HTTPS" } else { "HTTP" };
        let (caller, request) = (self.peer.to_string().into(), self.id.clone());
        AuditOrigin { protocol, caller, proof, requester, token, request, source: None }
    }
}

/// Refuses where a share is not there for this address. Its files are reached by a session of this machine.
pub(super) fn check_hosts(share: &ShareRecord, from: IpAddr) -> Result<(), Failure> {
    if share.hosts.allow(Some(from)) {
        return Ok(());
    }
    Err(Failure::new(Code::AuthorizationFailure, "The share may not be used from this address."))
}

/// What is copied or renamed. Whoever asks is allowed to take it from there.
pub(crate) struct AskedSource {
    pub(crate) target: Target,
    /// The snapshot of its share that it is taken from.
    pub(crate) snapshot: Option<SnapshotTime>,
    /// Whose what is opened there is, with what proves that it may be.
    pub(crate) origin: NotedOrigin,
}

/// A request that somebody has proved to be allowed, once all of it was there and its turn had come.
pub(crate) struct Ask {
    asked: Arc<Asked>,
    pub(crate) by: Proven,
    pub(crate) operation: Operation,
    /// The snapshot of the share that is meant, where it is not what the share is now.
    pub(crate) snapshot: Option<SnapshotTime>,
    /// What it is copied or renamed from, where the operation has that.
    pub(crate) source: Option<AskedSource>,
    /// Whose it is: the audit log tells what is done for it of that.
    pub(crate) origin: NotedOrigin,
}

impl Deref for Ask {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.asked
    }
}

impl Ask {
    /// What may be done now.
    pub(super) fn of(asked: &Arc<Asked>, service: &Service) -> Result<Ask, Failure> {
        let Proof { by, operation, snapshot, source } = asked.prove(&service.catalog)?;
        let origin = asked.origin(&by);
        let source = match source {
            Some(CopySource { target, snapshot, evidence }) => {
                let of_source = |Evidence { proof, requester, token }| AuditSource { proof, requester, token };
                let origin = AuditOrigin { source: evidence.map(of_source), ..origin.clone() };
                Some(AskedSource { target, snapshot, origin: service.operations.note_origin(origin)? })
            }
            None => None,
        };
        let origin = service.operations.note_origin(origin)?;
        Ok(Ask { asked: Arc::clone(asked), by, operation, snapshot, source, origin })
    }

    /// Refuses it where it is no longer allowed: something had to be waited for.
    pub(super) fn prove_again(&self, service: &Service) -> Result<(), Failure> {
        self.asked.prove(&service.catalog).map(drop)
    }

    /// Who wants something changed, for the log.
    pub(super) fn requester(&self, known: &KnownCatalog) -> Requester {
        let Evidence { proof, requester, .. } = self.by.evidence();
        let is_principal = matches!(proof, AuditProof::Token | AuditProof::DelegatedAccess);
        let name_of = |id: &str| known.service_principal_and_key(id).map(|(principal, _)| principal.name);
        let who = match is_principal {
            true => Who::Principal(name_of(requester).unwrap_or_else(|| requester.clone())),
            false => Who::Account(requester.clone()),
        };
        Requester { who, from: self.peer }
    }

    /// A header's value.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A header's value as a number.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let number = |value: &str| value.parse().map_err(|_| Failure::header(name, "a number"));
        self.header(name).map(number).transpose()
    }

    /// Whether a header says `true`.
    pub(super) fn is_true(&self, name: &str) -> bool {
        is_true(&self.parts.headers, name)
    }

    /// How many entries a listing may have.
    pub(super) fn results_max(&self, most: usize) -> Result<usize, Failure> {
        let Some(text) = self.query.get("maxresults") else { return Ok(most) };
        match text.parse::<usize>() {
            Ok(0) | Err(_) => {
                let message = format!("maxresults is {text:?}; allowed: 1 to {most}.");
                Err(Failure::new(Code::OutOfRangeQueryParameterValue, message))
            }
            Ok(number) => Ok(number.min(most)),
        }
    }
}

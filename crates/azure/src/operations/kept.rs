//! What the service knows of a file or directory and SMB does not: metadata, HTTP headers, and from where it was copied. It is kept in a stream of the file,
//! so that it goes wherever the file goes.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};

use super::Ask;
use super::kept_stream::{self, Written};
use super::opening::Place;
use crate::answer::{Answer, set};
use crate::failure::{Code, Failure};

/// The most of all names and values of metadata, as the service has it.
const METADATA_BYTES_MAX: usize = 8 << 10;
const METADATA: &str = "x-ms-meta-";

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kept {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) content: BTreeMap<Content, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) copy: Option<Copied>,
}

/// The HTTP headers that a file may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    Type,
    Encoding,
    Language,
    Disposition,
    CacheControl,
    Md5,
}

impl Content {
    pub(super) const ALL: [Content; 6] = [
        Content::Type,
        Content::Encoding,
        Content::Language,
        Content::Disposition,
        Content::CacheControl,
        Content::Md5,
    ];

    /// The header that sets it.
    fn header(self) -> &'static str {
        match self {
            Content::Type => "x-ms-content-type",
            Content::Encoding => "x-ms-content-encoding",
            Content::Language => "x-ms-content-language",
            Content::Disposition => "x-ms-content-disposition",
            Content::CacheControl => "x-ms-cache-control",
            Content::Md5 => "x-ms-content-md5",
        }
    }

    /// The header that tells it.
    fn told(self) -> &'static str {
        match self {
            Content::Type => "content-type",
            Content::Encoding => "content-encoding",
            Content::Language => "content-language",
            Content::Disposition => "content-disposition",
            Content::CacheControl => "cache-control",
            Content::Md5 => "content-md5",
        }
    }
}

/// From where a file was copied, and how that went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Copied {
    pub(super) id: String,
    pub(super) source: String,
    /// Bytes.
    pub(super) length: u64,
    /// As HTTP has times.
    pub(super) completed: String,
}

impl Kept {
    /// What is kept of a file or directory; nothing where nothing was ever set, or an SMB client has written something else there.
    pub(super) async fn of(place: &Place) -> Result<Kept, Failure> {
        kept_stream::read(place).await
    }

    /// What a request sets of a new file.
    pub(super) fn asked(ask: &Ask) -> Result<Kept, Failure> {
        Ok(Kept { metadata: metadata(&ask.parts.headers)?, content: content(&ask.parts.headers)?, copy: None })
    }

    /// Changes it, one after the other. Where that fails it is what it was.
    pub(super) async fn change(place: &Place, change: impl FnOnce(&mut Kept)) -> Result<(), Failure> {
        kept_stream::change(place, Written::InTime, change).await
    }

    /// The same where it makes a difference: a file for which there is nothing to keep has no stream.
    pub(super) async fn replace(self, place: &Place, written: Written) -> Result<(), Failure> {
        if self == Kept::of(place).await? {
            return Ok(());
        }
        kept_stream::change(place, written, |kept| *kept = self).await
    }

    /// Tells it. A whole file has its MD5 under the name that HTTP has for it, a part in one of its own.
    pub(super) fn tell(&self, answer: &mut Answer, is_part: bool) {
        for (name, value) in &self.metadata {
            set(answer, &format!("{METADATA}{name}"), value);
        }
        for (content, value) in self.content.iter().filter(|(_, value)| !value.is_empty()) {
            let name = if *content == Content::Md5 && is_part { content.header() } else { content.told() };
            set(answer, name, value);
        }
        if let Some(copy) = &self.copy {
            set(answer, "x-ms-copy-id", &copy.id);
            set(answer, "x-ms-copy-source", &copy.source);
            set(answer, "x-ms-copy-status", "success");
            set(answer, "x-ms-copy-progress", &format!("{0}/{0}", copy.length));
            set(answer, "x-ms-copy-completion-time", &copy.completed);
        }
    }
}

pub(super) fn too_large() -> Failure {
    Failure::new(Code::MetadataTooLarge, "Names and values of metadata have 8 KiB together at most.")
}

/// The metadata that a request brings.
pub(super) fn metadata(headers: &HeaderMap) -> Result<BTreeMap<String, String>, Failure> {
    let mut metadata = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(METADATA) else { continue };
        if name.is_empty() {
            return Err(Failure::new(Code::EmptyMetadataKey, "A name of metadata is empty."));
        }
        if !is_identifier(name) {
            let message = format!("{name:?} is no name of metadata: letters, digits and _, with no digit first.");
            return Err(Failure::new(Code::InvalidMetadata, message));
        }
        let value = text(value).ok_or_else(|| Failure::new(Code::InvalidMetadata, "A value is no text in ASCII."))?;
        // Headers of one name are one, with commas between their values.
        let known = metadata.entry(name.to_owned()).or_default();
        if !known.is_empty() {
            known.push(',');
        }
        known.push_str(value);
    }
    if metadata.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > METADATA_BYTES_MAX {
        return Err(too_large());
    }
    Ok(metadata)
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

/// What C# takes for an identifier, as far as a header's name can have it.
fn is_identifier(name: &str) -> bool {
    let is_part = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    name.bytes().all(is_part) && !name.starts_with(|first: char| first.is_ascii_digit())
}

/// The HTTP headers that a request sets; those that it leaves out there will be none of. An empty type stands for none, where one that was never set is
/// that of any bytes.
pub(super) fn content(headers: &HeaderMap) -> Result<BTreeMap<Content, String>, Failure> {
    let mut content = BTreeMap::new();
    for one in Content::ALL {
        let value = headers.get(one.header()).and_then(|value| value.to_str().ok());
        let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
        // The service takes bytes of any number for one, and so does this.
        if one == Content::Md5 && BASE64_STANDARD.decode(value).is_err() {
            return Err(Failure::new(Code::InvalidMd5, "x-ms-content-md5 is no Base64."));
        }
        content.insert(one, value.to_owned());
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn metadata_are_headers_of_a_prefix() {
        let found = metadata(&headers(&[("x-ms-meta-one", " 1 "), ("x-ms-meta-One", "2"), ("x-ms-date", "now")]));
        assert_eq!(found.unwrap(), BTreeMap::from([("one".to_owned(), "1,2".to_owned())]));
    }

    #[test]
    fn metadata_that_the_service_refuses_are_refused() {
        let code = |pairs: &[(&'static str, &'static str)]| metadata(&headers(pairs)).unwrap_err().code;
        assert_eq!(code(&[("x-ms-meta-", "x")]), Code::EmptyMetadataKey);
        assert_eq!(code(&[("x-ms-meta-1a", "x")]), Code::InvalidMetadata);
        assert_eq!(code(&[("x-ms-meta-a-b", "x")]), Code::InvalidMetadata);
        let long = Box::leak("v".repeat(METADATA_BYTES_MAX).into_boxed_str());
        assert_eq!(code(&[("x-ms-meta-a", long)]), Code::MetadataTooLarge);
    }

    #[test]
    fn what_is_kept_is_text_that_anybody_can_read() {
        let kept = Kept {
            metadata: BTreeMap::from([("a".into(), "b".into())]),
            content: BTreeMap::from([(Content::CacheControl, "no-cache".into())]),
            copy: None,
        };
        let text = r#"{"metadata":{"a":"b"},"content":{"cache_control":"no-cache"}}"#;
        assert_eq!(serde_json::to_string(&kept).unwrap(), text);
        assert_eq!(kept_stream::value(format!("{text}   ").as_bytes()), Some(kept));
        assert_eq!(serde_json::to_string(&Kept::default()).unwrap(), "{}");
    }
}

//! The key of an account that everybody knows, as emulators of Azure's storage have it.

/// The first key of an account for development. It protects nothing.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Whether a key is the published one.
pub(crate) fn is_published(key: &str) -> bool {
    key == DEVELOPMENT_KEY
}

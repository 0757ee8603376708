//! What the management interface reads before anybody has proved anything: paths, forms that ask for tokens, and tokens; and which resources are asked for.
#![no_main]

use libfuzzer_sys::fuzz_target;

const METHODS: [&str; 6] = ["GET", "PUT", "PATCH", "POST", "DELETE", "HEAD"];

fuzz_target!(|parts: (u8, &str, &str, &[u8], &str)| {
    let (method, host, path, form, token) = parts;
    if azure::is_managed(METHODS[usize::from(method) % METHODS.len()], host, path) {
        // No account's share is reached by such a path where the account is in the path.
        let first = path.split('/').find(|name| !name.is_empty()).unwrap_or_default().to_ascii_lowercase();
        assert!(
            ["subscriptions", "metadata", "tenants", "providers", "adfs"].contains(&&*first) || first.len() == 36,
            "{path:?}"
        );
    }
    let _ = azure::read_form(form);
    let _ = azure::is_token(token);
    let _ = azure::is_resource_filter(token);
});

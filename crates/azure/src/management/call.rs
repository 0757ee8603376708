//! Which call of the management interface a request is, told once from method and path. Names of resources are the same in any case.

use hyper::Method;

use super::failure::Failure;
use crate::query::decoded;
use crate::tokens::TENANT;

/// The subscription that all accounts are in.
pub(crate) const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000001";
/// The provider of accounts.
pub(super) const STORAGE: &str = "Microsoft.Storage";
/// What the tenant is called at an authority of AD FS, as at Azure Stack Hub. Microsoft's library
/// for Go, and so AzCopy, asks such an authority itself where tokens are had; of any other host
/// that it does not know it asks Microsoft.
pub(super) const ADFS: &str = "adfs";
/// The versions that are served as the newest is.
const VERSIONS: std::ops::RangeInclusive<&str> = "2014-04-01"..="2099-12-31";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Where a cloud's interfaces are.
    ListEndpoints,
    /// Where tokens are had.
    GetOpenIdConfiguration,
    /// A token.
    SignIn,
    ListTenants,
    ListSubscriptions,
    GetSubscription,
    ListLocations,
    ListGroups,
    CheckGroup,
    GetGroup,
    PutGroup,
    /// Resources of all types.
    ListResources,
    ListProviders,
    GetProvider(String),
    ListSkus,
    ListLocationUsages,
    CheckName,
    ListAccounts,
    GetAccount(String),
    PutAccount(String),
    PatchAccount(String),
    DeleteAccount(String),
    ListKeys(String),
    RegenerateKey(String),
    SignForAccount(String),
    SignForService(String),
    ListFileServices(String),
    GetFileService(String),
    PutFileService(String),
    ListUsages(String),
    GetUsage(String),
    ListShares(String),
    GetShare(OfShare),
    PutShare(OfShare),
    PatchShare(OfShare),
    DeleteShare(OfShare),
    RestoreShare(OfShare),
    LeaseShare(OfShare),
    ListFeatures,
    GetFeature(String),
    RegisterFeature(String),
    UnregisterFeature(String),
    ListMetrics(String),
    ListMetricDefinitions(String),
    ListMetricNamespaces(String),
}

/// A share that is named, with its account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OfShare {
    pub(super) account: String,
    pub(super) share: String,
}

/// What has to be proved before a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing.
    Nothing,
    /// To be a service principal.
    Principal,
    /// To be one with the role of a contributor.
    Contributor,
}

impl Call {
    /// True of what is asked of one share.
    pub(super) fn is_of_share(&self) -> bool {
        use Call::{DeleteShare, GetShare, LeaseShare, PatchShare, PutShare, RestoreShare};
        matches!(self, GetShare(_) | PutShare(_) | PatchShare(_) | DeleteShare(_) | RestoreShare(_) | LeaseShare(_))
    }

    /// What has to be proved before it.
    pub(super) fn needs(&self) -> Needs {
        match self {
            Call::ListEndpoints | Call::GetOpenIdConfiguration | Call::SignIn => Needs::Nothing,
            Call::ListTenants | Call::ListSubscriptions => Needs::Principal,
            Call::GetSubscription
            | Call::ListLocations
            | Call::ListGroups
            | Call::CheckGroup
            | Call::GetGroup
            | Call::PutGroup
            | Call::ListResources
            | Call::ListProviders
            | Call::GetProvider(_)
            | Call::ListSkus
            | Call::ListLocationUsages
            | Call::CheckName
            | Call::ListAccounts
            | Call::GetAccount(_)
            | Call::PutAccount(_)
            | Call::PatchAccount(_)
            | Call::DeleteAccount(_)
            | Call::ListKeys(_)
            | Call::RegenerateKey(_)
            | Call::SignForAccount(_)
            | Call::SignForService(_)
            | Call::ListFileServices(_)
            | Call::GetFileService(_)
            | Call::PutFileService(_)
            | Call::ListUsages(_)
            | Call::GetUsage(_)
            | Call::ListShares(_)
            | Call::GetShare(_)
            | Call::PutShare(_)
            | Call::PatchShare(_)
            | Call::DeleteShare(_)
            | Call::RestoreShare(_)
            | Call::LeaseShare(_)
            | Call::ListFeatures
            | Call::GetFeature(_)
            | Call::RegisterFeature(_)
            | Call::UnregisterFeature(_)
            | Call::ListMetrics(_)
            | Call::ListMetricDefinitions(_)
            | Call::ListMetricNamespaces(_) => Needs::Contributor,
        }
    }

    /// The call that a request is. `group` is the resource group there is.
    pub(crate) fn of(method: &Method, path: &str, group: &str) -> Result<Self, Failure> {
        let names: Result<Vec<String>, _> = path.split('/').filter(|name| !name.is_empty()).map(decoded).collect();
        let names = names.map_err(|_| Failure::bad("InvalidUri", "The path has bytes that are no UTF-8."))?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let words: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (method.as_str(), &words[..]) {
            ("GET", ["metadata", "endpoints"]) => Ok(Call::ListEndpoints),
            ("GET", ["tenants"]) => Ok(Call::ListTenants),
            ("GET", ["subscriptions"]) => Ok(Call::ListSubscriptions),
            (_, ["subscriptions", id, ..]) if *id != SUBSCRIPTION => Err(Failure::missing(
                "SubscriptionNotFound",
                format!("The subscription '{id}' could not be found; there is {SUBSCRIPTION}."),
            )),
            ("GET", ["subscriptions", _]) => Ok(Call::GetSubscription),
            ("GET", ["subscriptions", _, "locations"]) => Ok(Call::ListLocations),
            ("GET", ["subscriptions", _, "resources"]) => Ok(Call::ListResources),
            ("GET", ["subscriptions", _, "resourcegroups"]) => Ok(Call::ListGroups),
            ("GET", ["subscriptions", _, "providers"]) => Ok(Call::ListProviders),
            (_, ["subscriptions", _, "resourcegroups", asked, ..]) if !asked.eq_ignore_ascii_case(group) => {
                Err(Failure::missing(
                    "ResourceGroupNotFound",
                    format!("Resource group '{asked}' could not be found; there is '{group}'."),
                ))
            }
            ("GET", ["subscriptions", _, "resourcegroups", _, "resources"]) => Ok(Call::ListResources),
            ("HEAD", ["subscriptions", _, "resourcegroups", _]) => Ok(Call::CheckGroup),
            ("GET", ["subscriptions", _, "resourcegroups", _]) => Ok(Call::GetGroup),
            ("PUT" | "PATCH", ["subscriptions", _, "resourcegroups", _]) => Ok(Call::PutGroup),
            (_, ["subscriptions", _, "resourcegroups", _, "providers", provider, rest @ ..]) => {
                of_provider(method, provider, rest, &names[6..], Scope::Group)
            }
            ("GET", ["subscriptions", _, "providers", provider])
            | ("POST", ["subscriptions", _, "providers", provider, "register"]) => {
                Ok(Call::GetProvider((*provider).to_owned()))
            }
            (_, ["subscriptions", _, "providers", provider, rest @ ..]) => {
                of_provider(method, provider, rest, &names[4..], Scope::Subscription)
            }
            (method, [tenant, rest @ ..]) => of_tenant(method, tenant, rest),
            (_, []) => Err(not_found(path)),
        }
    }
}

/// What a provider is asked under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Subscription,
    Group,
}

fn of_tenant(method: &str, tenant: &str, rest: &[&str]) -> Result<Call, Failure> {
    let call = match (method, rest) {
        ("POST", ["oauth2", "token"] | ["oauth2", "v2.0", "token"]) => Call::SignIn,
        ("GET", [".well-known", "openid-configuration"] | ["v2.0", ".well-known", "openid-configuration"]) => {
            Call::GetOpenIdConfiguration
        }
        _ => return Err(not_found(&format!("/{tenant}/{}", rest.join("/")))),
    };
    if tenant == TENANT || (tenant == ADFS && call == Call::GetOpenIdConfiguration) {
        return Ok(call);
    }
    Err(Failure::bad("invalid_request", format!("AADSTS90002: Tenant '{tenant}' not found. There is {TENANT}.")))
}

/// `words` stand behind the provider, in lower case, and `names` are they as they were sent.
fn of_provider(method: &Method, provider: &str, words: &[&str], names: &[&str], scope: Scope) -> Result<Call, Failure> {
    match (provider, scope) {
        ("microsoft.storage", _) => of_storage(method, words, names, scope),
        ("microsoft.features", Scope::Subscription) => of_features(method, words),
        ("microsoft.features" | "microsoft.insights", _) => Err(no_type(provider, words)),
        _ => Err(Failure::missing(
            "InvalidResourceNamespace",
            format!("The resource namespace '{provider}' is invalid; there is {STORAGE}."),
        )),
    }
}

fn of_storage(method: &Method, words: &[&str], names: &[&str], scope: Scope) -> Result<Call, Failure> {
    let method = method.as_str();
    match (method, words, scope) {
        ("GET", ["skus"], Scope::Subscription) => return Ok(Call::ListSkus),
        ("GET", ["usages"] | ["locations", _, "usages"], Scope::Subscription) => return Ok(Call::ListLocationUsages),
        ("POST", ["checknameavailability"], Scope::Subscription) => return Ok(Call::CheckName),
        ("GET", ["storageaccounts"], _) => return Ok(Call::ListAccounts),
        _ => {}
    }
    let (["storageaccounts", account, rest @ ..], Scope::Group) = (words, scope) else {
        return Err(no_type(STORAGE, words));
    };
    let account = (*account).to_owned();
    let share = |share: &str| OfShare { account: account.clone(), share: share.to_owned() };
    let named = names.get(5).copied().unwrap_or_default();
    Ok(match (method, rest) {
        ("GET", []) => Call::GetAccount(account),
        ("PUT", []) => Call::PutAccount(account),
        ("PATCH", []) => Call::PatchAccount(account),
        ("DELETE", []) => Call::DeleteAccount(account),
        ("POST", ["listkeys"]) => Call::ListKeys(account),
        ("POST", ["regeneratekey"]) => Call::RegenerateKey(account),
        ("POST", ["listaccountsas"]) => Call::SignForAccount(account),
        ("POST", ["listservicesas"]) => Call::SignForService(account),
        ("GET", ["fileservices"]) => Call::ListFileServices(account),
        ("GET", ["fileservices", "default"]) => Call::GetFileService(account),
        ("PUT", ["fileservices", "default"]) => Call::PutFileService(account),
        ("GET", ["fileservices", "default", "usages"]) => Call::ListUsages(account),
        ("GET", ["fileservices", "default", "usages", "default"]) => Call::GetUsage(account),
        ("GET", ["fileservices", "default", "shares"]) => Call::ListShares(account),
        ("GET", ["fileservices", "default", "shares", _]) => Call::GetShare(share(named)),
        ("PUT", ["fileservices", "default", "shares", _]) => Call::PutShare(share(named)),
        ("DELETE", ["fileservices", "default", "shares", _]) => Call::DeleteShare(share(named)),
        ("POST", ["fileservices", "default", "shares", _, "restore"]) => Call::RestoreShare(share(named)),
        ("POST", ["fileservices", "default", "shares", _, "lease"]) => Call::LeaseShare(share(named)),
        ("PATCH", ["fileservices", "default", "shares", _]) => Call::PatchShare(share(named)),
        ("GET", ["providers", "microsoft.insights", of @ ..])
        | ("GET", ["fileservices", "default", "providers", "microsoft.insights", of @ ..]) => match of {
            ["metrics"] => Call::ListMetrics(account),
            ["metricdefinitions"] => Call::ListMetricDefinitions(account),
            ["metricnamespaces"] => Call::ListMetricNamespaces(account),
            _ => return Err(no_type("Microsoft.Insights", of)),
        },
        (_, ["fileservices", ..] | ["listkeys"] | ["regeneratekey"] | []) => {
            return Err(Failure::new(
                hyper::StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                format!("The method {method} is not served for this resource."),
            ));
        }
        _ => return Err(no_type(STORAGE, words)),
    })
}

fn of_features(method: &Method, words: &[&str]) -> Result<Call, Failure> {
    let of_storage = || match words {
        ["providers", "microsoft.storage", "features", rest @ ..] => Some(rest),
        _ => None,
    };
    Ok(match (method.as_str(), words, of_storage()) {
        ("GET", ["features"], _) | ("GET", _, Some([])) => Call::ListFeatures,
        ("GET", _, Some([feature])) => Call::GetFeature((*feature).to_owned()),
        ("POST", _, Some([feature, "register"])) => Call::RegisterFeature((*feature).to_owned()),
        ("POST", _, Some([feature, "unregister"])) => Call::UnregisterFeature((*feature).to_owned()),
        _ => return Err(no_type("Microsoft.Features", words)),
    })
}

/// Fails where the request names no version, or one that never was.
pub(super) fn check_version(given: Option<&str>) -> Result<(), Failure> {
    let Some(given) = given.filter(|given| !given.is_empty()) else {
        return Err(Failure::bad(
            "MissingApiVersionParameter",
            "The api-version query parameter (?api-version=) is required for all requests.",
        ));
    };
    let date = given.get(..10).unwrap_or_default();
    let is_date = date.parse::<jiff::civil::Date>().is_ok() && VERSIONS.contains(&date);
    let is_version = is_date && matches!(given.get(10..), Some("" | "-preview" | "-alpha" | "-beta"));
    if is_version {
        return Ok(());
    }
    Err(Failure::bad(
        "NoRegisteredProviderFound",
        format!(
            "No registered resource provider found for API version '{given}'; versions are dates from {} on.",
            VERSIONS.start()
        ),
    ))
}

fn no_type(provider: &str, words: &[&str]) -> Failure {
    Failure::missing(
        "InvalidResourceType",
        format!("The resource type '{}' could not be found in the namespace '{provider}'.", words.join("/")),
    )
}

fn not_found(path: &str) -> Failure {
    Failure::missing("NotFound", format!("There is nothing at '{path}'."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_GROUP: &str =
        "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/multilane/providers/Microsoft.Storage";

    fn of(method: &str, path: &str) -> Result<Call, String> {
        Call::of(&method.parse().unwrap(), path, "multilane").map_err(|failure| failure.code.into_owned())
    }

    #[test]
    fn calls_are_told_by_method_and_path_in_any_case() {
        let account = || "work".to_owned();
        let share = || OfShare { account: account(), share: "Docs".to_owned() };
        let service = format!("{IN_GROUP}/storageAccounts/work/fileServices/default");
        assert_eq!(of("GET", "/metadata/endpoints"), Ok(Call::ListEndpoints));
        assert_eq!(of("POST", &format!("/{TENANT}/oauth2/v2.0/token")), Ok(Call::SignIn));
        for tenant in [TENANT, "adfs"] {
            let path = format!("/{tenant}/.well-known/openid-configuration");
            assert_eq!(of("GET", &path), Ok(Call::GetOpenIdConfiguration));
        }
        let (subscription, _) = IN_GROUP.split_once("/resourceGroups").unwrap();
        assert_eq!(of("GET", &format!("{subscription}/resources")), Ok(Call::ListResources));
        let of_group = format!("{subscription}/RESOURCEGROUPS/Multilane/resources");
        assert_eq!(of("GET", &of_group), Ok(Call::ListResources));
        let usages = format!("{subscription}/providers/Microsoft.Storage/locations/local/usages");
        assert_eq!(of("GET", &usages), Ok(Call::ListLocationUsages));
        let namespaces = format!("{service}/providers/microsoft.insights/metricNamespaces");
        assert_eq!(of("GET", &namespaces), Ok(Call::ListMetricNamespaces(account())));
        assert_eq!(of("GET", &format!("{IN_GROUP}/STORAGEACCOUNTS/Work")), Ok(Call::GetAccount(account())));
        assert_eq!(
            of("GET", &IN_GROUP.replace("resourceGroups", "resourcegroups")),
            Err("InvalidResourceType".to_owned())
        );
        assert_eq!(of("POST", &format!("{IN_GROUP}/storageAccounts/work/listKeys")), Ok(Call::ListKeys(account())));
        assert_eq!(of("PUT", &service), Ok(Call::PutFileService(account())));
        assert_eq!(of("PATCH", &format!("{service}/shares/Docs")), Ok(Call::PatchShare(share())));
        let metrics = format!("{service}/providers/Microsoft.Insights/metrics");
        assert_eq!(of("GET", &metrics), Ok(Call::ListMetrics(account())));
        let features = "/subscriptions/00000000-0000-0000-0000-000000000001/providers/Microsoft.Features";
        let feature = format!("{features}/providers/Microsoft.Storage/features/HigherHandlesCountOnSmb/register");
        assert_eq!(of("POST", &feature), Ok(Call::RegisterFeature("higherhandlescountonsmb".to_owned())));
    }

    #[test]
    fn what_is_not_there_is_answered_by_the_services_codes() {
        for (method, path, code) in [
            ("GET", "/subscriptions/1".to_owned(), "SubscriptionNotFound"),
            ("GET", IN_GROUP.replace("multilane", "other"), "ResourceGroupNotFound"),
            ("GET", IN_GROUP.replace("Storage", "Compute"), "InvalidResourceNamespace"),
            ("GET", format!("{IN_GROUP}/storageTasks"), "InvalidResourceType"),
            ("GET", format!("{IN_GROUP}/storageAccounts/a/blobServices/default"), "InvalidResourceType"),
            ("DELETE", format!("{IN_GROUP}/storageAccounts/a/fileServices/default"), "MethodNotAllowed"),
            ("POST", "/11111111-0000-0000-0000-000000000002/oauth2/token".to_owned(), "invalid_request"),
            ("GET", format!("/{TENANT}/oauth2/token"), "NotFound"),
            ("GET", "/subscriptions/%ff".to_owned(), "InvalidUri"),
            ("GET", "/".to_owned(), "NotFound"),
        ] {
            assert_eq!(of(method, &path), Err(code.to_owned()), "{method} {path}");
        }
    }

    #[test]
    fn any_version_of_the_years_is_taken() {
        for version in ["2015-06-15", "2025-08-01", "2026-09-01", "2024-05-01-preview"] {
            assert_eq!(check_version(Some(version)), Ok(()), "{version}");
        }
        for version in ["2013-01-01", "latest", "2026-13-01", "2026-09-01-x", "2026-09-01é", "20260901"] {
            assert_eq!(check_version(Some(version)).unwrap_err().code, "NoRegisteredProviderFound", "{version}");
        }
        assert_eq!(check_version(None).unwrap_err().code, "MissingApiVersionParameter");
    }
}

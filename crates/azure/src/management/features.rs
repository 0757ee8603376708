//! Features of Microsoft.Storage (provider Microsoft.Features).

use control::{By, Feature, Features, Registration};
use hyper::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::json as answered;
use super::{Ask, Failure, Management, STORAGE, SUBSCRIPTION};
use crate::answer::Answer;

pub(super) fn list(management: &Management) -> Answer {
    let features = management.catalog.features();
    let all: Vec<Value> = features.iter().flat_map(|of| Feature::ALL.map(|feature| told(of, feature))).collect();
    answered(StatusCode::OK, &json!({ "value": all }))
}

pub(super) fn get(management: &Management, name: &str) -> Result<Answer, Failure> {
    let feature = feature(name)?;
    let features = management.catalog.features().ok_or_else(|| not_found(name))?;
    Ok(answered(StatusCode::OK, &told(&features, feature)))
}

/// Registers a feature, at once.
pub(super) async fn register(management: &Management, ask: &Ask, name: &str) -> Result<Answer, Failure> {
    set(management, ask, name, Registration::Registered).await
}

pub(super) async fn unregister(management: &Management, ask: &Ask, name: &str) -> Result<Answer, Failure> {
    set(management, ask, name, Registration::Unregistered).await
}

async fn set(management: &Management, ask: &Ask, name: &str, wanted: Registration) -> Result<Answer, Failure> {
    let (feature, by) = (feature(name)?, ask.requester()?);
    let change =
        move |operations: &control::Operations| operations.register_feature(By::Requester(&by), feature, wanted);
    let features = management.changed(change).await?;
    Ok(answered(StatusCode::OK, &told(&features, feature)))
}

fn feature(name: &str) -> Result<Feature, Failure> {
    name.parse().map_err(|_| not_found(name))
}

fn not_found(name: &str) -> Failure {
    Failure::missing("FeatureNotFound", format!("The feature '{name}' could not be found."))
}

fn told(features: &Features, feature: Feature) -> Value {
    json!({
        "id": format!("/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Features/providers/{STORAGE}/features/{feature}"),
        "name": format!("{STORAGE}/{feature}"),
        "type": "Microsoft.Features/providers/features",
        "properties": { "state": features.state(feature, Timestamp::now()).as_str() },
    })
}

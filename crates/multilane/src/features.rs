//! `multilane features`.

use std::path::Path;

use clap::Subcommand;
use control::{Account, Error, Feature, Features, Region, Regions, WhyNot};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::data;
use crate::output::Output;
use crate::table::Table;

/// The longest delay: thirty days.
const DELAY_SECONDS_MAX: i64 = 30 * 86_400;

#[derive(Debug, Subcommand)]
pub(crate) enum FeaturesCommand {
    /// List the features, and which are registered
    List,
    /// Register a feature for all accounts that have a SKU
    #[command(after_help = "Example:\n  multilane features register AzurePremiumFilesMetadataCacheFeature")]
    Register {
        /// AzurePremiumFilesMetadataCacheFeature or HigherHandlesCountOnSmb
        name: Feature,
        /// Register it only when so many seconds are over, at most thirty days
        #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..=DELAY_SECONDS_MAX))]
        delay: i64,
    },
    /// Have a feature registered no longer, at once
    Unregister {
        /// AzurePremiumFilesMetadataCacheFeature or HigherHandlesCountOnSmb
        name: Feature,
    },
    /// Show, or set, the regions that metadata caching is available in, for accounts that have a SKU and name a region
    #[command(
        after_help = "Examples:\n  multilane features regions --set westeurope,northeurope\n  multilane features regions --any\n  multilane features regions --default"
    )]
    Regions {
        /// These regions, and no others
        #[arg(long, value_name = "A,B,C", value_delimiter = ',', conflicts_with = "any")]
        set: Vec<Region>,
        /// All regions
        #[arg(long)]
        any: bool,
        /// Those of the beginning: the eight of Azure's first preview
        #[arg(long, conflicts_with_all = ["set", "any"])]
        default: bool,
    },
}

/// A feature as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    state: &'static str,
    /// When it will be registered, where it is being registered.
    registered_from: Option<String>,
    gives: &'static str,
}

/// A feature that was just registered, as `--json` prints it.
#[derive(Serialize)]
struct Registered {
    #[serde(flatten)]
    feature: Shown,
    /// The accounts that go without it, where they are.
    accounts_elsewhere: Vec<Elsewhere>,
}

/// An account in a region that does not have the feature.
#[derive(Serialize)]
struct Elsewhere {
    account: String,
    region: String,
}

/// The regions as `--json` prints them.
#[derive(Serialize)]
struct ShownRegions {
    any: bool,
    regions: Vec<String>,
}

pub(crate) fn run(path: &Path, command: &FeaturesCommand, output: Output) -> Result<(), Error> {
    let (folder, mut catalog) = data::open(path)?;
    let now = Timestamp::now();
    match command {
        FeaturesCommand::List => {
            let features = catalog.features()?;
            let all = Feature::ALL.map(|feature| shown(&features, feature, now));
            output.print(&all, |all| table(all))
        }
        FeaturesCommand::Register { name, delay } => {
            let features = catalog.register_feature(*name, SignedDuration::from_secs(*delay), now)?;
            let accounts_elsewhere = elsewhere(&features, *name, &catalog.accounts()?);
            let registered = Registered { feature: shown(&features, *name, now), accounts_elsewhere };
            output.print(&registered, registered_text)?;
            data::reload(&folder).map(drop)
        }
        FeaturesCommand::Unregister { name } => {
            let features = catalog.unregister_feature(*name)?;
            output.print(&shown(&features, *name, now), |shown| table(std::slice::from_ref(shown)))?;
            data::reload(&folder).map(drop)
        }
        FeaturesCommand::Regions { set, any, default } => {
            let wanted = match (any, default) {
                (true, _) => Some(Regions::Any),
                (false, true) => Some(Regions::default()),
                (false, false) => (!set.is_empty()).then(|| Regions::Only(set.clone())),
            };
            if let Some(wanted) = &wanted {
                catalog.set_regions(wanted)?;
            }
            output.print(&shown_regions(catalog.features()?.regions()), regions_text)?;
            if wanted.is_some() { data::reload(&folder).map(drop) } else { Ok(()) }
        }
    }
}

fn shown(features: &Features, feature: Feature, now: Timestamp) -> Shown {
    let state = features.state(feature, now);
    let registered_from = features.registered_from(feature).map(|from| from.to_string());
    Shown { name: feature.as_str(), state: state.as_str(), registered_from, gives: feature.gives() }
}

/// The accounts that will not have `feature`, which is registered, for where they are.
fn elsewhere(features: &Features, feature: Feature, accounts: &[Account]) -> Vec<Elsewhere> {
    let from = features.registered_from(feature).unwrap_or(Timestamp::MAX);
    let why = |account: &Account| match features.has_feature(account, feature, from) {
        Err(WhyNot::Region(region)) => {
            Some(Elsewhere { account: account.name.clone(), region: region.as_str().to_owned() })
        }
        Err(WhyNot::Kind(_) | WhyNot::NotRegistered | WhyNot::Registering { .. }) | Ok(()) => None,
    };
    accounts.iter().filter_map(why).collect()
}

fn registered_text(registered: &Registered) -> String {
    let mut text = table(std::slice::from_ref(&registered.feature));
    for Elsewhere { account, region } in &registered.accounts_elsewhere {
        text.push_str(&format!(
            "account {account} goes without it: {region} is not among the regions, see `multilane features regions`\n"
        ));
    }
    text
}

fn table(features: &[Shown]) -> String {
    let mut table = Table::new(["NAME", "STATE", "REGISTERED FROM", "GIVES"]);
    for one in features {
        let from = one.registered_from.clone().unwrap_or_default();
        table.row([one.name.to_owned(), one.state.to_owned(), from, one.gives.to_owned()]);
    }
    table.text()
}

fn shown_regions(regions: &Regions) -> ShownRegions {
    match regions {
        Regions::Any => ShownRegions { any: true, regions: Vec::new() },
        Regions::Only(regions) => {
            ShownRegions { any: false, regions: regions.iter().map(ToString::to_string).collect() }
        }
    }
}

fn regions_text(regions: &ShownRegions) -> String {
    if regions.any {
        return "metadata caching is available in all regions\n".to_owned();
    }
    let mut table = Table::new(["REGION"]);
    regions.regions.iter().for_each(|region| table.row([region.clone()]));
    table.text()
}

//! `multilane principal`: which programs may sign in to Azure's interfaces.

use std::path::Path;

use clap::Subcommand;
use control::{Error, Role, ServicePrincipal, UserName};
use serde::Serialize;

use crate::data;
use crate::output::{Deleted, Output};
use crate::table::Table;

const CREATE_EXAMPLE: &str =
    "Examples:\n  multilane principal create ci\n  multilane principal create backup --role file-reader --json";

#[derive(Debug, Subcommand)]
pub(crate) enum PrincipalCommand {
    /// Make a service principal, which signs in to the REST and management interfaces; its secret is told once and not kept
    #[command(after_help = CREATE_EXAMPLE)]
    Create {
        /// Its name
        name: UserName,
        /// What it may do: contributor (accounts, shares and keys), file-reader or file-contributor (all files of all accounts)
        #[arg(long = "role", value_name = "ROLE", default_values_t = [Role::Contributor, Role::FileContributor])]
        roles: Vec<Role>,
    },
    /// Delete a service principal; what it has signed in for ends
    Delete {
        /// The service principal
        name: UserName,
    },
    /// List the service principals
    List,
}

/// A service principal as `--json` prints it, by the names of `az ad sp create-for-rbac`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    display_name: &'a str,
    app_id: &'a str,
    roles: Vec<&'static str>,
}

/// The same with what is told once.
#[derive(Serialize)]
struct Made<'a> {
    #[serde(flatten)]
    shown: Shown<'a>,
    password: &'a str,
    tenant: &'static str,
}

pub(crate) fn run(path: &Path, command: &PrincipalCommand, output: Output) -> Result<(), Error> {
    match command {
        PrincipalCommand::Create { name, roles } => {
            let (folder, mut catalog) = data::open(path)?;
            let (principal, secret) = catalog.create_service_principal(name, roles)?;
            let made = Made { shown: shown(&principal), password: secret.as_str(), tenant: azure::TENANT };
            output.print(&made, |made| {
                format!(
                    "created service principal {}, whose secret is told this once\n  application id  {}\n  secret          {}\n  tenant          {}\n",
                    made.shown.display_name, made.shown.app_id, made.password, made.tenant
                )
            })?;
            data::reload(&folder).map(drop)
        }
        PrincipalCommand::Delete { name } => {
            let (folder, mut catalog) = data::open(path)?;
            let principal = catalog.delete_service_principal(name)?;
            output.print(&Deleted { deleted: &principal.name }, |deleted| {
                format!("deleted service principal {}\n", deleted.deleted)
            })?;
            data::forget(&folder, &catalog)
        }
        PrincipalCommand::List => {
            let (_, catalog) = data::open(path)?;
            let principals = catalog.service_principals()?;
            let principals: Vec<Shown<'_>> = principals.iter().map(shown).collect();
            output.print(&principals, |principals| {
                let mut table = Table::new(["NAME", "APPLICATION ID", "ROLES"]);
                for one in principals {
                    table.row([one.display_name.to_owned(), one.app_id.to_owned(), one.roles.join(",")]);
                }
                table.text()
            })
        }
    }
}

fn shown(principal: &ServicePrincipal) -> Shown<'_> {
    Shown {
        display_name: &principal.name,
        app_id: &principal.application_id,
        roles: principal.roles.iter().map(|role| role.as_str()).collect(),
    }
}

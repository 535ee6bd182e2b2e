//! `highwater fleet growth`.

use super::ask::{FleetAskArgs, FleetRowsArgs, table_in_words};
use super::rows::{AnswerRow, sites};
use crate::failure::Failure;
use crate::output::Output;
use crate::print::heading::Heading;
use crate::print::table::{Align, Cell, Table};
use clap::Args;
use highwater_fleet::label_filter::{FleetLabel, LabelFilter};
use highwater_fleet::questions::{VersionPair, growth_sql};

/// The arguments of `highwater fleet growth`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  highwater fleet growth /lake                        each service, its two latest versions
  highwater fleet growth /lake --service checkout
  highwater fleet growth /lake --service checkout --from-version 1.42.0 --to-version 1.43.0
  highwater fleet growth /lake --by-host --where region=eu-west-1
  highwater fleet growth /lake --json | jq '.rows[] | {function, grew}'

A figure is the mean of a site's live bytes over all slots of all processes of the version, those without the site included. A host \
grew if its mean is above its own mean in the old version, or above that of all hosts if it did not run the old one.")]
pub struct FleetGrowth {
    #[command(flatten)]
    ask: FleetAskArgs,
    /// Only this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// The old version [default: the one that appeared last but one]
    #[arg(long, value_name = "VERSION", requires = "to_version")]
    from_version: Option<String>,
    /// The new version [default: the one that appeared last]
    #[arg(long, value_name = "VERSION", requires = "from_version")]
    to_version: Option<String>,
    /// A row for each host
    #[arg(long)]
    by_host: bool,
    #[command(flatten)]
    rows: FleetRowsArgs,
}

impl FleetGrowth {
    /// Prints what grew.
    pub fn run(&self, output: &mut Output) -> Result<(), Failure> {
        let mut asked = self.ask.open()?;
        let label =
            |name: &String| LabelFilter { label: FleetLabel::Service, is_inverted: false, pattern: name.clone() };
        asked.scope.labels.extend(self.service.iter().map(label));
        let versions = match (&self.from_version, &self.to_version) {
            (Some(old), Some(new)) if old == new => {
                return Err(Failure::Usage("--from-version and --to-version are the same".into()));
            }
            (Some(old), Some(new)) => VersionPair::Given(old.clone(), new.clone()),
            _ => VersionPair::Latest,
        };
        let (source, scope) = asked.site_table()?;
        let sql = growth_sql(&scope, source, &versions, self.by_host, self.rows.rows(self.ask.json));
        let found = asked.ask_sites(&sql, &scope, source)?;
        if self.ask.json {
            return output.json(asked.document("fleet growth", &scope, Some(source), &found));
        }
        let rows: Vec<AnswerRow> = found.answer.objects().map(AnswerRow).collect();
        if rows.is_empty() {
            return asked.print_nothing(
                output,
                &scope,
                "nothing holds more in the new version, or there is only one version",
            );
        }
        let mut head = Heading::default();
        let mut pairs: Vec<String> = Vec::new();
        for row in &rows {
            let pair = format!("{} {} → {}", row.text("service"), row.text("from_version"), row.text("to_version"));
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        head.line("versions", pairs.join(", "));
        head.line("mean of", table_in_words(source));
        let mut table = Table::default()
            .column(Align::Right, "grew")
            .column(Align::Right, "before")
            .column(Align::Right, "after")
            .column(if self.by_host { Align::Left } else { Align::Right }, if self.by_host { "host" } else { "hosts" })
            .column(Align::Left, if pairs.len() > 1 { "service" } else { "" })
            .column(Align::Left, "site");
        for (row, site) in rows.iter().zip(sites(&rows)) {
            let host = match self.by_host {
                true => row.text("host").into(),
                false => row.part("hosts_grew", "hosts_seen"),
            };
            let service = if pairs.len() > 1 { row.text("service").into() } else { Cell::default() };
            table.row(vec![
                row.signed_bytes("grew"),
                row.bytes("old_mean"),
                row.bytes("new_mean"),
                host,
                service,
                site,
            ]);
        }
        asked.print(output, &found, head, &scope, &table)
    }
}

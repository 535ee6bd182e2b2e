// Sites and types by the pages that their blocks hold.
import { Separator } from "../separator";
import { subjectOfSite } from "../subject";
import { foundRows } from "../matcher";
import { useMemo } from "preact/hooks";
import type { Rss, RssFigures, RssGroup, RssSite } from "../answers";
import { addFilter, choice, choose, filtersAnd } from "../choice";
import { SaveCsv, type CsvColumns } from "../csv";
import * as format from "../format";
import { clean, shown } from "../names";
import { Search } from "../search";
import { has } from "../sources";
import { distinctCallers, FunctionActions, RowName, Stack, TypeName } from "../stack";
import { Table, type Column } from "../table";

const VALUES: { [column: string]: (row: RssFigures) => number } = {
  resident: (row) => row.resident_bytes, live: (row) => row.live_bytes, blocks: (row) => row.blocks, slack: (row) => row.slack_bytes, pinned: (row) => row.pinned_bytes,
};

function figureColumns<Row extends RssFigures>(whole: number): Column<Row>[] {
  const bytes = (name: string, title: string, hint: string): Column<Row> => ({ name, title, hint, width: "84px", numeric: true, sortable: true, cell: (row) => (VALUES[name](row) > 0 ? format.bytes(VALUES[name](row)) : "") });
  return [
    { name: "share", title: "Share", width: "56px", numeric: true, hint: "Of the resident memory", cell: (row) => format.percent(row.resident_bytes / Math.max(1, whole)) },
    bytes("resident", "Resident", "Bytes of live blocks that are in RAM"),
    bytes("live", "Live", "Bytes that were requested"),
    { name: "blocks", title: "Blocks", width: "76px", numeric: true, sortable: true, cell: (row) => format.count(row.blocks) },
    bytes("slack", "Slack", "Usable bytes beyond those that were requested"),
    bytes("pinned", "Pinned", "Bytes of pages that could be returned to the kernel if only these blocks were freed"),
  ];
}

const FIGURE_CSV: CsvColumns<RssFigures> = {
  resident_bytes: (row) => row.resident_bytes, live_bytes: (row) => row.live_bytes, blocks: (row) => row.blocks, slack_bytes: (row) => row.slack_bytes, pinned_bytes: (row) => row.pinned_bytes,
};
const SITE_CSV: CsvColumns<RssSite> = { name: (site) => site.key, ...FIGURE_CSV, file: (site) => site.frame?.file, line: (site) => site.frame?.line };
const TYPE_CSV: CsvColumns<RssGroup> = { type: (group) => group.key, ...FIGURE_CSV };

function sorted<Row extends RssFigures>(rows: Row[], column: string, order: "asc" | "desc", matches: (row: Row) => boolean): Row[] {
  const value = VALUES[column] ?? VALUES.resident;
  return rows.filter(matches).sort((a, b) => (order === "asc" ? 1 : -1) * (value(a) - value(b)));
}

/** A stack may have blocks and mappings. */
function keyOf(site: RssSite): string {
  return `${site.id}${site.is_mapping ? "m" : ""}`;
}

export function RssSites({ data }: { data: Rss }) {
  const { sort, order, search, pick } = choice.value;
  const column = sort in VALUES ? sort : "resident";
  const wanted = search;
  const sites = useMemo(() => sorted(foundRows(data.sites, wanted), column, order, () => true), [data, column, order, wanted]);
  const columns = useMemo(() => siteColumns(sites, data.sum_bytes), [sites]);
  const picked = pick === "" ? -1 : sites.findIndex((site) => keyOf(site) === pick || String(site.id) === pick);
  const site = sites[picked];
  return (
    <>
      <div class="tools">
        <small>{listed(sites.length, data.site_count, "site")}. Pinned: the pages that would go back to the kernel if only these blocks were freed.</small>
        <span class="stretch" />
        <Search hint="Search functions" />
        <SaveCsv part="rss-by-site" columns={SITE_CSV} rows={() => sites} />
      </div>
      <div class="split">
        <Table label="Sites" columns={columns} count={sites.length} row={(index) => sites[index]} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
          onSelect={(_, each) => choose({ pick: keyOf(each) }, pick === "")} identity={`${data.at_ns} ${column} ${order} ${wanted}`} empty={search ? "Nothing matches." : "No site is known."} subject={subjectOfSite} />
        {site && <PickedSite site={site} at={data.at_ns} />}
      </div>
    </>
  );
}

/** "12 sites", or "12 of 30 sites". */
function listed(shown: number, all: number, one: string): string {
  return shown < all ? `${format.count(shown)} of ${format.plural(all, one)}` : format.plural(shown, one);
}

function siteColumns(sites: RssSite[], whole: number): Column<RssSite>[] {
  const callers = distinctCallers(sites);
  return [
    ...figureColumns<RssSite>(whole),
    { name: "name", title: "Site", width: "minmax(180px, 1fr)", cell: (site) => <><RowName row={site} />{site.is_mapping && <small> mapping</small>} <small>{site.detail ? "" : callers(site)}</small></> },
  ];
}

function PickedSite({ site, at }: { site: RssSite; at: number }) {
  const name = site.frame?.function ?? site.key;
  const instant = has("timeline") ? { at } : {};
  const only = filtersAnd(`site:${site.id}`);
  return (
    <><Separator /><aside class="picked" aria-label="The chosen site">
      <h2 title={clean(name)}>{shown(name)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
      <p>{sentenceOf(site, site.is_mapping ? "mapping" : "block")}</p>
      {site.type_name && <p class="faint">{clean(site.type_name)}</p>}
      <p class="actions">
        {has("blocks") && <button type="button" onClick={() => choose({ view: "blocks", filters: only, ...instant })}>Its blocks</button>}
        {!site.is_mapping && <button type="button" title="The pages that its blocks pin" onClick={() => choose({ part: "map", pick: String(site.id) })}>Its pages</button>}
        {has("timeline") && <button type="button" title="The timeline and every view, of this site alone" onClick={() => choose({ view: "overview", filters: only, ...instant })}>Over time</button>}
      </p>
      <FunctionActions name={name} />
      <Stack stack={site.stack ?? []} site={site.id} />
    </aside></>
  );
}

/** "40 blocks of 4.0 KiB in all: 3.0 KiB resident, …": what they hold, and what they keep from going. */
function sentenceOf(row: RssFigures, one: string): string {
  const parts = [`${format.bytes(row.resident_bytes)} of them resident`];
  if (row.slack_bytes > 0) parts.push(`${format.bytes(row.slack_bytes)} of slack`);
  const pins = row.pinned_bytes > 0 ? ` They pin ${format.bytes(row.pinned_bytes)} of pages.` : "";
  return `${format.bytes(row.live_bytes)} in ${format.plural(row.blocks, one)}, ${parts.join(", ")}.${pins}`;
}

export function RssTypes({ data }: { data: Rss }) {
  const { sort, order, search, pick } = choice.value;
  const column = sort in VALUES ? sort : "resident";
  const wanted = search;
  const groups = useMemo(() => sorted(foundRows(data.groups, wanted), column, order, () => true), [data, column, order, wanted]);
  const columns = useMemo<Column<RssGroup>[]>(() => [...figureColumns<RssGroup>(data.sum_bytes), { name: "name", title: "Type", width: "minmax(180px, 1fr)", cell: (group) => <TypeName name={group.key} /> }], [data]);
  const picked = pick === "" ? -1 : groups.findIndex((group) => group.key === pick);
  const group = groups[picked];
  return (
    <>
      <div class="tools">
        <small>{listed(groups.length, data.group_count, "type")}. Pages that several sites of a type pin together are not in its pinned bytes.</small>
        <span class="stretch" />
        <Search hint="Search types" />
        <SaveCsv part="rss-by-type" columns={TYPE_CSV} rows={() => groups} />
      </div>
      <div class="split">
        <Table label="Types" columns={columns} count={groups.length} row={(index) => groups[index]} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
          onSelect={(_, each) => choose({ pick: each.key }, pick === "")} identity={`${data.at_ns} ${column} ${order} ${wanted}`} empty="No type is known." subject={(each) => ({ name: each.key, filter: `type:${each.key}` })} />
        {group && (
          <><Separator /><aside class="picked" aria-label="The chosen type">
            <h2>{clean(group.key)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
            <p>{sentenceOf(group, "block")}</p>
            <p class="actions">
              <button type="button" onClick={() => addFilter(`type:${group.key}`)}>Only this type</button>
              <button type="button" title="Flame graph of the blocks of this type" onClick={() => choose({ view: "flame", filters: filtersAnd(`type:${group.key}`) })}>Who makes it</button>
            </p>
            <h3>Sites</h3>
            <ul class="neighbours">
              {data.sites.filter((site) => site.type_name === group.key).slice(0, 20).map((site) => (
                <li key={keyOf(site)}><span class="numeric">{format.bytes(site.resident_bytes)}</span> <button type="button" class="frame" onClick={() => choose({ part: "sites", pick: keyOf(site) })}><RowName row={site} /></button></li>
              ))}
            </ul>
          </aside></>
        )}
      </div>
    </>
  );
}

// What is live at the instant, by site: at the end of a program, what was never freed.
import { Separator } from "../separator";
import type { Headline, Leaks, LeakSite } from "../answers";
import { useAnswer } from "../answer";
import { addFilter, choice, choose, DEFAULT } from "../choice";
import { length, when } from "../clock";
import { allRows, noteOfLimit, SaveCsv, type CsvColumns } from "../csv";
import * as estimate from "../estimate";
import * as format from "../format";
import { clean, shown } from "../names";
import { about, instantOfLeaks } from "../question";
import { foundRows } from "../matcher";
import { saved } from "../saved";
import { has, source } from "../sources";
import { distinctCallers, FunctionActions, RowName, Stack } from "../stack";
import { Search } from "../search";
import { Table, type Column } from "../table";
import { Nothing, StatusLine } from "../status";
import { endOf } from "../teardown";
import { subjectOfSite } from "../subject";
import { useMemo } from "preact/hooks";

export function LeaksView() {
  const { sort, order, search, pick } = choice.value;
  const asked = about("still_live", { limit: MOST_SHOWN, ...instantOfLeaks() });
  const answer = useAnswer<Leaks>(asked, 80);
  const data = answer.data;
  const column = sort || "live";
  const sites = useMemo(() => sorted(answer.data?.sites ?? [], column, order, search), [answer.data, column, order, search]);
  const columns = useMemo(() => columnsOf(sites), [sites]);
  const picked = pick === "" ? -1 : sites.findIndex((site) => String(site.id) === pick);
  const site = sites[picked];
  const isJudged = choice.value.at === DEFAULT.at;
  const isAtEnd = choice.value.at === "end";
  const isBeforeEnd = isJudged && (data?.at_ns ?? Infinity) < (choice.value.to ?? source.value?.duration_ns ?? 0);
  const before = useAnswer<Headline>(isAtEnd && has("timeline") && !saved ? about("headline", { at: null }) : null, 80).data?.before_teardown_ns ?? null;
  return (
    <div class={`leaks-view${answer.isOld ? " old" : ""}`}>
      <div class="tools">
        <small>What is live at {isJudged ? endOf(answer.data?.at_ns) : isAtEnd ? "the end" : "A"} and how old it is. {before === null ? !isBeforeEnd && "At the end of a program this was never freed. " : <>The program frees most of its memory at its end: <button type="button" class="quiet" title="What is live before the program frees its memory at its end" onClick={() => choose({ at: before })}>before its tear-down, at {when(before)}</button>. </>}Caches and globals are in it, too: Growth shows what keeps growing.</small>
        <span class="stretch" />
        {search && answer.data && <small class="in-all">{format.plural(sites.length, "site")}, {estimate.bytes(sites.reduce((sum, each) => sum + each.live_bytes, 0))} in all</small>}
        {data && data.count > data.sites.length && <small>the largest {format.count(data.sites.length)} of {format.count(data.count)} sites</small>}
        <Search hint="Search functions" />
        {answer.data && <SaveCsv part="leaks" columns={CSV} note={noteOfLimit(answer.data.count, "sites")} rows={async (signal) => sorted(await allRows<Leaks, LeakSite>(asked, { rows: answer.data!.sites, count: answer.data!.count }, (all) => all.sites, signal), column, order, search)} />}
        <StatusLine answer={answer} />
      </div>
      <div class="split">
        <Table label="Leaks" columns={columns} count={sites.length} row={(index) => sites[index]} rowHeight={28} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
          onSelect={(_, each) => choose({ pick: String(each.id) }, pick === "")} identity={`${answer.question} ${column} ${order}`} empty={answer.data ? <Nothing isOfA>Nothing is live.</Nothing> : ""} subject={subjectOfSite} />
        {site && (
          <><Separator /><aside class="picked" aria-label="The chosen site">
            <h2 title={clean(site.frame?.function ?? site.key)}>{shown(site.frame?.function ?? site.key)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
            <p><estimate.Bytes value={site.live_bytes} samples={site.samples} beside /> in {estimate.plural(site.live_blocks, "block")}{site.oldest_age_ns !== null ? `; the oldest has lived ${length(site.oldest_age_ns)}` : ""}.</p>
            <p class="actions"><button type="button" onClick={() => { addFilter(`site:${site.id}`); choose({ view: "blocks" }); }}>Its blocks</button></p>
            <FunctionActions name={site.frame?.function ?? site.key} />
            <Stack stack={site.stack ?? []} site={site.id} />
          </aside></>
        )}
      </div>
    </div>
  );
}

/** The most sites that the page shows. */
const MOST_SHOWN = 5000;

function sorted(sites: LeakSite[], column: string, order: "asc" | "desc", search: string): LeakSite[] {
  const found = [...foundRows(sites, search)];
  const value = (site: LeakSite) => ({ live: site.live_bytes, blocks: site.live_blocks, share: site.share, lifetime: site.oldest_age_ns ?? 0 } as { [column: string]: number })[column] ?? site.live_bytes;
  return found.sort((a, b) => (order === "asc" ? 1 : -1) * (value(a) - value(b)));
}

const CSV: CsvColumns<LeakSite> = {
  name: (site) => site.key, bytes: (site) => site.live_bytes, blocks: (site) => site.live_blocks, share: (site) => site.share, oldest_age_ns: (site) => site.oldest_age_ns, file: (site) => site.frame?.file, line: (site) => site.frame?.line,
};

function columnsOf(sites: LeakSite[]): Column<LeakSite>[] {
  const callers = distinctCallers(sites);
  return [
    { name: "share", title: "Share", width: "72px", numeric: true, sortable: true, cell: (site) => format.percent(site.share) },
    { name: "live", title: "Live", width: "92px", numeric: true, sortable: true, cell: (site) => <estimate.Bytes value={site.live_bytes} samples={site.samples} /> },
    ...estimate.rangeColumn<LeakSite>((site) => estimate.rangeOfBytes(site.live_bytes, site.samples)),
    { name: "blocks", title: "Blocks", width: "80px", numeric: true, sortable: true, cell: (site) => estimate.count(site.live_blocks) },
    { name: "lifetime", title: "Oldest", width: "92px", numeric: true, sortable: true, hint: "The age of the oldest block that is live", cell: (site) => (site.oldest_age_ns === null ? "" : length(site.oldest_age_ns)) },
    { name: "name", title: "Site", width: "minmax(180px, 1fr)", cell: (site) => <><RowName row={site} /> <small>{site.detail ? "" : callers(site)}</small></> },
  ];
}

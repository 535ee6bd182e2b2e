// Sites whose blocks stay: how their survivors grow, and how steadily.
import { Separator } from "../separator";
import type { Growth, GrowthSite } from "../answers";
import { useAnswer } from "../answer";
import { addFilter, choice, choose } from "../choice";
import { length, perUnit, unit } from "../clock";
import { allRows, noteOfLimit, SaveCsv, type CsvColumns } from "../csv";
import { Curve } from "../curve";
import * as estimate from "../estimate";
import * as format from "../format";
import { clean, shown } from "../names";
import { foundRows } from "../matcher";
import { about } from "../question";
import { has, source } from "../sources";
import { distinctCallers, FunctionActions, RowName, Stack } from "../stack";
import { Search } from "../search";
import { Table, type Column } from "../table";
import { Nothing, StatusLine } from "../status";
import { endOf } from "../teardown";
import { subjectOfSite } from "../subject";
import { useMemo } from "preact/hooks";

export function GrowthView() {
  const { sort, order, search, pick } = choice.value;
  const asked = about("growth", { at: null, before_teardown: choice.value.at !== "end" && has("timeline"), points: 40, limit: MOST_SHOWN });
  const answer = useAnswer<Growth>(asked, 80);
  const data = answer.data;
  const column = sort || "score";
  const sites = useMemo(() => sorted(answer.data?.sites ?? [], column, order, search), [answer.data, column, order, search]);
  const ranks = useMemo(() => ranksOf(answer.data?.sites ?? []), [answer.data]);
  const columns = useMemo(() => columnsOf(sites, ranks), [sites, ranks]);
  const picked = pick === "" ? -1 : sites.findIndex((site) => String(site.id) === pick);
  const site = sites[picked];
  const end = answer.data?.t.at(-1) ?? choice.value.to ?? source.value?.duration_ns ?? 0;
  return (
    <div class={`leaks-view${answer.isOld ? " old" : ""}`}>
      <div class="tools">
        <small>What was allocated in the window and is live at {endOf(answer.data?.t.at(-1))}, ranked by how much and how steadily it grows.</small>
        <span class="stretch" />
        {search && answer.data && <small class="in-all">{format.plural(sites.length, "site")}, {estimate.bytes(sites.reduce((sum, each) => sum + each.live_bytes, 0))} in all</small>}
        {data && data.count > data.sites.length && <small>the first {format.count(data.sites.length)} of {format.count(data.count)} sites</small>}
        <Search hint="Search functions" />
        {answer.data && <SaveCsv part="growth" columns={CSV} note={noteOfLimit(answer.data.count, "sites")} rows={async (signal) => sorted(await allRows<Growth, GrowthSite>(asked, { rows: answer.data!.sites, count: answer.data!.count }, (all) => all.sites, signal), column, order, search)} />}
        <StatusLine answer={answer} />
      </div>
      <div class="split">
        <Table label="Growth" columns={columns} count={sites.length} row={(index) => sites[index]} rowHeight={28} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
          onSelect={(_, each) => choose({ pick: String(each.id) }, pick === "")} identity={`${answer.question} ${column} ${order}`} empty={answer.data ? <Nothing isOfA={false}>Nothing that was allocated in the window is still there.</Nothing> : ""} subject={subjectOfSite} />
        {site && (
          <><Separator /><aside class="picked" aria-label="The chosen site">
            <h2 title={clean(site.frame?.function ?? site.key)}>{shown(site.frame?.function ?? site.key)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
            <Curve values={site.curve} width={300} height={70} label="Survivors over time" />
            <p><estimate.Bytes value={site.live_bytes} samples={site.samples} beside />{has("counts") && ` in ${estimate.plural(site.live_blocks, "block")}`}; {estimate.bytes(growthOf(site))} more each {perUnit().slice(1) === "s" ? "second" : unit()}{site.oldest_ns !== null ? `; the oldest has lived ${length(Math.max(0, end - site.oldest_ns))}` : ""}.</p>
            {has("blocks") && <p class="actions"><button type="button" onClick={() => { addFilter(`site:${site.id}`); choose({ view: "blocks" }); }}>Its blocks</button></p>}
            <FunctionActions name={site.frame?.function ?? site.key} />
            <Stack stack={site.stack ?? []} site={site.id} />
          </aside></>
        )}
      </div>
    </div>
  );
}

/** The most sites that the page shows. */
const MOST_SHOWN = 1000;

/** Bytes a second; of a log without times, a line. */
function growthOf(site: GrowthSite): number {
  return site.growth_per_s ?? site.growth_per_line ?? 0;
}

function sorted(sites: GrowthSite[], column: string, order: "asc" | "desc", search: string): GrowthSite[] {
  const found = [...foundRows(sites, search)];
  const value = (site: GrowthSite) => ({ live: site.live_bytes, blocks: site.live_blocks, growth: growthOf(site), steadiness: site.steadiness, score: site.score } as { [column: string]: number })[column] ?? site.score;
  return found.sort((a, b) => (order === "asc" ? 1 : -1) * (value(a) - value(b)));
}

const CSV: CsvColumns<GrowthSite> = {
  name: (site) => site.key, bytes: (site) => site.live_bytes, blocks: (site) => site.live_blocks, growth: growthOf, steadiness: (site) => site.steadiness, score: (site) => site.score, file: (site) => site.frame?.file, line: (site) => site.frame?.line,
};

/** The place of each site by its score, whatever the table is sorted by. */
function ranksOf(sites: GrowthSite[]): Map<number, number> {
  return new Map([...sites].sort((a, b) => b.score - a.score).map((site, index) => [site.id, index + 1]));
}

function columnsOf(sites: GrowthSite[], ranks: Map<number, number>): Column<GrowthSite>[] {
  const callers = distinctCallers(sites);
  return [
    { name: "curve", title: "Survivors over time", width: "136px", cell: (site) => <Curve values={site.curve} label={`From ${estimate.bytes(site.curve[0] ?? 0)} to ${estimate.bytes(site.curve[site.curve.length - 1] ?? 0)}`} /> },
    { name: "live", title: "Still there", width: "92px", numeric: true, sortable: true, cell: (site) => <estimate.Bytes value={site.live_bytes} samples={site.samples} /> },
    ...estimate.rangeColumn<GrowthSite>((site) => estimate.rangeOfBytes(site.live_bytes, site.samples)),
    ...(has("counts") ? [{ name: "blocks", title: "Blocks", width: "80px", numeric: true, sortable: true, cell: (site: GrowthSite) => estimate.count(site.live_blocks) }] : []),
    { name: "growth", title: "Growth", width: "100px", numeric: true, sortable: true, cell: (site) => `${estimate.bytes(growthOf(site))}${perUnit()}` },
    { name: "steadiness", title: "Steady", width: "72px", numeric: true, sortable: true, hint: "How straight the curve rises: 100% is a straight line", cell: (site) => format.percent(site.steadiness).replace(/\.\d/, "") },
    { name: "score", title: "Rank", width: "56px", numeric: true, sortable: true, hint: "The place by growth times steadiness: what grows most and most steadily is first", cell: (site) => `#${ranks.get(site.id)}` },
    { name: "name", title: "Site", width: "minmax(180px, 1fr)", cell: (site) => <><RowName row={site} /> <small>{site.detail ? "" : callers(site)}</small></> },
  ];
}

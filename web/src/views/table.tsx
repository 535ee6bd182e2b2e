// Rows by site, function, file, …, and who calls whom.
import { Separator } from "../separator";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Callers, Metric, Row, Rows } from "../answers";
import { useAnswer } from "../answer";
import { addFilter, choice, choose, filtersAnd, type Grouping } from "../choice";
import { everyRow, MOST_ROWS, SaveCsv, type CsvColumns } from "../csv";
import * as estimate from "../estimate";
import * as format from "../format";
import { clean, shown } from "../names";
import { foundRows, matcherOf } from "../matcher";
import { menuHandlers } from "../menu";
import { usePages } from "../pages";
import { about } from "../question";
import { SavePprof } from "../pprof";
import { saved } from "../saved";
import { Search } from "../search";
import { has, metric as shownMetric, offeredGroupings } from "../sources";
import { hasSource, placeOf, SourceLink } from "../source";
import { FunctionActions, functionOf, RowName, Stack, TypeName } from "../stack";
import { Table, type Column } from "../table";
import { Nothing, StatusLine } from "../status";
import { filterOfRow, subjectOfRow } from "../subject";

const SORTS = ["value", "self", "share", "total", "blocks", "average", "name"];
/** The most sites that are listed beside a type. */
const SITES = 20;

export function TableView() {
  const { by } = choice.value;
  return (
    <GroupedRows by={by} label="Rows">
      <label>By <select id="by" value={by} onChange={(event) => choose({ by: event.currentTarget.value as Grouping })}>{offeredGroupings().map((each) => <option value={each} key={each}>{each}</option>)}</select></label>
    </GroupedRows>
  );
}

/** The rows of a grouping, with what is known about the chosen one. The children are tools before the search. */
export function GroupedRows({ by, label, children }: { by: Grouping; label: string; children?: ComponentChildren }) {
  const { measure, sort, order, search, pick } = choice.value;
  const metric = shownMetric.value;
  // An expression that is none finds nothing, and the search field says so.
  const isWrong = matcherOf(search).problem !== null;
  const sorted = SORTS.includes(sort) ? sort : (measure === "blocks" ? "blocks" : "value");
  const question = isWrong ? null : about("rows", { metric, by, sort: sorted, order, search: search || null });
  const pages = usePages<Rows, Row>(question, (answer) => answer.rows, (answer) => answer.count, 80);
  const local = useMemo(() => (saved && pages.answer.data ? searchedAndSorted(pages.answer.data.rows, search, sorted, order) : null), [pages.answer.data, search, sorted, order]);
  const count = local ? local.length : pages.count;
  const row = (index: number) => (local ? local[index] : pages.row(index));
  const keyOfRow = (each: Row) => (each.id !== null && by === "site" ? String(each.id) : each.key);
  const picked = pick === "" ? -1 : indexOf(pick, Math.min(count, 2000), row, keyOfRow);
  const allBlocks = pages.answer.data?.total.blocks ?? 0;
  const allValue = pages.answer.data ? totalOf(pages.answer.data, metric) : 0;
  // The rows of a saved page have the share of their own value.
  const shareOf = (each: Row) => (measure === "blocks" && allBlocks > 0 ? each.blocks / allBlocks : local && sorted === "total" && each.total !== undefined && allValue > 0 ? each.total / allValue : each.share);
  const pickedRow = picked >= 0 ? row(picked) : undefined;
  const hasElements = pages.answer.data?.rows.some((each) => each.elements !== undefined) ?? false;
  return (
    <div class={`table-view${pages.answer.isOld ? " old" : ""}`}>
      <div class="tools">
        {children}
        <Search hint={`Search ${by}s`} />
        <span class="stretch" />
        {pages.answer.data && <small>{format.plural(count, "row")}, {estimate.valued(search ? foundValue(pages.answer.data, local) : totalOf(pages.answer.data, metric), metric)} in all</small>}
        {pages.answer.data && <SaveCsv part={`${metric}-by-${by}`} columns={csvColumns(metric)} rows={(signal) => local ?? (question ? everyRow<Rows, Row>(question, (answer) => answer.rows, (answer) => answer.count, MOST_ROWS, Infinity, signal) : [])} />}
        {pages.answer.data && <SavePprof />}
        <StatusLine answer={pages.answer} />
      </div>
      <div class="split">
        <Table label={label} columns={columnsOf(by, metric, shareOf, hasElements)} count={count} row={row} need={local ? undefined : pages.need} sort={sorted} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })}
          selected={picked} onSelect={(_, each) => choose({ pick: keyOfRow(each) }, pick === "")} identity={pages.answer.question ?? ""} empty={pages.answer.data || isWrong ? <Nothing /> : ""} subject={(each) => subjectOfRow(each, by)} />
        {pickedRow && <Picked row={pickedRow} by={by} />}
      </div>
    </div>
  );
}

function csvColumns(metric: Metric): CsvColumns<Row> {
  return {
    name: (row) => row.key, [format.isCount(metric) ? "allocations" : "bytes"]: (row) => row.value, total: (row) => row.total, blocks: (row) => row.blocks, share: (row) => row.share,
    ...(metric === "temporary" ? { of_its_own: temporaryPart, allocated_bytes: (row: Row) => figureOf(row, "allocated_bytes") } : {}),
    file: (row) => row.frame?.file, line: (row) => row.frame?.line,
  };
}

/** What the found rows have in all; of a saved page, those of its rows that are found. */
function foundValue(data: Rows, local: Row[] | null): number {
  return local ? local.reduce((sum, row) => sum + row.value, 0) : data.found?.value ?? 0;
}

function totalOf(data: Rows | null, metric: Metric): number {
  if (!data) return 0;
  const { total } = data;
  const value = total["value"] ?? ({ live: total.live_bytes, peak: total.peak_bytes, allocated: total.allocated_bytes, freed: total.freed_bytes } as { [metric: string]: number | undefined })[metric];
  return value ?? data.rows.reduce((sum, row) => sum + row.value, 0);
}

function indexOf(pick: string, count: number, row: (index: number) => Row | undefined, key: (row: Row) => string): number {
  for (let index = 0; index < count; index += 1) {
    const each = row(index);
    if (each && key(each) === pick) return index;
  }
  return -1;
}

function searchedAndSorted(rows: Row[], search: string, sort: string, order: "asc" | "desc"): Row[] {
  const found = foundRows(rows, search);
  const sign = order === "asc" ? 1 : -1;
  const value = (row: Row) => (sort === "blocks" ? row.blocks : sort === "total" ? row.total ?? row.value : sort === "average" ? averageOf(row) : row.value);
  return [...found].sort((a, b) => (sort === "name" ? sign * a.key.localeCompare(b.key) : sign * (value(a) - value(b))));
}

/** The mean size of a row's blocks. */
function averageOf(row: Row): number {
  return row.value / Math.max(1, row.blocks);
}

function columnsOf(by: Grouping, metric: Metric, shareOf: (row: Row) => number, hasElements: boolean): Column<Row>[] {
  const title = by[0].toUpperCase() + by.slice(1);
  const hasAverage = by === "type" && has("counts") && !format.isCount(metric);
  return [
    { name: "share", title: "Share", width: "64px", numeric: true, cell: (row) => format.percent(shareOf(row)) },
    { name: "bar", title: "", width: "80px", cell: (row) => <span class="share-bar"><i style={{ width: `${Math.min(100, shareOf(row) * 100)}%` }} /></span> },
    { name: "value", title: by === "function" ? "Self" : format.isCount(metric) ? "Allocations" : "Bytes", width: "92px", numeric: true, sortable: true, hint: by === "function" ? "Allocated by the function itself" : undefined,
      cell: (row) => <span class={estimate.isWide(row.value, estimate.rangeOfRow(row, metric)) ? "faint" : ""} title={estimate.rangeTitle(row.value, estimate.rangeOfRow(row, metric))}>{estimate.valued(row.value, metric)}</span> },
    ...estimate.rangeColumn<Row>((row) => estimate.rangeOfRow(row, metric)),
    ...(by === "function" ? [{ name: "total", title: "Total", width: "92px", numeric: true, sortable: true, hint: "With all that it calls", cell: (row: Row) => estimate.valued(row.total ?? row.value, metric) }] : []),
    ...(has("counts") ? [{ name: "blocks", title: "Blocks", width: "96px", numeric: true, sortable: true, cell: (row: Row) => estimate.count(row.blocks) }] : []),
    ...(metric === "temporary" ? TEMPORARY : []),
    ...(hasElements ? [{ name: "elements", title: "Elements", width: "84px", numeric: true, hint: "The number of elements that the blocks have room for; empty where the size of an element is not known", cell: (row: Row) => elementsOf(row) }] : []),
    ...(hasAverage ? [{ name: "average", title: "Average", width: "84px", numeric: true, sortable: true, hint: "The mean size of a block", cell: (row: Row) => estimate.bytes(Math.round(averageOf(row))) }] : []),
    { name: "name", title, width: "minmax(200px, 1fr)", sortable: true, cell: (row) => (by === "type" ? <TypeName name={row.key} /> : by === "site" ? <SiteName row={row} /> : <RowName row={row} />) },
  ];
}

/** A figure of a row; undefined where filters look at single blocks, which have no figures. */
function figureOf(row: Row, name: string): number | undefined {
  const value = (row as unknown as { [figure: string]: unknown })[name];
  return typeof value === "number" ? value : undefined;
}

/** The part of what a row allocated that was temporary. Reallocated blocks count, as in the command's "of its blocks". */
function temporaryPart(row: Row): number | undefined {
  const [allocations, reallocations] = [figureOf(row, "allocations"), figureOf(row, "reallocations")];
  const all = allocations === undefined ? 0 : allocations + (reallocations ?? 0);
  // Near the edges of a window something may be freed at once that came before it.
  return all > 0 && row.value <= all ? row.value / all : undefined;
}

const TEMPORARY: Column<Row>[] = [
  { name: "of_own", title: "Of its own", width: "84px", numeric: true, hint: "The part of its own allocations that was temporary; empty where the filters look at single blocks", cell: (row) => { const part = temporaryPart(row); return part === undefined ? "" : format.percent(part); } },
  { name: "allocated_bytes", title: "Allocated", width: "92px", numeric: true, hint: "The bytes of all that it allocated, temporary or not", cell: (row) => { const bytes = figureOf(row, "allocated_bytes"); return bytes === undefined ? "" : estimate.bytes(bytes); } },
];

function elementsOf(row: Row): string {
  return typeof row.elements === "number" ? estimate.count(row.elements) : "";
}

/** A site with its callers. If one of these is all that tells it from another row, that is not said twice. */
function SiteName({ row }: { row: Row }) {
  const callers = row.stack ? callersOf(row) : "";
  const isSaid = row.detail !== undefined && callers.includes(row.detail);
  return <><RowName row={isSaid ? { ...row, detail: undefined } : row} />{callers && <small class="callers">{callers}</small>}</>;
}

/** The three callers of the function that the row is named after. */
function callersOf(row: Row): string {
  const stack = row.stack ?? [];
  const own = stack.findIndex((frame) => functionOf(frame) === functionOf(row.frame) && frame.line === row.frame?.line);
  return stack.slice(own + 1, own + 4).map((frame) => ` ← ${functionOf(frame)}`).join("");
}

function Picked({ row, by }: { row: Row; by: Grouping }) {
  const metric = shownMetric.value;
  const filter = filterOfRow(row, by);
  return (
    <><Separator /><aside class="picked" aria-label="The chosen row">
      <h2 title={clean(row.frame?.function ?? row.key)}>{by === "type" ? clean(row.key) : shown(row.frame?.function ?? row.key)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
      <p>{estimate.valued(row.total ?? row.value, metric)}{format.isCount(metric) ? " allocations" : has("counts") ? ` in ${estimate.plural(row.total_blocks ?? row.blocks, "block")}` : ""}{row.self !== undefined && `, ${estimate.valued(row.self, metric)} by itself`}{elementsOf(row) && `, room for ${elementsOf(row)} elements`}</p>
      {filter && (
        <p class="actions">
          <button type="button" onClick={() => addFilter(filter)}>Only this {by}</button>
          {by === "type" && <button type="button" title="Flame graph of the blocks of this type" onClick={() => choose({ view: "flame", filters: filtersAnd(filter) })}>Who makes it</button>}
        </p>
      )}
      {by === "type" && filter && <Sites filter={filter} />}
      {(by === "line" || by === "file") && hasSource(placeOf(row.key)) && <p><SourceLink frame={placeOf(row.key)} own /></p>}
      {by === "function" && <FunctionDetails name={row.frame?.function ?? row.key} />}
      {by === "site" && <><FunctionActions name={row.frame?.function ?? row.key} /><Stack stack={row.stack ?? []} site={row.id} named={row.frame} /></>}
    </aside></>
  );
}

/** The largest sites whose blocks pass one more filter. */
function Sites({ filter }: { filter: string }) {
  const metric = shownMetric.value;
  const filters = filtersAnd(filter);
  const answer = useAnswer<Rows>(saved ? null : about("rows", { metric, by: "site", filter: filters, limit: SITES }));
  const data = answer.data;
  const show = (row: Row) => choose({ view: "table", by: "site", filters, pick: String(row.id) });
  return (
    <>
      <StatusLine answer={answer} />
      {data && <h3>Sites</h3>}
      {data && (
        <ul class="neighbours">
          {data.rows.map((row) => <li key={row.id} {...menuHandlers(() => subjectOfRow(row, "site"))}><span class="numeric">{estimate.valued(row.value, metric)}</span> <button type="button" class="frame" onClick={() => show(row)}><RowName row={row} /></button></li>)}
          {data.count > data.rows.length && <li><small>and {format.plural(data.count - data.rows.length, "more site", "more sites")}</small></li>}
        </ul>
      )}
    </>
  );
}

function FunctionDetails({ name }: { name: string }) {
  const answer = useAnswer<Callers>(saved ? null : about("callers", { metric: shownMetric.value, function: name }));
  const data = answer.data;
  const side = (title: string, list: { function: string; value: number }[]) => (
    <>
      <h3>{title}</h3>
      <ul class="neighbours">
        {list.map((each) => <li key={each.function} {...menuHandlers(() => ({ name: each.function, function: each.function }))}><span class="numeric">{estimate.valued(each.value, shownMetric.value)}</span> <button type="button" class="frame" title={clean(each.function)} onClick={() => choose({ pick: each.function, search: "" })}>{shown(each.function)}</button></li>)}
        {list.length === 0 && <li class="nothing">none</li>}
      </ul>
    </>
  );
  return (
    <>
      <p><FunctionActions name={name} /></p>
      <StatusLine answer={answer} />
      {data && side("Callers", data.callers)}
      {data && side("Callees", data.callees)}
    </>
  );
}

// A against B: two instants of one file, or of two.
import { Separator } from "../separator";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Change, Compare, Source } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose, DEFAULT, type Grouping, type Instant as ChosenInstant } from "../choice";
import { when } from "../clock";
import { allRows, noteOfLimit, SaveCsv, type CsvColumns } from "../csv";
import { comparedSides, filteredSource, isOlderFirst, ownId, sampledSide, sideTitles } from "../compared";
import { FlameGraph, type FlameControl, type Node, type Part } from "../flame/graph";
import { Matches, SaveSvg } from "../flame/tools";
import { NodeSource } from "./flame";
import * as estimate from "../estimate";
import * as format from "../format";
import { clean, shown } from "../names";
import { foundRows } from "../matcher";
import { naming, question } from "../question";
import { saved } from "../saved";
import { Search } from "../search";
import { has, offeredGroupings, other, source, sources, titleOf } from "../sources";
import { distinctCallers, FunctionActions, nameOf, RowName, Stack, TypeName } from "../stack";
import { Table, type Column } from "../table";
import { StatusLine } from "../status";
import { filterOfRow, subjectOfSite, type Subject } from "../subject";
import { instantOf, titleOfInstant } from "../timeline/range";

function instantFrom(text: string): ChosenInstant | null {
  if (text === "peak" || text === "rss-peak" || text === "end") return text;
  return text === "" ? null : Number(text);
}

export function CompareView() {
  const { at, b, from, to, by, filters, measure, search, sort, order, pick, node, lines } = choice.value;
  const file = source.value!;
  const second = other.value;
  const sameFile = second?.id === file.id;
  const secondHasTime = second?.has.includes("timeline") ?? false;
  const isReversed = isOlderFirst();
  const sides = comparedSides();
  // A saved page has the flame graph in bytes.
  const isInBlocks = measure === "blocks" && choice.value.compared === "flame" && !saved;
  const asked = sides && question("compare", { ...filteredSource(), ...sides, from, to, by, limit: 5000, filter: filters, ...naming(), library: choice.value.library || null, split: lines && !saved ? "line" : null, measure: isInBlocks ? "blocks" : null });
  const answer = useAnswer<Compare>(asked, 80);
  const data = answer.data;
  const column = sort || (measure === "blocks" ? "blocks" : "change");
  const rows = useMemo(() => sorted(data?.rows ?? [], column, order, search), [data, column, order, search]);
  const columns = useMemo(() => columnsOf(by, rows), [by, rows, source.value, other.value, isReversed]);
  const parts = useMemo<Part[]>(() => (data?.tree ? [{ tree: data.tree, upwards: false }] : []), [data]);
  const picked = pick === "" ? -1 : rows.findIndex((row) => pickOf(row) === pick);
  const row = rows[picked];
  const graph = choice.value.compared === "flame";
  const control = useRef<FlameControl | null>(null);
  const [match, setMatch] = useState({ place: -1, count: 0 });
  return (
    <div class={`compare-view${answer.isOld ? " old" : ""}`}>
      <div class="tools">
        {isReversed && <small>from B to A, the older file first:</small>}
        <span class="instant-a">A</span> <b>{titleOf(file)}</b> at {typeof at === "string" ? titleOfInstant(has("timeline") ? at : "end") : when(at)}{typeof at === "string" && <Instant data={isReversed ? data?.after : data?.before} file={file} />}
        <button type="button" title="Exchange A and B" onClick={exchange}>⇄</button>
        <span class="instant-b">B</span>
        <select aria-label="B's file" value={second?.id ?? ""} onChange={(event) => choose({ other: Number(event.currentTarget.value), b: null })}>
          {sources.value!.map((each) => <option value={each.id} key={each.id}>{titleOf(each)}</option>)}
        </select>
        <select aria-label="B's instant" value={b === null ? "" : String(b)} onChange={(event) => choose({ b: instantFrom(event.currentTarget.value) })}>
          <option value="">{sameFile ? "at the end" : secondHasTime ? "at its peak" : "at its end"}</option>
          {!sameFile && secondHasTime && <option value="end">at its end</option>}
          {!sameFile && b === "peak" && <option value="peak">at its peak</option>}
          {second?.rss_peak && <option value="rss-peak">at the RSS peak</option>}
          {sameFile && secondHasTime && <option value="peak">at the peak</option>}
          {sameFile && b === "end" && <option value="end">at the end</option>}
          {sameFile && <option value="0">at the start</option>}
          {typeof b === "number" && !(sameFile && b === 0) && <option value={String(b)}>at {when(b, second)}</option>}
        </select>
        {typeof b !== "number" && <Instant data={isReversed ? data?.before : data?.after} file={second} />}
        {data && <span class="change-total" data-change={data.change.bytes}>{estimate.bytes(data.before.live_bytes ?? 0, sampledSide())} → {estimate.bytes(data.after.live_bytes ?? 0, sampledSide())}, <b>{estimate.signedBytes(data.change.bytes, sampledSide())}</b>{has("counts") && `, ${estimate.signedCount(data.change.blocks, sampledSide())} blocks`}</span>}
        <span class="stretch" />
        <StatusLine answer={answer} />
      </div>
      <div class="tools">
        <span class="switch" role="group" aria-label="Show as"><button type="button" aria-pressed={!graph} onClick={() => choose({ compared: "table" })}>Table</button><button type="button" aria-pressed={graph} onClick={() => choose({ compared: "flame" })}>Flame graph</button></span>
        {!graph && <label>By <select value={by} onChange={(event) => choose({ by: event.currentTarget.value as Grouping })}>{offeredGroupings().map((each) => <option value={each} key={each}>{each}</option>)}</select></label>}
        {graph && <span class="legend"><i class="shrunk" /> shrank or went <i class="same" /> the same <i class="grown" /> grew or came</span>}
        {graph && <label title="Frames of the language's own library, and of what runs before main"><input type="checkbox" checked={choice.value.library} onChange={(event) => choose({ library: event.currentTarget.checked })} /> library frames</label>}
        {graph && <label title="A node for each line of a function"><input type="checkbox" checked={lines} onChange={(event) => choose({ lines: event.currentTarget.checked })} /> lines</label>}
        {graph && node && <button type="button" onClick={() => choose({ node: "" })}>Zoom out</button>}
        <Search hint={graph ? "Search functions" : `Search ${by}s`} onEnter={graph ? (back) => control.current?.step(back) : undefined} />
        {graph && <Matches control={control} {...match} isSearched={search !== ""} />}
        {graph && <SaveSvg control={control} />}
        {!graph && data && <SaveCsv part={`change-by-${by}`} columns={CSV} note={noteOfLimit(data.count, "rows")} rows={async (signal) => sorted(await allRows<Compare, Change>(asked, { rows: data.rows, count: data.count }, (all) => all.rows, signal), column, order, search)} />}
        {!graph && data && data.count > data.rows.length && <small>the largest {format.count(data.rows.length)} of {format.count(data.count)} changes</small>}
        {!graph && data && search && <small>{format.plural(rows.length, "row")}, {estimate.signedBytes(changeOf(rows), sampledSide())} in all</small>}
      </div>
      {second === null && <p class="nothing">Choose what B is.</p>}
      {sameFile && !has("timeline") && <p class="nothing">One instant cannot be compared with itself: choose another file for B.</p>}
      {data && !graph && (
        <div class="split">
          <Table label="Changes" columns={columns} count={rows.length} row={(index) => rows[index]} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
            onSelect={(_, each) => choose({ pick: pickOf(each) }, pick === "")} identity={`${answer.question} ${column} ${order}`} empty={search ? "Nothing matches." : "Nothing changed."} subject={(each) => subjectOfChange(each, by)} />
          {row && (
            <><Separator /><aside class="picked" aria-label="The chosen row">
              <h2 title={clean(row.frame?.function ?? row.key)}>{shown(row.frame?.function ?? row.key)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
              <p>{row.what}: {estimate.bytes(row.before, sampledSide())} → {estimate.bytes(row.after, sampledSide())} ({estimate.signedBytes(row.change, sampledSide())}){has("counts") && `; ${estimate.count(row.blocks_before, sampledSide())} → ${estimate.count(row.blocks_after, sampledSide())} blocks`}{noise(row) && `; ${noise(row)}`}</p>
              {row.frame?.function && <FunctionActions name={row.frame.function} />}
              {row.stack && <Stack stack={row.stack} />}
            </aside></>
          )}
        </div>
      )}
      {data && graph && parts.length > 0 && (
        <FlameGraph parts={parts} blocks={false} compared lines={lines} control={control} onMatch={(place, count) => setMatch((now) => (now.place === place && now.count === count ? now : { place, count }))} title="compared" zoomed={node} onZoom={(path) => choose({ node: path })} search={search} label="Flame graph of the change: arrows walk, Enter zooms, Escape zooms out"
          tip={(each) => <><b>{clean(each.name)}</b><span>{lineOf(each, isInBlocks)}</span></>}
          details={(each) => (each ? <><span class="details-name" title={clean(each.name)}>{shown(each.name)}</span><span>{lineOf(each, isInBlocks)}</span>{!each.isRoot && <NodeSource node={each} />}{!each.isRoot && <FunctionActions name={each.name} />}</> : <span>As wide as the larger of before and after.</span>)} />
      )}
    </div>
  );
}

/** A row that the chosen file does not have gets no filter: nothing there would pass. */
function subjectOfChange(row: Change, by: Grouping): Subject {
  const id = ownId(row);
  if (by === "site") return id === null ? { name: nameOf(row.frame) ?? row.key, stack: row.stack, frame: row.frame } : subjectOfSite({ ...row, id });
  if (by === "function") return { name: row.key, function: row.frame?.function ?? row.key, frame: row.frame };
  return { name: row.key, frame: row.frame, filter: filterOfRow({ key: row.key, id }, by) };
}

/** What the address calls a row: the number of a site of one file may be that of another site of the other. */
function pickOf(row: Change): string {
  return row.id_a !== null ? String(row.id_a) : row.id_b !== null ? `b${row.id_b}` : row.key;
}

/** When a peak was, as the server found it. */
function Instant({ data, file }: { data: Compare["before"] | undefined; file: Source | null }) {
  return data?.at_ns === undefined ? null : <small class="at">{when(data.at_ns, file)}</small>;
}

function exchange(): void {
  const { at, b, to, source: first } = choice.value;
  const duration = source.value?.duration_ns ?? 0;
  const file = other.value;
  if (file && file.id !== first) choose({ source: file.id, other: first, at: b ?? DEFAULT.at, b: at });
  else choose({ at: b ?? "end", b: typeof at === "string" ? at : instantOf(at, to ?? duration), other: first });
}

function lineOf({ tree, node }: Node, isInBlocks: boolean): string {
  const before = tree.node_before?.[node] ?? 0;
  const after = tree.node_after?.[node] ?? 0;
  if (isInBlocks) return `${estimate.signedCount(after - before, sampledSide())} blocks · ${estimate.count(before, sampledSide())} → ${estimate.count(after, sampledSide())}`;
  return `${estimate.signedBytes(after - before, sampledSide())} · ${estimate.bytes(before, sampledSide())} → ${estimate.bytes(after, sampledSide())}`;
}

/** The note on a change that may be none: the ranges of both sides overlap. */
function noise(row: Change): string | undefined {
  const [before, after] = [estimate.rangeOfBytes(row.before, row.samples_before, sampledSide()), estimate.rangeOfBytes(row.after, row.samples_after, sampledSide())];
  return before && after && before[0] <= after[1] && after[0] <= before[1] ? "may be no change: the 95% ranges of A and B overlap" : undefined;
}

function SideBytes({ value, samples }: { value: number; samples?: number }) {
  const range = estimate.rangeOfBytes(value, samples, sampledSide());
  return <span class={estimate.isWide(value, range) ? "faint" : ""} title={estimate.rangeTitle(value, range)}>{estimate.bytes(value, sampledSide())}</span>;
}

function changeOf(rows: Change[]): number {
  return rows.reduce((sum, row) => sum + row.change, 0);
}

function sorted(rows: Change[], column: string, order: "asc" | "desc", search: string): Change[] {
  const found = [...foundRows(rows, search)];
  const value = (row: Change) => ({ change: Math.abs(row.change), before: row.before, after: row.after, blocks: Math.abs(row.blocks_after - row.blocks_before) } as { [column: string]: number })[column] ?? 0;
  return found.sort((a, b) => (order === "asc" ? 1 : -1) * (column === "what" ? a.what.localeCompare(b.what) : value(a) - value(b)));
}

const CSV: CsvColumns<Change> = {
  name: (row) => row.key, change: (row) => row.change, before: (row) => row.before, after: (row) => row.after, blocks_before: (row) => row.blocks_before, blocks_after: (row) => row.blocks_after, what: (row) => row.what,
  file: (row) => row.frame?.file, line: (row) => row.frame?.line,
};

function columnsOf(by: string, rows: Change[]): Column<Change>[] {
  const [before, after] = sideTitles();
  const callers = by === "site" ? distinctCallers(rows) : () => "";
  return [
    { name: "change", title: "Change", width: "100px", numeric: true, sortable: true, hint: "Sorted by size, whatever the sign", cell: (row) => <b class={noise(row) ? "faint" : row.change > 0 ? "grown" : "shrunk"} title={noise(row)}>{estimate.signedBytes(row.change, sampledSide())}</b> },
    { name: "before", title: before, width: "92px", numeric: true, sortable: true, cell: (row) => <SideBytes value={row.before} samples={row.samples_before} /> },
    { name: "after", title: after, width: "92px", numeric: true, sortable: true, cell: (row) => <SideBytes value={row.after} samples={row.samples_after} /> },
    ...(has("counts") ? [{ name: "blocks", title: "Blocks", width: "92px", numeric: true, sortable: true, cell: (row: Change) => estimate.signedCount(row.blocks_after - row.blocks_before, sampledSide()) }] : []),
    { name: "what", title: "What", width: "64px", sortable: true, cell: (row) => row.what },
    { name: "name", title: by[0].toUpperCase() + by.slice(1), width: "minmax(200px, 1fr)", cell: (row) => (by === "type" ? <TypeName name={row.key} /> : <><RowName row={row} />{!row.detail && callers(row) && <small class="caller"> {callers(row)}</small>}</>) },
  ];
}

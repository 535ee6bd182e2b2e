// A against B: two instants of one file, or of two.
import { useMemo } from "preact/hooks";
import type { Change, Compare, Source } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose, type Grouping, type Instant as ChosenInstant } from "../choice";
import { when } from "../clock";
import { FlameGraph, type Node, type Part } from "../flame/graph";
import * as format from "../format";
import { clean, shown } from "../names";
import { naming, question } from "../question";
import { Search } from "../search";
import { has, offeredGroupings, other, source, sources, titleOf } from "../sources";
import { FunctionActions, RowName, Stack, TypeName } from "../stack";
import { Table, type Column } from "../table";
import { StatusLine } from "../status";
import { instantOf, titleOfInstant } from "../timeline/range";

/** "3@1200": an instant of a file, as the server reads it. */
function side(id: number, at: ChosenInstant | "end"): string {
  return `${id}@${at}`;
}

function instantFrom(text: string): ChosenInstant | null {
  if (text === "peak" || text === "rss-peak") return text;
  return text === "" ? null : Number(text);
}

export function CompareView() {
  const { at, b, from, to, by, filters, search, sort, order, pick, node } = choice.value;
  const file = source.value!;
  const second = other.value;
  const sameFile = second?.id === file.id;
  const before = side(file.id, at ?? to ?? "end");
  const secondHasTime = second?.has.includes("timeline") ?? false;
  const after = second ? side(second.id, typeof b === "string" && !secondHasTime ? "end" : b ?? (sameFile ? "peak" : "end")) : null;
  const answer = useAnswer<Compare>(after === null || (sameFile && !has("timeline")) ? null : question("compare", { a: before, b: after, from, to, by, filter: filters, ...naming(), library: choice.value.library || null }), 80);
  const data = answer.data;
  const column = sort || "change";
  const rows = useMemo(() => sorted(data?.rows ?? [], column, order, search), [data, column, order, search]);
  const parts = useMemo<Part[]>(() => (data?.tree ? [{ tree: data.tree, upwards: false }] : []), [data]);
  const picked = pick === "" ? -1 : rows.findIndex((row) => row.key === pick || String(row.id_a ?? row.id_b) === pick);
  const row = rows[picked];
  const graph = choice.value.compared === "flame";
  return (
    <div class={`compare-view${answer.waiting ? " old" : ""}`}>
      <div class="tools">
        <span class="instant-a">A</span> <b>{titleOf(file)}</b> at {typeof at === "string" ? titleOfInstant(at) : when(instantOf(at, to ?? file.duration_ns) ?? 0)}{typeof at === "string" && <Instant data={data?.before} file={file} />}
        <button type="button" title="Exchange A and B" onClick={exchange}>⇄</button>
        <span class="instant-b">B</span>
        <select aria-label="B's file" value={second?.id ?? ""} onChange={(event) => choose({ other: Number(event.currentTarget.value) === file.id ? null : Number(event.currentTarget.value), b: null })}>
          {sources.value!.map((each) => <option value={each.id} key={each.id}>{titleOf(each)}</option>)}
        </select>
        <select aria-label="B's instant" value={b === null ? "" : String(b)} onChange={(event) => choose({ b: instantFrom(event.currentTarget.value) })}>
          <option value="">{sameFile ? "at the peak" : "at its end"}</option>
          {!sameFile && secondHasTime && <option value="peak">at its peak</option>}
          {second?.rss_peak && <option value="rss-peak">at the RSS peak</option>}
          {sameFile && <option value={String(file.duration_ns)}>at the end</option>}
          {sameFile && <option value="0">at the start</option>}
          {typeof b === "number" && b !== 0 && b !== file.duration_ns && <option value={String(b)}>at {when(b, second)}</option>}
          {b === "peak" && sameFile && <option value="peak">at the peak</option>}
        </select>
        {(typeof b === "string" || (b === null && sameFile)) && <Instant data={data?.after} file={second} />}
        {data && <span class="change-total" data-change={data.change.bytes}>{format.bytes(data.before.live_bytes ?? 0)} → {format.bytes(data.after.live_bytes ?? 0)}, <b>{format.signed(format.bytes(data.change.bytes), data.change.bytes)}</b>{has("counts") && `, ${format.signed(format.count(data.change.blocks), data.change.blocks)} blocks`}</span>}
        <span class="stretch" />
        <StatusLine answer={answer} />
      </div>
      <div class="tools">
        <span class="switch" role="group" aria-label="Show as"><button type="button" aria-pressed={!graph} onClick={() => choose({ compared: "table" })}>Table</button><button type="button" aria-pressed={graph} onClick={() => choose({ compared: "flame" })}>Flame graph</button></span>
        {!graph && <label>By <select value={by} onChange={(event) => choose({ by: event.currentTarget.value as Grouping })}>{offeredGroupings().map((each) => <option value={each} key={each}>{each}</option>)}</select></label>}
        {graph && <span class="legend"><i class="shrunk" /> shrank or went <i class="same" /> the same <i class="grown" /> grew or came</span>}
        {graph && <label title="Frames of the language's own library, and of what runs before main"><input type="checkbox" checked={choice.value.library} onChange={(event) => choose({ library: event.currentTarget.checked })} /> library frames</label>}
        {graph && node && <button type="button" onClick={() => choose({ node: "" })}>Zoom out</button>}
        <Search hint={graph ? "Search functions" : `Search ${by}s`} />
      </div>
      {after === null && <p class="nothing">Choose what B is.</p>}
      {sameFile && !has("timeline") && <p class="nothing">One instant cannot be compared with itself: choose another file for B.</p>}
      {data && !graph && (
        <div class="split">
          <Table label="Changes" columns={columnsOf(by)} count={rows.length} row={(index) => rows[index]} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
            onSelect={(_, each) => choose({ pick: String(each.id_a ?? each.id_b ?? each.key) }, pick === "")} identity={`${answer.question} ${column} ${order}`} empty="Nothing changed." />
          {row && (
            <aside class="picked" aria-label="The chosen row">
              <h2 title={clean(row.frame?.function ?? row.key)}>{shown(row.frame?.function ?? row.key)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
              <p>{row.what}: {format.bytes(row.before)} → {format.bytes(row.after)} ({format.signed(format.bytes(row.change), row.change)}){has("counts") && `; ${format.count(row.blocks_before)} → ${format.count(row.blocks_after)} blocks`}</p>
              {row.frame?.function && <FunctionActions name={row.frame.function} />}
              {row.stack && <Stack stack={row.stack} />}
            </aside>
          )}
        </div>
      )}
      {data && graph && parts.length > 0 && (
        <FlameGraph parts={parts} blocks={false} compared zoomed={node} onZoom={(path) => choose({ node: path })} search={search} label="Flame graph of the change: arrows walk, Enter zooms, Escape zooms out"
          tip={(each) => <><b>{clean(each.name)}</b><span>{lineOf(each)}</span></>}
          details={(each) => (each ? <><span class="details-name" title={clean(each.name)}>{shown(each.name)}</span><span>{lineOf(each)}</span>{!each.isRoot && <FunctionActions name={each.name} />}</> : <span>As wide as the larger of before and after.</span>)} />
      )}
    </div>
  );
}

/** When a peak was, as the server found it. */
function Instant({ data, file }: { data: Compare["before"] | undefined; file: Source | null }) {
  return data?.at_ns === undefined ? null : <small class="at">{when(data.at_ns, file)}</small>;
}

function exchange(): void {
  const { at, b, to, other: second, source: first } = choice.value;
  const duration = source.value?.duration_ns ?? 0;
  if (second !== null && second !== first) choose({ source: second, other: first, at: b, b: at });
  else choose({ at: b ?? "peak", b: typeof at === "string" ? at : instantOf(at, to ?? duration) });
}

function lineOf({ tree, node }: Node): string {
  const before = tree.node_before?.[node] ?? 0;
  const after = tree.node_after?.[node] ?? 0;
  return `${format.signed(format.bytes(after - before), after - before)} · ${format.bytes(before)} → ${format.bytes(after)}`;
}

function sorted(rows: Change[], column: string, order: "asc" | "desc", search: string): Change[] {
  const wanted = search.toLowerCase();
  const found = wanted ? rows.filter((row) => row.key.toLowerCase().includes(wanted) || row.stack?.some((frame) => frame.function?.toLowerCase().includes(wanted))) : [...rows];
  const value = (row: Change) => ({ change: Math.abs(row.change), before: row.before, after: row.after, blocks: Math.abs(row.blocks_after - row.blocks_before) } as { [column: string]: number })[column] ?? 0;
  return found.sort((a, b) => (order === "asc" ? 1 : -1) * (column === "what" ? a.what.localeCompare(b.what) : value(a) - value(b)));
}

function columnsOf(by: string): Column<Change>[] {
  return [
    { name: "change", title: "Change", width: "100px", numeric: true, sortable: true, hint: "Sorted by size, whatever the sign", cell: (row) => <b class={row.change > 0 ? "grown" : "shrunk"}>{format.signed(format.bytes(row.change), row.change)}</b> },
    { name: "before", title: "A", width: "92px", numeric: true, sortable: true, cell: (row) => format.bytes(row.before) },
    { name: "after", title: "B", width: "92px", numeric: true, sortable: true, cell: (row) => format.bytes(row.after) },
    ...(has("counts") ? [{ name: "blocks", title: "Blocks", width: "92px", numeric: true, sortable: true, cell: (row: Change) => format.signed(format.count(row.blocks_after - row.blocks_before), row.blocks_after - row.blocks_before) }] : []),
    { name: "what", title: "What", width: "64px", sortable: true, cell: (row) => row.what },
    { name: "name", title: by[0].toUpperCase() + by.slice(1), width: "minmax(200px, 1fr)", cell: (row) => (by === "type" ? <TypeName name={row.key} /> : <RowName row={row} />) },
  ];
}

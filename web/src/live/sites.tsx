// The sites of a live process with their growth, as a table.
import { useMemo } from "preact/hooks";
import type { GrowingRow } from "../answers";
import { choice, choose, type Grouping } from "../choice";
import type { CsvColumns } from "../csv";
import * as format from "../format";
import { clean, shown } from "../names";
import { Separator } from "../separator";
import { distinctCallers, RowName, Stack, TypeName } from "../stack";
import { subjectOfSite } from "../subject";
import { Table, type Column } from "../table";
import { signOf, type LiveGrowth } from "./answers";

export const SORTS = ["growth", "lately", "live", "blocks", "name"];

/** `by`: what the rows are; another grouping may be chosen already. */
export function GrowingSites({ data, by }: { data: LiveGrowth; by: Grouping }) {
  const { sort, order, search, pick } = choice.value;
  const column = SORTS.includes(sort) ? sort : "growth";
  const isEstimate = data.now_look.is_estimate || data.opened_look.is_estimate;
  const columns = useMemo(() => columnsOf(by, data.rows, isEstimate), [data, by]);
  const keyOf = (row: GrowingRow) => (row.stack ? JSON.stringify(row.stack.map((frame) => [frame.function, frame.file, frame.line, frame.offset])) : row.key);
  // A site has another number in each look; it is the same if its stack is.
  const picked = pick === "" ? -1 : data.rows.findIndex((row) => hashOf(keyOf(row)) === pick);
  const row = data.rows[picked];
  return (
    <div class="split">
      <Table label="Growing sites" columns={columns} count={data.rows.length} row={(index) => data.rows[index]} rowHeight={26} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
        onSelect={(_, each) => choose({ pick: hashOf(keyOf(each)) }, pick === "")} identity={`${column} ${order} ${search} ${by}`} empty={search ? "Nothing matches." : "Nothing is live."} subject={(each) => (by === "site" || by === "function" ? { ...subjectOfSite(each), name: each.frame?.function ?? each.key } : { name: each.key })} />
      {row && (
        <><Separator /><aside class="picked" aria-label="The chosen row">
          <h2 title={clean(row.frame?.function ?? row.key)}>{shown(row.frame?.function ?? row.key)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
          <p>{signOf(isEstimate)}{format.bytes(row.live_bytes)} in {signOf(isEstimate)}{format.plural(row.live_blocks, "block")}; since opened {change(row.growth_bytes, isEstimate)} and {signOf(isEstimate)}{format.signed(format.count(row.growth_blocks), row.growth_blocks)} blocks; lately {change(row.lately_bytes, isEstimate)} and {signOf(isEstimate)}{format.signed(format.count(row.lately_blocks), row.lately_blocks)} blocks.</p>
          {row.stack && <Stack stack={row.stack} plain />}
        </aside></>
      )}
    </div>
  );
}

export const CSV: CsvColumns<GrowingRow> = {
  name: (row) => row.key, growth_bytes: (row) => row.growth_bytes, growth_blocks: (row) => row.growth_blocks, lately_bytes: (row) => row.lately_bytes, lately_blocks: (row) => row.lately_blocks, live_bytes: (row) => row.live_bytes, live_blocks: (row) => row.live_blocks,
  file: (row) => row.frame?.file, line: (row) => row.frame?.line,
};

/** A short name for a long text, which stays the same from look to look. */
function hashOf(text: string): string {
  let hash = 0;
  for (let at = 0; at < text.length; at += 1) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
  return `s${(hash >>> 0).toString(36)}`;
}

function change(bytes: number, isEstimate: boolean): string {
  return bytes === 0 ? "0 B" : `${signOf(isEstimate)}${format.signed(format.bytes(bytes), bytes)}`;
}

function columnsOf(by: string, rows: GrowingRow[], isEstimate: boolean): Column<GrowingRow>[] {
  const callers = by === "site" ? distinctCallers(rows) : () => "";
  const changed = (bytes: number) => <span class={bytes > 0 ? "grown" : bytes < 0 ? "shrunk" : ""}>{change(bytes, isEstimate)}</span>;
  return [
    { name: "growth", title: "Since opened", width: "104px", numeric: true, sortable: true, hint: "How many more bytes are live than at the first look", cell: (row) => (row.growth_bytes === 0 ? "0 B" : <b>{changed(row.growth_bytes)}</b>) },
    { name: "lately", title: "Lately", width: "92px", numeric: true, sortable: true, hint: "How many more bytes are live than some looks ago", cell: (row) => changed(row.lately_bytes) },
    { name: "live", title: "Live", width: "88px", numeric: true, sortable: true, cell: (row) => `${signOf(isEstimate)}${format.bytes(row.live_bytes)}` },
    { name: "blocks", title: "Blocks", width: "84px", numeric: true, sortable: true, cell: (row) => `${signOf(isEstimate)}${format.count(row.live_blocks)}` },
    { name: "name", title: by[0].toUpperCase() + by.slice(1), width: "minmax(180px, 1fr)", sortable: true, cell: (row) => (by === "type" ? <TypeName name={row.key} /> : <><RowName row={row} />{!row.detail && callers(row) && <small class="callers"> {callers(row)}</small>}</>) },
  ];
}

// The types of blocks. Object logs: types by what they leak, how much more of each every iteration leaves behind, and whether the log can be believed.
import { Separator } from "../separator";
import { useMemo } from "preact/hooks";
import type { Iterations, ObjectType, TypeGrowth, Types } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose } from "../choice";
import { SaveCsv, type CsvColumns } from "../csv";
import { Bars } from "../curve";
import * as format from "../format";
import { clean } from "../names";
import { matcherOf } from "../matcher";
import { question } from "../question";
import { Search } from "../search";
import { isObjectLog, source } from "../sources";
import { Table, type Column } from "../table";
import { StatusLine } from "../status";
import { GroupedRows } from "./table";

interface Row extends ObjectType {
  growth?: TypeGrowth;
}

export function TypesView() {
  return isObjectLog() ? <ObjectTypes /> : <GroupedRows by="type" label="Types" />;
}

function ObjectTypes() {
  const { sort, order, search, pick } = choice.value;
  const answer = useAnswer<Types>(source.value ? question("types", { source: source.value.id }) : null);
  const data = answer.data;
  const column = sort || "live";
  const rows = useMemo(() => (data ? sorted(rowsOf(data), column, order, search) : []), [data, column, order, search]);
  const picked = pick === "" ? -1 : rows.findIndex((row) => row.type === pick);
  const columns = useMemo(() => columnsOf(data !== null && data.iterations !== null, picked >= 0), [data, picked >= 0]);
  return (
    <div class="types-view">
      {data && <Trust data={data} />}
      <div class="tools">
        {data && <small>{format.plural(rows.length, "type")}{search && `, ${format.bytes(rows.reduce((sum, row) => sum + row.live_bytes, 0))} never dropped in all`}</small>}
        <Search hint="Search types" />
        {data && <SaveCsv part="types" columns={CSV} rows={() => rows} />}
        <StatusLine answer={answer} />
      </div>
      <div class="split">
        <Table label="Types" columns={columns} count={rows.length} row={(index) => rows[index]} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
          onSelect={(_, row) => choose({ pick: row.type }, pick === "")} identity={`${column} ${order}`} empty={data ? "No type matches." : ""} subject={(row) => ({ name: row.type, filter: `type:${row.type}` })} />
        {rows[picked] && <Picked row={rows[picked]} iterations={data!.iterations} />}
      </div>
    </div>
  );
}

function Trust({ data }: { data: Types }) {
  const { verdict, sentence, memory } = data.trust;
  return (
    <section class={`trust ${verdict === "yes" ? "fine" : "doubtful"}`} aria-label="Can it be believed?">
      <p><b>Can it be believed?</b> {clean(sentence)}</p>
      <p>{format.bytes(data.leaked_bytes_total)} never dropped{data.perfect.length ? `; ${format.plural(data.perfect.length, "type")} always dropped` : ""}.
        {memory && memory.growth_bytes !== null && ` The memory grew by ${format.bytes(memory.growth_bytes)}${memory.explained_percent === null ? "" : `; objects explain ${format.count(memory.explained_percent)}% of it`}.`}</p>
    </section>
  );
}

function Picked({ row, iterations }: { row: Row; iterations: Iterations | null }) {
  return (
    <><Separator /><aside class="picked" aria-label="The chosen type">
      <h2>{clean(row.type)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
      <p>{format.bytes(row.live_bytes)} in {format.count(row.live_objects)} of {format.count(row.allocations)} objects were never dropped.{row.growth?.sentence ? ` It ${clean(row.growth.sentence)}.` : ""}</p>
      <p class="actions"><button type="button" onClick={() => choose({ view: "flame", filters: [`type:${row.type}`] })}>Who makes it</button></p>
      {row.growth && iterations && (
        <>
          <h3>Made in each iteration and never dropped</h3>
          <table class="iterations">
            <thead><tr><th scope="col">until</th><th scope="col">objects</th><th scope="col">bytes</th><th scope="col">memory</th></tr></thead>
            <tbody>
              {row.growth.survivors.map((each, index) => {
                const end = iterations.ends[index];
                return <tr key={index}><th scope="row">{clean(end?.name ?? "")}</th><td>{format.count(each.objects)}</td><td>{format.bytes(each.bytes)}</td><td>{end && end.memory_bytes !== null ? format.bytes(end.memory_bytes) : ""}</td></tr>;
              })}
            </tbody>
          </table>
          {iterations.iterations_each > 1 && <small>Each line is {format.count(iterations.iterations_each)} iterations.</small>}
        </>
      )}
    </aside></>
  );
}

const CSV: CsvColumns<Row> = {
  type: (row) => row.type, never_dropped_bytes: (row) => row.live_bytes, never_dropped: (row) => row.live_objects, made: (row) => row.allocations, made_bytes: (row) => row.allocated_bytes, dropped: (row) => row.drops, growth: (row) => row.growth?.sentence,
};

function rowsOf(data: Types): Row[] {
  const growths = new Map(data.iterations?.types.map((each) => [each.type, each]));
  return data.types.map((type) => ({ ...type, growth: growths.get(type.type) }));
}

function sorted(rows: Row[], column: string, order: "asc" | "desc", search: string): Row[] {
  const { matches } = matcherOf(search);
  const value = (row: Row) => ({ live: row.live_bytes, objects: row.live_objects, made: row.allocations, bytes: row.allocated_bytes, dropped: row.drops, growth: row.growth?.each?.bytes ?? -1 } as { [column: string]: number })[column] ?? row.live_bytes;
  return rows.filter((row) => matches?.(row.type) ?? true).sort((a, b) => (order === "asc" ? 1 : -1) * (column === "name" ? a.type.localeCompare(b.type) : value(a) - value(b)));
}

/** What is beside the table when a type is chosen needs no columns. */
function columnsOf(iterations: boolean, narrow: boolean): Column<Row>[] {
  const columns: (Column<Row> | false)[] = [
    { name: "live", title: "Never dropped", width: "120px", numeric: true, sortable: true, cell: (row) => format.bytes(row.live_bytes) },
    { name: "objects", title: "Objects", width: "72px", numeric: true, sortable: true, cell: (row) => format.count(row.live_objects) },
    { name: "made", title: "Made", width: "72px", numeric: true, sortable: true, cell: (row) => format.count(row.allocations) },
    { name: "dropped", title: "Dropped", width: "72px", numeric: true, sortable: true, cell: (row) => format.count(row.drops) },
    !narrow && { name: "bytes", title: "Bytes made", width: "88px", numeric: true, sortable: true, cell: (row) => format.bytes(row.allocated_bytes) },
    iterations && { name: "iterations", title: "Each iteration", width: "112px", hint: "Objects that were made in each iteration and never dropped", cell: (row) => row.growth && <Bars values={row.growth.survivors.map((each) => each.objects)} label={`Left behind by each iteration: ${row.growth.survivors.map((each) => each.objects).join(", ")}`} /> },
    iterations && !narrow && { name: "growth", title: "Growth", width: "minmax(150px, 300px)", sortable: true, hint: "Sorted by the bytes that every iteration leaves behind", cell: (row) => <span class={row.growth?.pattern === "constant" ? "doubtful" : "faint"} title={clean(row.growth?.sentence ?? "")}>{clean(row.growth?.sentence ?? "")}</span> },
    { name: "name", title: "Type", width: "minmax(180px, 1fr)", sortable: true, cell: (row) => <span class="name" title={clean(row.type)}>{clean(row.type)} {row.perfect ? <small class="fine">perfect</small> : row.doubtful_objects ? <small class="doubtful">doubtful</small> : null}</span> },
  ];
  return columns.filter((column) => column !== false);
}

// Object logs: types by what they leak, and whether the log can be believed.
import { useMemo } from "preact/hooks";
import type { ObjectType, Types } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose } from "../choice";
import * as format from "../format";
import { clean } from "../names";
import { question } from "../question";
import { Search } from "../search";
import { source } from "../sources";
import { Table, type Column } from "../table";
import { Told } from "../told";

export function TypesView() {
  const { sort, order, search } = choice.value;
  const answer = useAnswer<Types>(source.value ? question("types", { source: source.value.id }) : null);
  const data = answer.data;
  const column = sort || "live";
  const types = useMemo(() => sorted(data?.types ?? [], column, order, search), [data, column, order, search]);
  const trusted = data ? data.trust.verdict ?? (String(data.trust.sentence ?? "").startsWith("Yes") ? "yes" : "no") : "";
  const memory = data?.trust.memory;
  return (
    <div class="types-view">
      {data && (
        <section class={`trust ${trusted === "yes" || trusted === "trusted" ? "fine" : "doubtful"}`} aria-label="Can it be believed?">
          <p><b>Can it be believed?</b> {clean(String(data.trust.sentence ?? ""))}</p>
          <p>{format.bytes(data.leaked_bytes_total)} never dropped{data.perfect.length ? `; ${format.count(data.perfect.length)} types drop all that they make` : ""}.
            {memory && typeof memory.growth_bytes === "number" ? ` The memory grew by ${format.bytes(memory.growth_bytes)}${typeof memory.explained_percent === "number" ? `; objects explain ${memory.explained_percent.toFixed(0)}% of it` : ""}.` : ""}</p>
        </section>
      )}
      <div class="tools">{data && <small>{format.count(types.length)} types</small>}<Search hint="Search types" /><Told answer={answer} /></div>
      <Table label="Types" columns={COLUMNS} count={types.length} row={(index) => types[index]} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} identity={`${column} ${order}`} />
    </div>
  );
}

function sorted(types: ObjectType[], column: string, order: "asc" | "desc", search: string): ObjectType[] {
  const wanted = search.toLowerCase();
  const value = (type: ObjectType) => ({ live: type.live_bytes, objects: type.live_objects, made: type.allocations, bytes: type.allocated_bytes, dropped: type.drops } as { [column: string]: number })[column] ?? type.live_bytes;
  return types.filter((type) => type.type.toLowerCase().includes(wanted)).sort((a, b) => (order === "asc" ? 1 : -1) * (column === "name" ? a.type.localeCompare(b.type) : value(a) - value(b)));
}

const COLUMNS: Column<ObjectType>[] = [
  { name: "live", title: "Never dropped", width: "116px", numeric: true, sortable: true, cell: (type) => format.bytes(type.live_bytes) },
  { name: "objects", title: "Objects", width: "92px", numeric: true, sortable: true, cell: (type) => format.count(type.live_objects) },
  { name: "made", title: "Made", width: "92px", numeric: true, sortable: true, cell: (type) => format.count(type.allocations) },
  { name: "dropped", title: "Dropped", width: "92px", numeric: true, sortable: true, cell: (type) => format.count(type.drops) },
  { name: "bytes", title: "Bytes made", width: "100px", numeric: true, sortable: true, cell: (type) => format.bytes(type.allocated_bytes) },
  { name: "verdict", title: "", width: "90px", cell: (type) => (type.perfect ? <span class="fine">perfect</span> : type.doubtful_objects ? <span class="doubtful">doubtful</span> : "") },
  { name: "name", title: "Type", width: "minmax(200px, 1fr)", sortable: true, cell: (type) => <span class="name" title={clean(type.type)}>{clean(type.type)}</span> },
];

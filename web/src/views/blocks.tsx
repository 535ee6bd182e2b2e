// Single blocks, and how large and how old they are.
import { Separator } from "../separator";
import type { Block, Blocks, Histograms } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose, setFilter } from "../choice";
import { length, when } from "../clock";
import * as format from "../format";
import { Histogram, type Bar } from "../histogram";
import { clean } from "../names";
import { usePages } from "../pages";
import { about } from "../question";
import { source } from "../sources";
import { functionOf, nameOf, ownFrame, Stack } from "../stack";
import { Table, type Column } from "../table";
import { Nothing, StatusLine } from "../status";
import type { Subject } from "../subject";

const SORTS: { [column: string]: string } = { size: "size", allocated: "time", lifetime: "lifetime", address: "address" };

export function BlocksView() {
  const { sort, order, filters, measure, pick } = choice.value;
  const column = Object.hasOwn(SORTS, sort) ? sort : "size";
  const histograms = useAnswer<Histograms>(about("histograms"), 80);
  const pages = usePages<Blocks, Block>(about("blocks", { sort: SORTS[column], order }), (answer) => answer.blocks, (answer) => answer.count, 80);
  const data = pages.answer.data;
  const named = filters.some((filter) => /^!?(live|allocated|freed|lifetime):/.test(filter));
  const picked = pick === "" ? -1 : indexOfBlock(Number(pick), pages.row, Math.min(pages.count, 1000));
  const block = picked >= 0 ? pages.row(picked) : undefined;
  const never = histograms.data?.never_freed;
  return (
    <div class={`blocks-view${pages.answer.waiting ? " old" : ""}`}>
      <div class="histograms">
        {histograms.data && <Histogram title="Size" bars={histograms.data.size} shown={format.bytes} measure={measure}
          chosen={rangeOf("size")} onChoose={(range) => setFilter("size", range && `size:${range.from}..${range.to}`)} />}
        {histograms.data && <Histogram title="Lifetime" bars={histograms.data.lifetime.map((bin): Bar => ({ from: bin.from_ns, to: bin.to_ns, blocks: bin.blocks, bytes: bin.bytes }))} shown={(value) => length(value)} measure={measure}
          chosen={rangeOf("lifetime")} onChoose={(range) => setFilter("lifetime", range && `lifetime:${range.from}..${range.to}`)} />}
        {never && (
          <section class="never">
            <h2>Never freed</h2>
            <p><b>{format.bytes(never.bytes)}</b></p>
            <p>{format.count(never.blocks)} blocks</p>
            <button type="button" aria-pressed={filters.includes("freed:never")} onClick={() => setFilter("freed", filters.includes("freed:never") ? null : "freed:never")}>{filters.includes("freed:never") ? "all blocks" : "only these"}</button>
          </section>
        )}
        <StatusLine answer={histograms} />
      </div>
      <div class="tools">
        {data && <small>{format.count(data.count)} blocks, {format.bytes(data.bytes)}{named ? "" : ", live at A"}</small>}
        <span class="stretch" />
        <StatusLine answer={pages.answer} />
      </div>
      <div class="split">
        <Table label="Blocks" columns={source.value?.tasks?.length ? COLUMNS : WITHOUT_TASKS} count={pages.count} row={pages.row} need={pages.need} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })}
          selected={picked} onSelect={(_, each) => choose({ pick: String(each.id) }, pick === "")} identity={pages.answer.question ?? ""} empty={data ? <Nothing isOfA={!named} /> : ""} subject={subjectOfBlock} />
        {block && (
          <><Separator /><aside class="picked" aria-label="The chosen block">
            <h2>{clean(block.address)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
            <p>{format.bytes(block.size)} ({format.count(block.size)}){block.usable ? `, usable ${format.bytes(block.usable)}` : ""}{block.weight && block.weight > 1 ? `, stands for ${format.count(block.weight)}` : ""}; allocated at {when(block.allocated_ns)}, {block.freed_ns === null ? "never freed" : `freed at ${when(block.freed_ns)}`}</p>
            <Stack stack={block.stack} site={block.site} />
          </aside></>
        )}
      </div>
    </div>
  );
}

/** A block's function and site. */
function subjectOfBlock(block: Block): Subject {
  const frame = ownFrame(block.stack);
  const name = nameOf(frame);
  return { name: name ?? block.address, function: name, site: block.site, stack: block.stack, frame };
}

function indexOfBlock(id: number, row: (index: number) => Block | undefined, count: number): number {
  for (let index = 0; index < count; index += 1) if (row(index)?.id === id) return index;
  return -1;
}

function rangeOf(kind: string): { from: number; to: number } | null {
  const filter = choice.value.filters.find((each) => each.startsWith(`${kind}:`));
  const match = filter && /^\w+:(\d*)\.\.(\d*)$/.exec(filter);
  return match ? { from: Number(match[1] || 0), to: match[2] ? Number(match[2]) : Infinity } : null;
}

function threadName(id: number | null): string {
  if (id === null) return "";
  const name = source.value?.threads?.find((thread) => thread.id === id)?.name;
  return name ? clean(name) : String(id);
}

const COLUMNS: Column<Block>[] = [
  { name: "address", title: "Address", width: "124px", sortable: true, cell: (block) => <code>{clean(block.address)}</code> },
  { name: "size", title: "Size", width: "88px", numeric: true, sortable: true, cell: (block) => <span title={`${format.count(block.size)} bytes`}>{format.bytes(block.size)}</span> },
  { name: "allocated", title: "Allocated", width: "84px", numeric: true, sortable: true, cell: (block) => when(block.allocated_ns) },
  { name: "lifetime", title: "Lived", width: "84px", numeric: true, sortable: true, cell: (block) => (block.lifetime_ns === null ? <span class="faint">never freed</span> : length(block.lifetime_ns)) },
  { name: "thread", title: "Thread", width: "92px", cell: (block) => threadName(block.thread) },
  { name: "heap", title: "Heap", width: "70px", cell: (block) => clean(block.heap ?? "") },
  { name: "task", title: "Task", width: "110px", cell: (block) => clean(block.task ?? "") },
  { name: "site", title: "Allocated by", width: "minmax(160px, 1fr)", cell: (block) => {
    const frame = ownFrame(block.stack);
    return <span class="name" title={block.stack.map(functionOf).join("\n")}>{block.type && <b>{clean(block.type)} </b>}{frame ? functionOf(frame) : ""} {frame && <small>{clean(format.place(frame.file, frame.line))}</small>}</span>;
  } },
];
const WITHOUT_TASKS = COLUMNS.filter((column) => column.name !== "task");

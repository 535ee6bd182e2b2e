// Single blocks, and how large and how old they are.
import { Separator } from "../separator";
import type { Block, Blocks, Frame, Histograms } from "../answers";
import { useAnswer } from "../answer";
import { BlockPanel, resolutionOf, threadName } from "../biography";
import { choice, choose, setFilter } from "../choice";
import { everyRow, SaveCsv, type CsvColumns } from "../csv";
import { instant, length, when } from "../clock";
import * as estimate from "../estimate";
import * as format from "../format";
import { Histogram, type Bar } from "../histogram";
import { foundRows, matcherOf } from "../matcher";
import { clean } from "../names";
import { usePages } from "../pages";
import { about } from "../question";
import { saved } from "../saved";
import { Search } from "../search";
import { has, source } from "../sources";
import { functionOf, nameOf } from "../stack";
import { Table, type Column } from "../table";
import { Nothing, StatusLine } from "../status";
import type { Subject } from "../subject";
import { instantOf } from "../timeline/range";

const SORTS: { [column: string]: string } = { size: "size", allocated: "time", lifetime: "lifetime", address: "address" };
/** The filter that names all blocks, whenever they lived. */
const EVER = "allocated:0..";
/** A population that the filters name themselves. */
const NAMES_BLOCKS = /^(live|allocated):/;

export function BlocksView() {
  const { sort, order, filters, measure, pick, search, listed, at } = choice.value;
  const column = Object.hasOwn(SORTS, sort) ? sort : "size";
  const isWrong = matcherOf(search).problem !== null;
  const hasLives = has("timeline");
  const isNamed = filters.some((filter) => NAMES_BLOCKS.test(filter));
  const isEver = listed === "ever" && hasLives && !saved && !isNamed;
  const all = isEver ? { filter: [...filters, EVER] } : {};
  const histograms = useAnswer<Histograms>(about("histograms", all), 80);
  const question = isWrong ? null : about("blocks", { sort: SORTS[column], order, search: search || null, ...all });
  const pages = usePages<Blocks, Block>(question, (answer) => answer.blocks, (answer) => answer.count, 80);
  const data = pages.answer.data;
  // A saved page has the first rows, and searches them itself.
  const local = saved && data && search ? foundRows(data.blocks.map((block) => ({ ...block, key: block.type ?? "", stack: block.stack })), search) : null;
  const row = (index: number): Block | undefined => (local ? local[index] : pages.row(index));
  const count = local ? local.length : pages.count;
  const picked = pick === "" ? -1 : indexOfBlock(Number(pick), row, Math.min(count, 1000));
  const never = histograms.data?.never_freed;
  const file = source.value;
  const lasts = (file?.duration_ns ?? Infinity) - (file?.begins_ns ?? 0);
  const resolution = resolutionOf((data?.blocks ?? []).map((block) => block.allocated_ns));
  return (
    <div class={`blocks-view${pages.answer.isOld ? " old" : ""}`}>
      <div class="histograms">
        {histograms.data && <Histogram title="Size" bars={histograms.data.size} shown={format.bytes} measure={measure}
          chosen={rangeOf("size")} onChoose={(range) => setFilter("size", range && `size:${range.from}..${range.to}`)} />}
        {hasLives && histograms.data && <Histogram title="Lifetime" limit={lasts} bars={histograms.data.lifetime.map((bin): Bar => ({ from: bin.from_ns, to: bin.to_ns, blocks: bin.blocks, bytes: bin.bytes }))} shown={(value) => length(value)} measure={measure}
          chosen={rangeOf("lifetime")} onChoose={(range) => setFilter("lifetime", range && `lifetime:${range.from}..${range.to}`)} />}
        {hasLives && never && (
          <section class="never">
            <h2>Never freed</h2>
            <p><b>{estimate.bytes(never.bytes)}</b></p>
            <p>{estimate.plural(never.blocks, "block")}</p>
            <button type="button" aria-pressed={filters.includes("freed:never")} onClick={() => setFilter("freed", filters.includes("freed:never") ? null : "freed:never")}>{filters.includes("freed:never") ? "all blocks" : "only these"}</button>
          </section>
        )}
        <StatusLine answer={histograms} />
      </div>
      <div class="tools">
        {hasLives && !saved && (
          <span class="which" role="group" aria-label="Which blocks">
            <button type="button" aria-pressed={isEver} disabled={isNamed} onClick={() => choose({ listed: "ever" })} title="All blocks that were ever allocated, the largest first">Largest ever</button>
            <button type="button" aria-pressed={!isEver && at !== "peak"} disabled={isNamed} onClick={() => choose({ listed: "live", at: at === "peak" ? instantOf("peak", 0) ?? "end" : at })} title="The blocks that are live at A">Live at A</button>
            <button type="button" aria-pressed={!isEver && at === "peak"} disabled={isNamed} onClick={() => choose({ listed: "live", at: "peak" })} title="The blocks that are live when there is most memory">Live at the peak</button>
          </span>
        )}
        <Search hint="Search blocks" />
        {data && (local
          ? <small data-exact>{format.plural(count, "block")} found</small>
          : <small>{estimate.isEstimated() ? <>{format.plural(data.count, "sampled block")}, which stand for {estimate.plural(data.estimated_blocks, "block")}</> : format.plural(data.count, "block")}, <estimate.Bytes value={data.bytes} />{isNamed || !hasLives ? "" : isEver ? ", ever" : ", live at A"}</small>)}
        <span class="stretch" />
        {data && <SaveCsv part="blocks" columns={CSV} note={data.count > MOST_SAVED ? `Save the first ${format.count(MOST_SAVED)} of ${format.count(data.count)} blocks` : undefined}
          rows={(signal) => (saved || !question ? data.blocks : everyRow<Blocks, Block>(question, (answer) => answer.blocks, (answer) => answer.count, MOST_BLOCKS, MOST_SAVED, signal))} />}
        <StatusLine answer={pages.answer} />
      </div>
      <div class="split">
        <Table label="Blocks" columns={columnsOf(resolution, hasLives)} count={count} row={row} need={local ? undefined : pages.need} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })}
          selected={picked} onSelect={(_, each) => choose({ pick: String(each.id) }, pick === "")} identity={pages.answer.question ?? ""} empty={isWrong ? "" : data ? <Nothing isOfA={!isNamed && !isEver} /> : ""} subject={subjectOfBlock} />
        {/^\d+$/.test(pick) && <><Separator /><BlockPanel id={Number(pick)} row={picked >= 0 ? row(picked) : undefined} /></>}
      </div>
    </div>
  );
}

/** The most blocks in one answer of the server, and in a file. */
const MOST_BLOCKS = 1000;
const MOST_SAVED = 20_000;

const CSV: CsvColumns<Block> = {
  address: (block) => block.address, size: (block) => block.size, usable: (block) => block.usable, allocated_ns: (block) => block.allocated_ns, freed_ns: (block) => block.freed_ns, lifetime_ns: (block) => block.lifetime_ns, thread: (block) => block.thread,
  heap: (block) => block.heap, type: (block) => block.type, stands_for: (block) => block.weight ?? 1, allocated_by: (block) => nameOf(block.frame ?? undefined), file: (block) => block.frame?.file, line: (block) => block.frame?.line,
};

/** A block's function and site. */
function subjectOfBlock(block: Block): Subject {
  const { frame } = block;
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

/** The callers of the function that names a block. */
function callersOf({ stack, frame }: Block): Frame[] {
  const own = stack.findIndex((each) => functionOf(each) === functionOf(frame) && each.line === frame?.line);
  return own < 0 ? [] : stack.slice(own + 1, own + 4);
}

function columnsOf(resolution: number, hasLives: boolean): Column<Block>[] {
  const columns: (Column<Block> | false)[] = [
    { name: "address", title: "Address", width: "124px", sortable: true, cell: (block) => <code>{clean(block.address)}</code> },
    { name: "size", title: "Size", width: "88px", numeric: true, sortable: true, cell: (block) => <span data-exact title={`${format.count(block.size)} bytes`}>{format.bytes(block.size)}</span> },
    { name: "allocated", title: "Allocated", width: "104px", numeric: true, sortable: true, cell: (block) => <span title={when(block.allocated_ns)}>{instant(block.allocated_ns, resolution)}</span> },
    hasLives && { name: "lifetime", title: "Lived", width: "84px", numeric: true, sortable: true, cell: (block) => (block.lifetime_ns === null ? <span class="faint">never freed</span> : length(block.lifetime_ns)) },
    { name: "thread", title: "Thread", width: "92px", cell: (block) => threadName(block.thread) },
    { name: "heap", title: "Heap", width: "70px", cell: (block) => clean(block.heap ?? "") },
    (source.value?.tasks?.length ?? 0) > 0 && { name: "task", title: "Task", width: "110px", cell: (block) => clean(block.task ?? "") },
    { name: "site", title: "Allocated by", width: "minmax(200px, 1fr)", cell: (block) => {
      const { frame, stack, type } = block;
      return <><span class="name" title={stack.map(functionOf).join("\n")}>{type && <b>{clean(type)} </b>}{frame ? functionOf(frame) : ""} {frame && <small>{clean(format.place(frame.file, frame.line))}</small>}</span><small class="callers">{callersOf(block).map((caller) => ` ← ${functionOf(caller)}`).join("")}</small></>;
    } },
  ];
  return columns.filter((column) => column !== false);
}

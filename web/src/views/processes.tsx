// Several processes on one time axis: their total, stacked, and each of them in a lane of its own, as a tree.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Processes, ProcessesHeld, RecordedProcess } from "../answers";
import { useAnswer } from "../answer";
import { choice, choose } from "../choice";
import { SaveCsv, type CsvColumns } from "../csv";
import * as format from "../format";
import { copyText } from "../link";
import { matcherOf } from "../matcher";
import { clean } from "../names";
import { instantOfTree, openProcess, spanOf } from "../processes/axis";
import { columnsOf } from "../processes/columns";
import { StackedTotals, type StackedParts } from "../processes/stack";
import { question } from "../question";
import { saved } from "../saved";
import { Search } from "../search";
import { StatusLine } from "../status";
import type { Subject } from "../subject";
import { Table } from "../table";
import "../processes/processes.css";

export function ProcessesView() {
  const { sort, order, search, pick, tree_from, tree_to, tree_at } = choice.value;
  const width = useWidth();
  const whole = useAnswer<Processes>(question("processes", {}));
  const isZoomed = tree_from !== null || tree_to !== null;
  const part = useAnswer<Processes>(isZoomed ? question("processes", { from: tree_from, to: tree_to }) : null, 80);
  const shown = isZoomed ? part : whole;
  const isHighest = whole.data?.highest?.at_ns === tree_at;
  const isOther = tree_at !== null && !isHighest;
  const other = useAnswer<ProcessesHeld>(isOther ? question("processes/held", { at: tree_at }) : null, 80);
  const at = instantOfTree(whole.data);
  const held = useMemo(() => (isOther ? heldThen(other.data) : heldAtHighest(whole.data)), [whole.data, other.data, isOther]);
  const chosen = isOther ? other.data?.total_bytes ?? null : whole.data?.highest?.bytes ?? 0;
  const processes = useMemo(() => arranged(whole.data?.processes ?? [], held, sort, order, search), [whole.data, held, sort, order, search]);
  const columns = useMemo(() => columnsOf(whole.data, shown.data, held, sort === "" && search === "", width), [whole.data, shown.data, held, at, sort, search, width]);
  const picked = pick === "" ? -1 : processes.findIndex((process) => String(process.id) === pick);
  const enter = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || picked < 0 || (event.target as HTMLElement).closest("button, input")) return;
    event.preventDefault();
    void openProcess(processes[picked], at);
  };
  return (
    <div class={`processes-view${shown.isOld || other.isOld ? " old" : ""}`} onKeyDown={enter}>
      <div class="tools">
        {whole.data && <Headline answer={whole.data} />}
        <span class="stretch" />
        {search && <small class="in-all">{format.plural(processes.length, "process", "processes")}</small>}
        {sort !== "" && <button type="button" class="quiet" onClick={() => choose({ sort: "" })}>as a tree</button>}
        <Search hint="Search processes" />
        {whole.data && <SaveCsv of="processes" part="table" columns={csvOfProcesses(held)} rows={() => processes} />}
        <StatusLine answer={[whole, shown, other].find((each) => each.problem !== null || each.waiting) ?? shown} />
      </div>
      {shown.data && whole.data && <StackedTotals whole={whole.data} shown={shown.data} chosen={chosen} parts={partsOf(whole.data)} />}
      {whole.data && <Notes answer={whole.data} />}
      <Table label="Processes" columns={columns} count={processes.length} row={(index) => processes[index]} rowHeight={30} sort={sort} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
        onSelect={(_, each) => choose({ pick: String(each.id) }, pick === "")} identity={`${whole.question} ${sort} ${order} ${search}`} empty={whole.data ? (search ? "Nothing matches." : "No process.") : ""} subject={(each) => subjectOfProcess(each, at)} />
    </div>
  );
}

/** What the menu of a process is about. */
function subjectOfProcess(process: RecordedProcess, at: number): Subject {
  const { command } = process;
  return {
    name: process.name || "(unnamed)",
    actions: [
      { name: "Open", run: () => void openProcess(process, at) },
      { name: "Open at its peak", run: () => void openProcess(process, process.peak_ns) },
      { name: "Put the instant at its peak", run: () => choose({ tree_at: process.peak_ns }) },
      ...(command ? [{ name: "Copy command", run: () => void copyText(command, "The command:") }] : []),
    ],
  };
}

function csvOfProcesses(held: Held): CsvColumns<RecordedProcess> {
  return {
    name: (process) => process.name, pid: (process) => process.pid, parent_pid: (process) => process.parent_pid, relation: (process) => process.relation, start_ns: (process) => process.start_ns, duration_ns: (process) => process.duration_ns,
    peak_bytes: (process) => process.peak_bytes, held_bytes: (process) => held?.get(process.id) ?? 0, allocated_bytes: (process) => process.allocated_bytes, live_at_end_bytes: (process) => process.live_at_end_bytes, rss_peak_bytes: (process) => process.rss_peak?.bytes,
    command: (process) => process.command, path: (process) => process.path,
  };
}

/** The processes as parts of the total. */
function partsOf(answer: Processes): StackedParts {
  const processes = new Map(answer.processes.map((process) => [process.id, process]));
  return {
    label: "Live memory of all processes", fileName: "processes", slider: "Instant of all processes", of: "all processes", openTitle: "Open this process", count: answer.processes.length, instant: format.instant,
    names: new Map(answer.processes.map(({ id, name, pid }) => [id, { name, detail: String(pid) }])),
    open: (id, at) => void openProcess(processes.get(id)!, at),
  };
}

/** The width of the window: a narrow one has room for few columns. */
function useWidth(): number {
  const [width, setWidth] = useState(window.innerWidth);
  useEffect(() => {
    const read = () => setWidth(window.innerWidth);
    window.addEventListener("resize", read);
    return () => window.removeEventListener("resize", read);
  }, []);
  return width;
}

/** How many processes there are, and where they held the most together. */
function Headline({ answer }: { answer: Processes }) {
  const { highest, processes } = answer;
  const holders = processes.filter((process) => process.held_bytes > 0).length;
  const sign = processes.some((process) => process.estimated) ? "~" : "";
  return (
    <p class="processes-headline">
      {format.plural(processes.length, "process", "processes")} in {format.duration(answer.end_ns)}.
      {highest && <> Together they held the most, <b data-figure="highest" data-value={highest.bytes}>{sign}{format.bytes(highest.bytes)}</b>, at{" "}
        <button type="button" class="link" title="Show this instant" onClick={() => choose({ tree_at: null })}>{format.instant(highest.at_ns, spanOf(answer) / 1000)}</button> in {format.plural(holders, "process", "processes")}{highest.at_most_bytes > highest.bytes && <> (no instant has more than {sign}{format.bytes(highest.at_most_bytes)})</>}.</>}
    </p>
  );
}

/** What a reader must know to understand the figures. */
function Notes({ answer }: { answer: Processes }) {
  const notes: string[] = [];
  if (answer.processes.some((process) => process.relation === "fork")) notes.push("What a forked process inherited is counted in its parent only. RSS counts pages that processes share in each of them.");
  if (answer.approximate) notes.push("There are too many events to read them all: curves marked ≈ have one true value for each event block, and a bound within it. Zoom in for exact ones.");
  if (answer.left_out > 0) notes.push(`${format.plural(answer.left_out, "smaller process", "smaller processes")} left out of all figures.`);
  for (const note of answer.notes ?? []) notes.push(`${clean(note).replace(/\.$/, "")}.`);
  for (const problem of answer.problems.slice(0, 3)) notes.push(`${clean(problem.path)}: ${clean(problem.what)}`);
  if (answer.problems.length > 3) notes.push(`${format.count(answer.problems.length - 3)} more files cannot be shown.`);
  if (saved) notes.push("This saved page has the whole time, the instant of the highest total and the one at which it was saved, and the other views of the largest processes.");
  return notes.length ? <p class="processes-notes"><small>{notes.join(" ")}</small></p> : null;
}

/** What each process held at an instant; null while that is not known. */
type Held = Map<number, number> | null;

function heldThen(answer: ProcessesHeld | null): Held {
  return answer && new Map(answer.held.map((each) => [each.id, each.bytes]));
}

function heldAtHighest(answer: Processes | null): Held {
  return answer && new Map(answer.processes.map((process) => [process.id, process.held_bytes]));
}

/** The processes that a search finds, as a tree or sorted by a column. */
function arranged(processes: RecordedProcess[], held: Held, sort: string, order: "asc" | "desc", search: string): RecordedProcess[] {
  const { matches } = matcherOf(search);
  const found = matches ? processes.filter((process) => matches(process.name) || matches(process.command ?? "") || matches(String(process.pid)) || matches(process.path)) : processes;
  const values: { [column: string]: (process: RecordedProcess) => number | string } = {
    pid: (process) => process.pid, name: (process) => process.name, start: (process) => process.start_ns, lifetime: (process) => process.duration_ns, peak: (process) => process.peak_bytes,
    held: (process) => held?.get(process.id) ?? 0, allocated: (process) => process.allocated_bytes, live: (process) => process.live_at_end_bytes, rss: (process) => process.rss_peak?.bytes ?? 0,
  };
  const value = values[sort];
  if (!value) return found;
  const compared = (a: RecordedProcess, b: RecordedProcess) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
  return [...found].sort((a, b) => (order === "asc" ? 1 : -1) * compared(a, b));
}

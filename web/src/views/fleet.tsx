// A fleet: what all processes hold over time, by service, version, region or host; which sites hold it, which leak, which grew between two versions, and which processes grow.
import { useEffect, useMemo, useState } from "preact/hooks";
import { useAnswer } from "../answer";
import { choice, choose, FLEET_PARTS, LABELS, type FleetPart, type Label } from "../choice";
import { useActions, type Act } from "../actions";
import { SaveCsv } from "../csv";
import { rowsOf, text, type FleetRow, type FleetTable, type FleetTimeline } from "../fleet/answers";
import { chosenSlot, FleetChart } from "../fleet/chart";
import { columnsOf, csvOf } from "../fleet/columns";
import { aboutFleet, openComparison, openFlame, openProcess } from "../fleet/question";
import { chooseValue, shownValue, valuesOf, Where } from "../fleet/where";
import * as format from "../format";
import { matcherOf } from "../matcher";
import { clean, shown } from "../names";
import { question } from "../question";
import { saved } from "../saved";
import { Search } from "../search";
import { Separator } from "../separator";
import { fleetSource } from "../sources";
import { StatusLine } from "../status";
import type { Subject } from "../subject";
import { Table } from "../table";
import "../processes/processes.css";
import "../fleet/fleet.css";

const TITLES: { [part in FleetPart]: string } = { sites: "Sites", leaks: "Leaks", growth: "Growth", processes: "Processes" };

export function FleetView() {
  const { label, fleet: part, tree_from, tree_to, where, sort, order, search, pick } = choice.value;
  const lake = fleetSource.value!;
  // All processes, for the lists of labels; all of the time, for the axis; and what is shown.
  const all = useAnswer<FleetTimeline>(question("fleet/timeline", { source: lake.id, by: label }));
  const isPart = where.length > 0;
  const isZoomed = tree_from !== null || tree_to !== null;
  const chosen = useAnswer<FleetTimeline>(isPart ? aboutFleet("fleet/timeline", { by: label, since: null, until: null }) : null);
  const zoomed = useAnswer<FleetTimeline>(isZoomed ? aboutFleet("fleet/timeline", { by: label }) : null, 80);
  const whole = isPart ? chosen : all;
  const shownAnswer = isZoomed ? zoomed : whole;
  const data = shownAnswer.data;
  const slot = data && data.slots.length > 0 ? chosenSlot(data) : null;
  const [before, after] = comparedValues(where.some((each) => each.startsWith(`${choice.value.between}=`)) ? all.data : whole.data);
  const table = useAnswer<FleetTable>(slot === null ? null : tableQuestion(part, slot, before, after), 80);
  const width = useWidth();
  const rows = useMemo(() => arranged(rowsOf(table.data), sort, order, search), [table.data, sort, order, search]);
  const columns = useMemo(() => columnsOf(part, table.data, width), [part, table.data, width]);
  const picked = pick === "" ? -1 : rows.findIndex((row) => keyOf(row) === pick);
  const [action, act] = useActions();
  const subject = (row: FleetRow): Subject => subjectOf(part, row, () => void act((running) => openProcess(text(row, "process_id"), slot!, running)));
  const enter = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || picked < 0 || part !== "processes" || saved || (event.target as HTMLElement).closest("button, input, select")) return;
    event.preventDefault();
    void act((running) => openProcess(text(rows[picked], "process_id"), slot!, running));
  };
  return (
    <div class={`fleet-view${shownAnswer.isOld || table.isOld ? " old" : ""}`} onKeyDown={enter}>
      <div class="tools">
        {data && <Headline answer={data} />}
        <span class="stretch" />
        <StatusLine answer={all.problem !== null || all.waiting ? all : whole.problem !== null || whole.waiting ? whole : shownAnswer} />
      </div>
      <div class="tools">
        <label>Stack by <select id="fleet-by" value={label} onChange={(event) => choose({ label: event.currentTarget.value as Label })}>{LABELS.map((each) => <option value={each} key={each}>{each}</option>)}</select></label>
        <Where all={all.data} />
        <span class="stretch" />
        {slot !== null && !saved && <button type="button" class="primary" title="Who holds the memory of these processes at this slot" onClick={() => void act((running) => openFlame(slot, whole.data!, running))}>Flame graph at {format.utc(slot, 60).slice(11)}</button>}
        <StatusLine answer={action} />
      </div>
      {(data?.left_out.length ?? 0) > 0 && <p class="processes-notes"><small class="problem">{format.plural(data!.left_out.length, "file")} of the lake could not be used, and {data!.left_out.length === 1 ? "is" : "are"} in no figure: {data!.left_out.slice(0, 3).map((line) => clean(line)).join("; ")}{data!.left_out.length > 3 && "; …"}</small></p>}
      {data && whole.data && data.slots.length > 0 && <FleetChart whole={whole.data} shown={data} />}
      {data && data.slots.length === 0 && <p class="nothing">No process of the fleet has these labels in this time. {(isPart || isZoomed) && <button type="button" class="quiet" onClick={() => choose({ where: [], tree_from: null, tree_to: null })}>Show all</button>}</p>}
      <div class="tools">
        <div class="switch" role="group" aria-label="Part of the fleet">
          {FLEET_PARTS.map((each) => <button type="button" key={each} aria-pressed={each === part} onClick={() => choose({ fleet: each })}>{TITLES[each]}</button>)}
        </div>
        {part === "growth" && <Between all={all.data} before={before} after={after} act={act} />}
        {slot !== null && <small>{aboutPart(part, slot, before, after)}</small>}
        <span class="stretch" />
        {search && <small class="in-all">{format.plural(rows.length, "row")}</small>}
        <Search hint={part === "processes" ? "Search processes" : "Search functions"} />
        {table.data && <SaveCsv part={`fleet-${part}`} columns={csvOf(table.data)} rows={() => rows} />}
        <StatusLine answer={table} />
      </div>
      <div class="split">
        {columns.length > 0 && <Table label={TITLES[part]} columns={columns} count={rows.length} row={(index) => rows[index]} rowHeight={28} sort={sort} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} selected={picked}
          onSelect={(_, row) => choose({ pick: keyOf(row) }, pick === "")} identity={`${table.question} ${sort} ${order} ${search}`} empty={table.data ? emptyWords(part, search) : ""} subject={subject} />}
        {columns.length > 0 && picked >= 0 && <><Separator /><Picked part={part} row={rows[picked]} act={act} slot={slot!} whole={whole.data!} /></>}
      </div>
    </div>
  );
}

function useWidth(): number {
  const [width, setWidth] = useState(window.innerWidth);
  useEffect(() => {
    const read = () => setWidth(window.innerWidth);
    window.addEventListener("resize", read);
    return () => window.removeEventListener("resize", read);
  }, []);
  return width;
}

function tableQuestion(part: FleetPart, slot: number, before: string | null, after: string | null) {
  if (part === "sites") return aboutFleet("fleet/sites", { slot, since: null, until: null });
  if (part !== "growth") return aboutFleet(`fleet/${part}`);
  const { where, between } = choice.value;
  return before === null || after === null ? null : aboutFleet("fleet/growth", { where: where.filter((each) => !each.startsWith(`${between}=`)), between, a: `=${before}`, b: `=${after}` });
}

/** The two values whose processes are compared: those that were chosen, or the one that was seen first most recently, and the one before it among the same services. */
function comparedValues(all: FleetTimeline | null): [string | null, string | null] {
  const { between, before, after } = choice.value;
  const [latest] = valuesOf(all, between);
  const labels = all?.labels ?? [];
  const services = new Set(labels.filter((each) => between !== "host" && each[between] === latest).map(({ service }) => service));
  const related = between === "service" ? labels : labels.filter(({ service }) => services.has(service));
  const [, previous] = all === null ? [] : valuesOf({ ...all, labels: related }, between);
  return [before === "" ? previous ?? null : before.slice(1), after === "" ? latest ?? null : after.slice(1)];
}

function Between({ all, before, after, act }: { all: FleetTimeline | null; before: string | null; after: string | null; act: Act }) {
  const { between } = choice.value;
  const values = valuesOf(all, between);
  const list = (title: string, value: string | null, name: "before" | "after") => (
    <label>{title} <select class="fleet-label" value={value === null ? "" : `=${value}`} onChange={(event) => choose({ [name]: event.currentTarget.value })}>
      {value === null && <option value="">—</option>}
      {(value === null || values.includes(value) ? values : [value, ...values]).map((each) => <option value={`=${each}`} key={each}>{shownValue(each)}</option>)}
    </select></label>
  );
  return (
    <>
      <label>of <select value={between} onChange={(event) => choose({ between: event.currentTarget.value as Label })}>{LABELS.filter((each) => each !== "host").map((each) => <option value={each} key={each}>{each}</option>)}</select></label>
      {list("from", before, "before")}
      {list("to", after, "after")}
      {before !== null && after !== null && before !== after && !saved && <button type="button" title="What grew and shrank, as a flame graph of all their processes" onClick={() => void act((running) => openComparison(between, before, after, running))}>Compare</button>}
    </>
  );
}

/** What the table below says, in words. */
function aboutPart(part: FleetPart, slot: number, before: string | null, after: string | null): string {
  switch (part) {
    case "sites": return `Live at ${format.utc(slot, 60)} UTC, in all processes together.`;
    case "leaks": return "Sites whose blocks grow in a straight line, those on the most hosts first.";
    case "growth": return before === null || after === null ? "There is only one." : `Mean bytes of a process and slot.`;
    case "processes": return "Slope of live bytes over the shown time, the steepest first.";
  }
}

function emptyWords(part: FleetPart, search: string): string {
  if (search) return "Nothing matches.";
  return { sites: "Nothing is live at this slot.", leaks: "No site grows in a straight line (r² of 0.9, 60 blocks an hour or more) in a process that was seen in at least 30 slots.", growth: "No site is in both.", processes: "No process was seen long enough for a slope." }[part];
}

/** How many processes there are, and when they held the most. */
function Headline({ answer }: { answer: FleetTimeline }) {
  const { slots, total_bytes, total_estimated, processes, hosts, peak_slot, labels, estimated } = answer;
  if (slots.length === 0) return <p class="fleet-headline">No processes.</p>;
  const peak = slots.indexOf(peak_slot);
  const last = slots.length - 1;
  const services = new Set(labels.map(({ service }) => service)).size;
  return (
    <p class="fleet-headline">
      {format.plural(services, "service")}, <b data-figure="fleet-processes" data-value={processes[last]}>{format.plural(processes[last], "process", "processes")}</b> on {format.plural(hosts[last], "host")} at the latest slot ({format.utc(slots[last], 60)} UTC) {processes[last] === 1 ? "holds" : "hold"} <b data-figure="fleet-latest" data-value={total_bytes[last]}>{total_estimated[last] ? "~" : ""}{format.bytes(total_bytes[last])}</b>.
      {" "}Most, <b data-figure="fleet-peak" data-value={total_bytes[peak]}>{total_estimated[peak] ? "~" : ""}{format.bytes(total_bytes[peak])}</b>, at <button type="button" class="link" title="Show this slot" onClick={() => choose({ tree_at: null })}>{format.utc(peak_slot, 60)}</button>.{estimated && <span title="Some of these processes count only samples of their blocks. Every figure that contains one of them begins with ~."> ~ marks estimates.</span>}
    </p>
  );
}

/** What identifies a row of any part. */
function keyOf(row: FleetRow): string {
  return ["process_id", "site_id", "service", "host"].map((name) => text(row, name)).join(" ");
}

function nameOf(part: FleetPart, row: FleetRow): string {
  return part === "processes" ? `${text(row, "service")} on ${text(row, "host")}, pid ${text(row, "pid")}` : text(row, "function");
}

function subjectOf(part: FleetPart, row: FleetRow, open: () => void): Subject {
  const name = nameOf(part, row);
  if (part === "processes") return { name, actions: saved ? [] : [{ name: "Open its snapshots", key: "Enter", run: open }, { name: "Only this host", run: () => chooseValue("host", text(row, "host")) }, { name: "Only this version", run: () => chooseValue("version", text(row, "version")) }] };
  const service = row.service === undefined ? [] : [{ name: "Only this service", run: () => chooseValue("service", text(row, "service")) }];
  return { name, function: name, actions: saved ? [] : service };
}

function Picked({ part, row, act, slot, whole }: { part: FleetPart; whole: FleetTimeline; row: FleetRow; act: Act; slot: number }) {
  const name = nameOf(part, row);
  const stack = text(row, "stack");
  return (
    <aside class="picked" aria-label={part === "processes" ? "The chosen process" : "The chosen site"}>
      <h2 title={clean(name)}>{part === "processes" ? clean(name) : shown(name)} <button type="button" class="quiet" aria-label="Close" onClick={() => choose({ pick: "" })}>×</button></h2>
      {part === "processes" && !saved && <p class="actions"><button type="button" class="primary" onClick={() => void act((running) => openProcess(text(row, "process_id"), slot, running))}>Open its snapshots</button></p>}
      {part !== "processes" && !saved && <p class="actions"><button type="button" title="Flame graph with callers above and callees below" onClick={() => void act(async (running) => { await openFlame(slot, whole, running); choose({ focus: name }); })}>Focus in the flame graph</button></p>}
      {part === "processes" ? <dl>{["service", "version", "region", "host", "container", "pid"].filter((each) => row[each] !== undefined).map((each) => <div key={each}><dt>{each}</dt><dd>{shownValue(text(row, each))}</dd></div>)}</dl>
        : stack !== "" && <ol class="fleet-stack">{stack.split(";").reverse().map((frame, index) => <li key={index}>{shown(frame)}</li>)}</ol>}
    </aside>
  );
}

function arranged(rows: FleetRow[], column: string, order: "asc" | "desc", search: string): FleetRow[] {
  const { matches } = matcherOf(search);
  const found = matches ? rows.filter((row) => Object.entries(row).some(([name, value]) => typeof value === "string" && !name.endsWith("_id") && matches(value))) : [...rows];
  // As the engine has them: each question has an order of its own.
  if (column === "") return found;
  const sign = order === "asc" ? 1 : -1;
  // Rows that are equal in this column stay in the order of the engine, whose last keys are unique.
  return found.sort((a, b) => (a[column]! < b[column]! ? -sign : a[column]! > b[column]! ? sign : 0));
}

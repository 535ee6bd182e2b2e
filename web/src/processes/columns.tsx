// The columns of the table of processes.
import type { Processes, RecordedProcess } from "../answers";
import * as format from "../format";
import { clean } from "../names";
import type { Column } from "../table";
import { rankColour } from "../theme";
import { instantOfTree, openProcess, partOf, spanOf } from "./axis";

const DEEPEST = 12;

export function columnsOf(whole: Processes | null, shown: Processes | null, held: Map<number, number> | null, isTree: boolean, width: number): Column<RecordedProcess>[] {
  if (!whole) return [];
  const curves = new Map((shown ?? whole).processes.map((process) => [process.id, process]));
  const ranks = new Map(whole.stack.map((stacked, rank) => [stacked.id, rank]));
  const names = new Map(whole.processes.map((process) => [process.id, process]));
  const at = instantOfTree(whole);
  const figure = (process: RecordedProcess, value: number) => `${process.estimated ? "~" : ""}${format.bytes(value)}`;
  const columns: Column<RecordedProcess>[] = [
    { name: "name", title: "Process", width: "minmax(150px, 2fr)", sortable: true, cell: (process) => (
      <span class="process-name" style={{ paddingLeft: `${isTree ? Math.min(process.depth, DEEPEST) * 14 : 0}px` }} title={titleOf(process, originOf(process, names, false))}>
        <i class="swatch" style={{ background: rankColour(ranks.get(process.id) ?? -1)[0] }} />
        <button type="button" class="link" onClick={(event) => { event.stopPropagation(); void openProcess(process, at); }}>{clean(process.name) || "(unnamed)"}</button> <small>{originOf(process, names, isTree)}</small>
      </span>
    ) },
    { name: "lane", title: "Live over time", width: "minmax(120px, 3fr)", hint: "From its start to its end, on the common time axis; each curve has its own height", cell: (process) => <Lane process={curves.get(process.id) ?? process} answer={shown ?? whole} rank={ranks.get(process.id) ?? -1} at={at} /> },
    { name: "pid", title: "PID", width: "64px", numeric: true, sortable: true, cell: (process) => process.pid },
    { name: "start", title: "Start", width: "72px", numeric: true, sortable: true, cell: (process) => format.duration(process.start_ns) },
    { name: "lifetime", title: "Lasted", width: "72px", numeric: true, sortable: true, hint: "From its start to its end, as far as the recording knows it", cell: (process) => format.duration(process.duration_ns) },
    { name: "peak", title: "Peak", width: "84px", numeric: true, sortable: true, hint: "The most that this process held", cell: (process) => <b>{figure(process, process.peak_bytes)}</b> },
    { name: "held", title: `At ${format.instant(at, spanOf(whole) / 1000)}`, width: "92px", numeric: true, sortable: true, hint: "What it held at the chosen instant", cell: (process) => (held === null ? "…" : held.get(process.id) ? figure(process, held.get(process.id)!) : "") },
    { name: "allocated", title: "Allocated", width: "84px", numeric: true, sortable: true, cell: (process) => figure(process, process.allocated_bytes) },
    { name: "live", title: "At exit", width: "76px", numeric: true, sortable: true, hint: "What it held at its end", cell: (process) => figure(process, process.live_at_end_bytes) },
  ];
  if (whole.processes.some((process) => process.rss_peak)) columns.push({ name: "rss", title: "RSS peak", width: "80px", numeric: true, sortable: true, hint: "The highest RSS that was measured; pages that processes share count in each of them", cell: (process) => (process.rss_peak ? format.bytes(process.rss_peak.bytes) : "") });
  const hidden = width >= 1120 ? [] : width >= 860 ? ["start", "rss"] : ["start", "rss", "pid", "allocated", "live"];
  return columns.filter((column) => !hidden.includes(column.name));
}

function titleOf(process: RecordedProcess, origin: string): string {
  return [clean(process.command ?? process.name), clean(process.path), origin].filter((line) => line !== "").join("\n");
}

/** How a process came from the one above it, where that is not a plain start. */
function originOf(process: RecordedProcess, names: Map<number, RecordedProcess>, isTree: boolean): string {
  const parent = process.parent === null ? undefined : names.get(process.parent);
  const of = parent && !isTree ? ` by ${clean(parent.name)} (${parent.pid})` : "";
  const parts: string[] = [];
  if (process.relation === "fork") parts.push(`forked${of}${process.inherited_bytes === null ? "" : `, inherited up to ${format.bytes(process.inherited_bytes)}`}`);
  if (process.relation === "exec") parts.push(`executed${of || " by the process above"}`);
  if (process.relation === "start" && of) parts.push(`started${of}`);
  if (process.relation === null && process.start_ns > 0) parts.push(process.parent_pid === 0 ? "parent not known" : `parent ${process.parent_pid} not recorded`);
  if (!process.complete) parts.push("cut off, or still running");
  if (process.approximate) parts.push("≈");
  return parts.join("; ");
}

/** A process's life on the common axis, and the most that it held in each part of it. */
function Lane({ process, answer, rank, at }: { process: RecordedProcess; answer: Processes; rank: number; at: number }) {
  const { lane_t } = answer;
  const x = (time: number) => Math.max(0, Math.min(1000, partOf(answer, time) * 1000));
  const [strong, pale] = rankColour(rank);
  const [left, right] = [x(process.start_ns), x(process.start_ns + process.duration_ns)];
  const most = Math.max(1, ...process.high_bytes);
  const y = (value: number) => 23 - (value / most) * 21;
  const steps = process.high_bytes.map((value, index) => {
    const begin = Math.max(left, x(lane_t[process.first_bin + index]));
    const end = Math.max(begin, Math.min(right, x(lane_t[process.first_bin + index + 1])));
    return `L${begin.toFixed(1)},${y(value).toFixed(1)}L${end.toFixed(1)},${y(value).toFixed(1)}`;
  });
  return (
    <svg class="lane" width="100%" height="24" viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label={`From ${format.duration(process.start_ns)} for ${format.duration(process.duration_ns)}, at most ${process.estimated ? "~" : ""}${format.bytes(process.peak_bytes)}`}>
      {steps.length > 0 && <rect x={left} y={2} width={Math.max(1.5, right - left)} height={21} style={{ fill: pale }} opacity={0.45} />}
      {steps.length > 0 && <path d={`M${left.toFixed(1)},23${steps.join("")}L${Math.max(left + 1.5, right).toFixed(1)},23Z`} style={{ fill: strong }} />}
      {at >= answer.window.from_ns && at <= answer.window.to_ns && <line class="lane-at" x1={x(at)} x2={x(at)} y1={0} y2={24} />}
    </svg>
  );
}

// The sum, the figures beside it, and a bar of its parts.
import type { Rss, RssRow } from "../answers";
import { choose, type RssPart } from "../choice";
import * as format from "../format";

export function Headline({ data }: { data: Rss }) {
  const { beside } = data;
  return (
    <section class="rss-head" aria-label="Resident memory">
      <div class="rss-sum">
        <p><b data-figure="rss_sum" data-value={data.sum_bytes} title={`${format.count(data.sum_bytes)} bytes`}>{format.bytes(data.sum_bytes)}</b> resident{data.uncertain_bytes > 0 && <small title="The process changed while it was read"> ± {format.bytes(data.uncertain_bytes)}</small>}</p>
        {data.without_agent_bytes < data.sum_bytes && <p><small title={`${format.bytes(data.sum_bytes - data.without_agent_bytes)} of it is the agent's`}>without Highwater's agent: {format.bytes(data.without_agent_bytes)}</small></p>}
      </div>
      <dl class="rss-beside">
        <Beside title="kernel's RSS" bytes={data.rss_bytes} hint="VmRSS, as the kernel counts it" />
        {beside.pss_bytes !== null && <Beside title="PSS" bytes={beside.pss_bytes} hint="The proportional set size: pages that several processes share count in part" />}
        <Beside title="swap" bytes={beside.swap_bytes} hint="Swapped out: not in RSS" />
        <Beside title="page tables" bytes={beside.page_table_bytes} hint="The kernel's page tables for this process: not in RSS" />
        <Beside title="huge pages" bytes={beside.huge_bytes} note={beside.huge_bytes > 0 ? format.percent(beside.huge_share) : ""} hint="Anonymous memory in transparent huge pages" />
        {beside.limit && (
          <div title={`Memory limit of the control group: ${format.bytes(beside.limit.used_bytes)} used, with page cache and page tables of all its processes`}>
            <dt>limit</dt>
            <dd class={beside.limit.used_share >= NEAR_LIMIT ? "doubtful" : ""}><b>{format.bytes(beside.limit.bytes)}</b> <small>{format.percent(beside.limit.used_share)} used, {format.bytes(beside.limit.left_bytes)} left</small></dd>
          </div>
        )}
      </dl>
      <Bar data={data} />
    </section>
  );
}

/** The used share of a limit from which it is a warning. */
const NEAR_LIMIT = 0.9;

function Beside({ title, bytes, note, hint }: { title: string; bytes: number; note?: string; hint: string }) {
  return <div title={hint}><dt>{title}</dt><dd><b>{format.bytes(bytes)}</b>{note && <small> {note}</small>}</dd></div>;
}

/** Where more about the bytes of a row is. */
export function partOf(row: RssRow): RssPart | null {
  if (row.key === "live_blocks" || row.key === "slack" || row.key === "mappings") return "sites";
  if (row.key.startsWith("free_")) return "map";
  return row.group === "files" || row.group === "shared" ? "files" : null;
}

/** The names of narrow parts are left out. */
const NAMED = 0.07;

function Bar({ data }: { data: Rss }) {
  const whole = Math.max(1, data.sum_bytes);
  const rows = data.rows.filter((row) => row.resident_bytes > 0);
  const text = rows.map((row) => `${row.name} ${format.bytes(row.resident_bytes)}`).join(", ");
  return (
    <div class="rss-bar" role="img" aria-label={`Parts of the resident memory: ${text}`}>
      {rows.map((row) => {
        const share = row.resident_bytes / whole;
        const part = partOf(row);
        return (
          <span key={row.key} class={`rss-part rss-${row.key}${part ? " leads" : ""}`} style={{ flexGrow: row.resident_bytes }} title={`${row.name}: ${format.bytes(row.resident_bytes)}, ${format.percent(share)}`} onClick={part ? () => choose({ part }) : undefined}>
            {share >= NAMED && row.name}
          </span>
        );
      })}
    </div>
  );
}

// The rows that add up to the resident memory, and what stands out.
import type { Rss, RssFinding, RssRow } from "../answers";
import { choose, type RssPart } from "../choice";
import { SaveCsv, type CsvColumns } from "../csv";
import * as format from "../format";
import { clean } from "../names";
import { partOf } from "./headline";

const LINKS: { [part in RssPart]?: string } = { sites: "sites", map: "heap pages", files: "files" };

export function Rows({ data }: { data: Rss }) {
  const rows = data.rows.filter((row) => row.resident_bytes > 0 || row.size_bytes > 0);
  const hasSwap = rows.some((row) => row.swapped_bytes > 0);
  const whole = Math.max(1, data.sum_bytes);
  return (
    <div class="rss-page">
      <table class="rss-rows" aria-label="Rows that add up to the resident memory">
        <caption><SaveCsv part="rss" columns={CSV} rows={() => data.rows} /></caption>
        <thead><tr><th scope="col">What</th><th scope="col">Resident</th><th scope="col">Share</th><th scope="col" title="Address space, resident or not">Size</th>{hasSwap && <th scope="col">Swapped</th>}<th /></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key} data-row={row.key} data-resident={row.resident_bytes}>
              <th scope="row"><i class={`rss-part rss-${row.key}`} />{row.name}</th>
              <td>{format.bytes(row.resident_bytes)}</td>
              <td>{format.percent(row.resident_bytes / whole)}</td>
              <td>{row.size_bytes > row.resident_bytes ? format.bytes(row.size_bytes) : ""}</td>
              {hasSwap && <td>{row.swapped_bytes > 0 ? format.bytes(row.swapped_bytes) : ""}</td>}
              <td><Link row={row} /></td>
            </tr>
          ))}
        </tbody>
        <tfoot><tr><th scope="row">Sum{data.uncertain_bytes > 0 && <small> ± {format.bytes(data.uncertain_bytes)}: the process changed while it was read</small>}</th><td>{format.bytes(data.sum_bytes)}</td><td>100.0%</td><td />{hasSwap && <td />}<td /></tr></tfoot>
      </table>
      <section class="rss-findings" aria-label="Findings">
        <h2>What stands out, and what would help</h2>
        {data.findings.map((finding) => <Finding key={finding.key + finding.sentence} finding={finding} />)}
        {data.findings.length === 0 && <p class="nothing">Nothing stands out.</p>}
        <h2>Besides</h2>
        <p class="faint">{allocatorOf(data)}</p>
        {!data.knows_every_block && <p class="doubtful">Not every live block is known, so sites are a part, and free memory inside the allocator is not known.</p>}
        {data.untouched_block_bytes > 0 && <p class="faint">{format.bytes(data.untouched_block_bytes)} of live blocks are not resident: never touched, or given back.</p>}
        {data.untouched_mapping_bytes > 0 && <p class="faint">{format.bytes(data.untouched_mapping_bytes)} of the program's mappings are not resident.</p>}
        <p class="faint">The highest RSS so far was {format.bytes(data.rss_peak_bytes)}. {format.plural(data.beside.threads, "thread")}.</p>
      </section>
    </div>
  );
}

const CSV: CsvColumns<RssRow> = { key: (row) => row.key, name: (row) => row.name, group: (row) => row.group, resident_bytes: (row) => row.resident_bytes, size_bytes: (row) => row.size_bytes, swapped_bytes: (row) => row.swapped_bytes };

function Link({ row }: { row: RssRow }) {
  const part = partOf(row);
  return part && <button type="button" class="quiet" aria-label={`${row.name}: ${LINKS[part]}`} onClick={() => choose({ part })}>{LINKS[part]}</button>;
}

function Finding({ finding }: { finding: RssFinding }) {
  return (
    <div class="finding">
      <p><Sentence text={clean(finding.sentence)} /> {finding.site !== undefined && <button type="button" class="quiet" onClick={() => choose({ part: "sites", pick: String(finding.site) })}>the site</button>}</p>
      <small>{clean(finding.how)}</small>
    </div>
  );
}

/** Names are between backticks. */
function Sentence({ text }: { text: string }) {
  return <span>{text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</span>;
}

function allocatorOf({ allocator }: Rss): string {
  const parts = [allocator.name === null ? "The allocator was not recognized" : `The allocator is ${clean(allocator.name)}`];
  if (allocator.arenas !== null) parts.push(format.plural(allocator.arenas, "arena"));
  if (allocator.trim_bytes !== null) parts.push(`malloc_trim(0) would return ${allocator.trim_is_upper_bound ? "up to " : ""}${format.bytes(allocator.trim_bytes)}`);
  return `${parts.join("; ")}.`;
}

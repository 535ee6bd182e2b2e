// The rows of a table as a file: all of them, not only those that were scrolled to.
import { useEffect, useState } from "preact/hooks";
import type { Question } from "./answer";
import { ask } from "./api";
import { fileName, saveFile } from "./download";
import * as format from "./format";
import { saved } from "./saved";
import { source } from "./sources";

type Value = string | number | undefined | null;
/** What a row has in each column. Estimates are numbers here, too: a spreadsheet reads no `~`. */
export type CsvColumns<Row> = { [title: string]: (row: Row) => Value };

function field(value: Value): string {
  const text = String(value ?? "");
  // A spreadsheet takes what begins like this for a formula.
  const harmless = /^[=+@\t\r]/.test(text) || (/^-/.test(text) && typeof value === "string") ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll("\"", "\"\"")}"` : harmless;
}

export function csvOf<Row>(rows: Row[], columns: CsvColumns<Row>): string {
  const titles = Object.keys(columns);
  const lines = [titles.map(field), ...rows.map((row) => titles.map((title) => field(columns[title](row))))];
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

/** All rows of a paged answer, `limit` at a time, and at most `most`. */
export async function everyRow<Answer, Row>(question: Question, rowsOf: (answer: Answer) => Row[], countOf: (answer: Answer) => number, limit: number, most: number, signal: AbortSignal): Promise<Row[]> {
  const all: Row[] = [];
  for (let count = 1; all.length < Math.min(count, most);) {
    const parameters = new URLSearchParams(question.parameters);
    parameters.set("offset", String(all.length));
    parameters.set("limit", String(limit));
    const answer = await ask<Answer>(question.path, parameters, signal);
    const rows = rowsOf(answer);
    if (rows.length === 0) break;
    for (const row of rows) all.push(row);
    count = countOf(answer);
  }
  return all.slice(0, most);
}

/** Saves rows as a file that is called after `of` and `part`. */
export function saveRows<Row>(of: string, part: string, columns: CsvColumns<Row>, rows: Row[]): void {
  saveFile(`${fileName(of)}-${part}.csv`, "text/csv", csvOf(rows, columns));
}

/** The most rows in one answer of the server. */
export const MOST_ROWS = 10_000;

/** All rows of an answer that comes in one piece: what the page shows, if that is all of them, and otherwise as many as the server gives. */
export async function allRows<Answer, Row>(question: Question | null, shown: { rows: Row[]; count: number }, rowsOf: (answer: Answer) => Row[], signal: AbortSignal): Promise<Row[]> {
  if (saved || question === null || shown.count <= shown.rows.length) return shown.rows;
  const parameters = new URLSearchParams(question.parameters);
  parameters.set("limit", String(MOST_ROWS));
  return rowsOf(await ask<Answer>(question.path, parameters, signal));
}

/** What is said where a file of rows does not have all of them. */
export function noteOfLimit(count: number, what: string): string | undefined {
  return count > MOST_ROWS ? `Save the first ${format.count(MOST_ROWS)} of ${format.count(count)} ${what}` : undefined;
}

/** Saves the rows of a table. `part` is what the file is called after its source, or after `of`; `note` is said where not all rows fit. */
export function SaveCsv<Row>({ part, columns, rows, note, of = source.value?.name ?? "" }: { part: string; columns: CsvColumns<Row>; rows: (signal: AbortSignal) => Row[] | Promise<Row[]>; note?: string; of?: string }) {
  const [busy, setBusy] = useState<AbortController | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => () => busy?.abort(), [busy]);
  const save = async () => {
    const abort = new AbortController();
    setBusy(abort);
    setProblem("");
    try {
      const all = await rows(abort.signal);
      if (!abort.signal.aborted) saveRows(of, part, columns, all);
    } catch (error) {
      if (!abort.signal.aborted) setProblem(error instanceof Error ? error.message : String(error));
    }
    setBusy((now) => (now === abort ? null : now));
  };
  const what = saved ? "Save the rows that this page has" : note ?? "Save all rows of this table";
  return (
    <>
      <button type="button" disabled={busy !== null} title={what} onClick={() => void save()}>{busy ? "CSV …" : "CSV"}</button>
      {busy && <button type="button" class="quiet" aria-label="Cancel saving" onClick={() => { busy.abort(); setBusy(null); }}>Cancel</button>}
      {problem && <span class="problem" role="alert">{problem}</span>}
    </>
  );
}

// The rows of a table as a file: all of them, not only those that were scrolled to.
import { useEffect, useState } from "preact/hooks";
import type { Question } from "./answer";
import { ask } from "./api";
import { fileName, saveFile } from "./download";
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

/** Saves the rows of a table. `part` is what the file is called after its source; `note` is said where not all rows fit. */
export function SaveCsv<Row>({ part, columns, rows, note }: { part: string; columns: CsvColumns<Row>; rows: (signal: AbortSignal) => Row[] | Promise<Row[]>; note?: string }) {
  const [busy, setBusy] = useState<AbortController | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => () => busy?.abort(), [busy]);
  const save = async () => {
    const abort = new AbortController();
    setBusy(abort);
    setProblem("");
    try {
      const all = await rows(abort.signal);
      if (!abort.signal.aborted) saveFile(`${fileName(source.value?.name ?? "")}-${part}.csv`, "text/csv", csvOf(all, columns));
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

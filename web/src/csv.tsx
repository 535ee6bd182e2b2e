// The rows of a table as a file: all of them, not only those that were scrolled to.
import { useState } from "preact/hooks";
import type { Question } from "./answer";
import type { Row, Rows } from "./answers";
import { ask } from "./api";
import { saveFile } from "./download";

/** The most rows in one answer of the server. */
const MOST = 10_000;

function field(value: string | number | undefined | null): string {
  const text = String(value ?? "");
  // A spreadsheet takes what begins like this for a formula.
  const harmless = /^[=+@\t\r]/.test(text) || (/^-/.test(text) && typeof value === "string") ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll("\"", "\"\"")}"` : harmless;
}

export function csvOf(rows: Row[], value: string): string {
  const lines = rows.map((row) => [row.key, row.value, row.total, row.blocks, row.share, row.frame?.file, row.frame?.line].map(field).join(","));
  return `${["name", value, "total", "blocks", "share", "file", "line"].join(",")}\r\n${lines.join("\r\n")}${lines.length ? "\r\n" : ""}`;
}

/** Asks for all rows, and saves them. */
export function SaveCsv({ question, rows, name, value }: { question: Question | null; rows: Row[] | null; name: string; value: string }) {
  const [problem, setProblem] = useState("");
  const save = async () => {
    setProblem("");
    let all = rows;
    if (!all && question) {
      all = [];
      for (let count = 1; all.length < count;) {
        const parameters = new URLSearchParams(question.parameters);
        parameters.set("offset", String(all.length));
        parameters.set("limit", String(MOST));
        const answer = await ask<Rows>(question.path, parameters, AbortSignal.timeout(120_000));
        if (answer.rows.length === 0) break;
        all = all.concat(answer.rows);
        count = answer.count;
      }
    }
    saveFile(`${name}.csv`, "text/csv", csvOf(all ?? [], value));
  };
  return <><button type="button" title="Save all rows of this table" onClick={() => void save().catch((error) => setProblem(error instanceof Error ? error.message : String(error)))}>CSV</button>{problem && <span class="problem" role="alert">{problem}</span>}</>;
}

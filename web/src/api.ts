// One question to the server: progress while it works, its answer, or one line that says why there is none.
import { computed, signal } from "@preact/signals";
import { placeInSaved } from "./choice";
import { keepShortNames } from "./names";
import { saved, savedAnswer } from "./saved";
import { withStacks, type StackTable } from "./stacks";

export interface Progress {
  part: number;
  what: string;
}

/** `gone`: our server does not answer at all. */
export class Failure extends Error {
  constructor(message: string, readonly gone = false) {
    super(message);
  }
}

/** What became of the server: it answers; no server does; or another one does, which was started at the same port and does not know this page. */
export const server = signal<"answers" | "silent" | "another">("answers");
export const serverGone = computed(() => server.value !== "answers");

if (saved) keepShortNames(saved);

export async function ask<T>(path: string, parameters: URLSearchParams, signal: AbortSignal, progress?: (progress: Progress) => void): Promise<T> {
  if (saved) {
    const place = placeInSaved(path, parameters.get("metric"));
    const answer = place === null ? undefined : savedAnswer(path, parameters, place.at);
    if (answer === undefined) throw new Failure(place?.at ? "this saved page has it only of the instant at which it was saved" : "not in this saved page");
    return answer as T;
  }
  const asked = new URLSearchParams(parameters);
  asked.set("stacks", "table");
  const answer = await send<T & StackTable>("GET", `api/1/${path}?${asked}`, signal, progress);
  keepShortNames(answer);
  return withStacks<T>(answer, answer);
}

export async function post<T>(path: string, parameters: URLSearchParams, signal?: AbortSignal, progress?: (progress: Progress) => void): Promise<T> {
  if (saved) throw new Failure("not in this saved page");
  return send<T>("POST", `api/1/${path}?${parameters}`, signal, progress);
}

/** A file that the server makes, with the name that it gives. */
export async function fetchFile(path: string, parameters: URLSearchParams, signal: AbortSignal): Promise<{ name: string | null; content: Blob }> {
  const response = await requested("GET", `api/1/${path}?${parameters}`, signal);
  try {
    const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? null;
    return { name, content: await response.blob() };
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Failure("the file ends in the middle");
  }
}

/** The answer to a request, once the server has accepted it. */
async function requested(method: string, address: string, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, { method, signal, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    if (signal?.aborted) throw error;
    server.value = "silent";
    throw new Failure("the server does not answer", true);
  }
  if (response.status === 401) {
    server.value = "another";
    throw new Failure("another server answers", true);
  }
  server.value = "answers";
  if (!response.ok) throw new Failure(oneLine(await response.text().catch(() => "")) || `the server answers ${response.status}`);
  return response;
}

async function send<T>(method: string, address: string, signal?: AbortSignal, progress?: (progress: Progress) => void): Promise<T> {
  const response = await requested(method, address, signal);
  if (!(response.headers.get("content-type") ?? "").includes("ndjson")) return (await response.json()) as T;
  try {
    for await (const line of lines(response)) {
      const message = JSON.parse(line) as { progress?: number; what?: string; result?: T; error?: { what: string } };
      if (message.error) throw new Failure(message.error.what);
      if ("result" in message) return message.result as T;
      if (message.progress !== undefined) progress?.({ part: message.progress, what: message.what ?? "" });
    }
  } catch (error) {
    if (signal?.aborted || error instanceof Failure) throw error;
    server.value = "silent";
    throw new Failure("the server went away in the middle of an answer", true);
  }
  throw new Failure("the answer ends in the middle");
}

async function* lines(response: Response): AsyncGenerator<string> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parts: string[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    let rest = value;
    for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
      parts.push(rest.slice(0, end));
      const line = parts.join("");
      parts.length = 0;
      if (line.trim()) yield line;
      rest = rest.slice(end + 1);
    }
    if (rest) parts.push(rest);
  }
  const line = parts.join("");
  if (line.trim()) yield line;
}

function oneLine(text: string): string {
  try {
    const parsed = JSON.parse(text) as { error?: { what?: string } };
    if (parsed.error?.what) return parsed.error.what;
  } catch {
    // Not JSON: the line itself.
  }
  return text.split("\n", 1)[0].slice(0, 300);
}

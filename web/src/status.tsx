// The states of a view: waiting, without an answer, empty. One quiet line each; a view is empty only where an answer says so.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Answer } from "./answer";
import { serverGone } from "./api";
import { choice, choose } from "./choice";
import { when } from "./clock";
import * as estimate from "./estimate";
import { has, metric, source } from "./sources";
import { instantOf } from "./timeline/range";
import "./status.css";

/** How long a question may take before it can be cancelled, in milliseconds. */
const PATIENCE = 1000;

export function StatusLine({ answer }: { answer: Answer<unknown> }) {
  const { waiting, problem, data } = answer;
  if (serverGone.value && data !== null) return <p class="status-line" role="status">The server has ended: this is the last state.</p>;
  // Without an answer nothing is known, and that is not the same as nothing being there.
  if (serverGone.value && (problem !== null || waiting)) return <p class="status-line problem" role="status">Not known: the server does not answer.</p>;
  // The top of the page already says what is wrong with a file.
  if (problem !== null && !serverGone.value && !source.value?.problem) {
    return <p class="status-line problem" role="status">{problem}{answer.again && <> <button type="button" class="quiet" onClick={answer.again}>Ask again</button></>}</p>;
  }
  return waiting ? <Waiting answer={answer} /> : null;
}

function Waiting({ answer }: { answer: Answer<unknown> }) {
  const { progress, data, cancel } = answer;
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    const timer = window.setTimeout(() => setLong(true), PATIENCE);
    return () => clearTimeout(timer);
  }, []);
  return (
    <p class="status-line waiting" role="status">
      <progress max={1} value={progress ? progress.part : undefined} />
      <span>{words(answer)}</span>
      {isLong && cancel && <button type="button" class="quiet" onClick={cancel} title={data === null ? "Stop waiting for it" : "Stop waiting for it; what is shown stays"}>Cancel</button>}
    </p>
  );
}

/** "Reading… 43%" while the file is indexed: answers about single blocks wait for that. */
function words({ progress, data }: Answer<unknown>): string {
  const reading = source.value?.reading;
  if (typeof reading === "number") return `Reading… ${Math.floor(reading * 100)}%`;
  if (progress) return `${progress.what}… ${Math.floor(progress.part * 100)}%`;
  return data === null ? "loading …" : "";
}

/** Why a view has nothing to show although there is an answer, and where there is something. `isOfA`: it shows what is live at A. */
export function Nothing({ isOfA = metric.value === "live", children }: { isOfA?: boolean; children?: ComponentChildren }) {
  const { search, filters, at, to } = choice.value;
  const file = source.value;
  const peak = file?.peak;
  if (search) return <>Nothing matches.</>;
  if (filters.length > 0) return <>Nothing passes the filters{isOfA && has("timeline") ? " at A" : ""}. <button type="button" class="quiet" onClick={() => choose({ filters: [] })}>Remove them</button></>;
  const a = instantOf(at, to ?? file?.duration_ns ?? 0);
  if (isOfA && has("timeline") && peak && peak.bytes > 0 && a !== peak.at_ns) {
    return <>Nothing is live at A (0 B): the peak of {estimate.bytes(peak.bytes)} is at {when(peak.at_ns)}. <button type="button" class="quiet" onClick={() => choose({ at: "peak", from: null, to: null })}>Go there</button></>;
  }
  return <>{children ?? "Nothing to show for this choice."}</>;
}

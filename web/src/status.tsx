// What a view says while it waits, and when there is no answer: one quiet line. A view is empty only where an answer says so.
import type { Answer } from "./answer";
import { serverGone } from "./api";
import { source } from "./sources";

export function StatusLine({ answer }: { answer: Answer<unknown> }) {
  const { waiting, progress, problem, data } = answer;
  // Without an answer nothing is known, and that is not the same as nothing being there.
  if (serverGone.value && data === null && (problem !== null || waiting)) return <p class="told problem" role="status">Not known: the server does not answer.</p>;
  // The top of the page already says these.
  if (problem !== null && !serverGone.value && !source.value?.problem) return <p class="told problem" role="status">{problem}</p>;
  if (!waiting) return null;
  const part = progress?.part ?? 0;
  return (
    <p class="told waiting" role="status">
      <progress max={1} value={progress ? part : undefined} />
      <span>{progress?.what ?? (data === null ? "loading …" : "")}</span>
    </p>
  );
}

// What a view says while it waits, and when there is nothing to show: one quiet line.
import type { Answer } from "./answer";
import { serverGone } from "./api";
import { source } from "./sources";

export function Told({ answer }: { answer: Answer<unknown> }) {
  const { waiting, progress, problem } = answer;
  // The top of the page already says these.
  if (problem !== null && !serverGone.value && !source.value?.problem) return <p class="told problem" role="status">{problem}</p>;
  if (!waiting) return null;
  const part = progress?.part ?? 0;
  return (
    <p class="told waiting" role="status">
      <progress max={1} value={progress ? part : undefined} />
      <span>{progress?.what ?? ""}</span>
    </p>
  );
}

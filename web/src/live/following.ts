// Answers that are asked for again and again while a process is watched. Only the last one is kept: a page may be open for days.
import { useEffect, useState } from "preact/hooks";
import { ask, Failure } from "../api";
import type { Question } from "../answer";

export interface Followed<T> {
  data: T | null;
  /** What `data` answers: it may be the answer before. */
  asked: URLSearchParams | null;
  problem: string | null;
}

/** Whether the page is hidden: then nothing is asked. */
const isHidden = () => document.hidden;

/** Asks every `every` milliseconds, and at once when the question changes. Null, or 0: not again. */
export function usePolled<T>(question: Question | null, every: number): Followed<T> {
  return useAsked<T>(question, "", every);
}

/** Asks when the question or the stamp changes. The answer before stays until the new one is there. */
export function useStamped<T>(question: Question | null, stamp: string): Followed<T> {
  return useAsked<T>(question, stamp, 0);
}

function useAsked<T>(question: Question | null, stamp: string, every: number): Followed<T> {
  const [answer, setAnswer] = useState<Followed<T>>({ data: null, asked: null, problem: null });
  const text = question ? `${question.path}?${question.parameters}` : null;
  useEffect(() => {
    if (question === null) return;
    const abort = new AbortController();
    let timer = 0;
    const again = async () => {
      if (!isHidden() || every === 0) {
        try {
          const data = await ask<T>(question.path, question.parameters, abort.signal);
          if (!abort.signal.aborted) setAnswer({ data, asked: question.parameters, problem: null });
        } catch (error) {
          if (abort.signal.aborted) return;
          // With the server gone the page says so at the top, and what is on it stays.
          const line = error instanceof Failure && error.gone ? null : error instanceof Error ? error.message : String(error);
          setAnswer((now) => ({ ...now, problem: line }));
        }
      }
      if (every > 0 && !abort.signal.aborted) timer = window.setTimeout(again, every);
    };
    void again();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [text, stamp, every]);
  return answer;
}

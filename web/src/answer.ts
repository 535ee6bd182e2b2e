// The answer to a question that may change at any time: the old one is shown, and marked as old, until the new one is there; a question whose
// answer is no longer needed is aborted.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, Failure, serverGone, type Progress } from "./api";
import { revision } from "./sources";

export interface Answer<T> {
  data: T | null;
  /** The question that `data` answers. */
  question: string | null;
  /** Asked, not yet answered: `data` is of the question before. */
  waiting: boolean;
  /** `data` is not what the present question asks for: its answer is awaited, was cancelled, or could not be had. */
  isOld: boolean;
  progress: Progress | null;
  problem: string | null;
  /** Stops waiting; the server stops working on it. */
  cancel?: () => void;
  /** Asks again what was cancelled. */
  again?: () => void;
}

export interface Question {
  path: string;
  parameters: URLSearchParams;
}

const NOTHING: Answer<never> = { data: null, question: null, waiting: false, isOld: false, progress: null, problem: null };
/** How many questions are open: the page says that it is busy. */
export const open = signal(0);

const REMEMBERED = 24;
const remembered = new Map<string, unknown>();

function remember(key: string, data: unknown): void {
  remembered.delete(key);
  remembered.set(key, data);
  if (remembered.size > REMEMBERED) remembered.delete(remembered.keys().next().value as string);
}

/** `pause`: milliseconds of rest before it is asked, for questions that follow a drag. */
export function useAnswer<T>(question: Question | null, pause = 0): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>(NOTHING);
  const latest = useRef(answer);
  latest.current = answer;
  const text = question ? `${question.path}?${question.parameters}` : null;
  // A file that grew answers otherwise; a server that is back is asked again.
  const key = text === null ? null : `${text}#${revision.value}`;
  const again = serverGone.value;
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (key === null || question === null) {
      setAnswer(NOTHING);
      return;
    }
    if (remembered.has(key)) {
      setAnswer({ ...NOTHING, data: remembered.get(key) as T, question: text });
      return;
    }
    const abort = new AbortController();
    const cancel = () => {
      abort.abort();
      close();
      setAnswer({ ...NOTHING, data: latest.current.data, question: latest.current.question, problem: "cancelled", again: () => setTries((now) => now + 1) });
    };
    const before = { data: latest.current.data, question: latest.current.question };
    setAnswer({ ...NOTHING, ...before, waiting: true, cancel });
    open.value += 1;
    let isOpen = true;
    const close = () => {
      if (isOpen) open.value -= 1;
      isOpen = false;
    };
    const timer = window.setTimeout(async () => {
      try {
        const data = await ask<T>(question.path, question.parameters, abort.signal, (progress) => {
          if (!abort.signal.aborted) setAnswer({ ...NOTHING, ...before, waiting: true, progress, cancel });
        });
        if (abort.signal.aborted) return;
        remember(key, data);
        setAnswer({ ...NOTHING, data, question: text });
      } catch (error) {
        if (abort.signal.aborted) return;
        const gone = error instanceof Failure && error.gone;
        // With the server gone the page says so at the top, and what is on it stays.
        setAnswer({ ...NOTHING, data: gone ? latest.current.data : null, question: gone ? latest.current.question : null,
          problem: error instanceof Error ? error.message : String(error) });
      } finally {
        close();
      }
    }, pause);
    return () => {
      clearTimeout(timer);
      abort.abort();
      close();
    };
  }, [key, again, tries]);
  return { ...answer, isOld: answer.waiting || (answer.data !== null && answer.question !== text) };
}

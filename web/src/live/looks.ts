// Looks at the watched process, taken every few seconds while this page is open. The server keeps and thins them; the page has their times only.
import { useEffect, useState } from "preact/hooks";
import { ask, Failure, post } from "../api";
import { question } from "../question";
import type { Look, Looks } from "./answers";

export interface WatchedLooks {
  looks: Look[];
  keptBytes: number;
  problem: string | null;
  /** Looks at once. */
  lookNow: (signal: AbortSignal) => Promise<void>;
  /** Drops all looks: growth counts from now on. */
  startAgain: (signal: AbortSignal) => Promise<void>;
}

const NONE: Looks = { looks: [], kept_bytes: 0 };

export function useLooks(process: string, every: number, hasEnded: boolean): WatchedLooks {
  const [state, setState] = useState<{ process: string; known: Looks; problem: string | null }>({ process, known: NONE, problem: null });
  const take = async (path: string, seconds: number | null, signal?: AbortSignal) => {
    try {
      const known = await post<Looks>(path, question(path, { process, every: seconds }).parameters, signal);
      setState({ process, known, problem: null });
    } catch (error) {
      if (!signal?.aborted) showProblem(error);
    }
  };
  const showProblem = (error: unknown) => {
    // With the server gone the page says so at the top.
    const line = error instanceof Failure && error.gone ? null : error instanceof Error ? error.message : String(error);
    setState((now) => ({ ...now, problem: line }));
  };
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const again = async () => {
      // The last state is wanted, however fresh the look before is.
      await take("live/look", hasEnded ? null : every);
      if (!abort.signal.aborted && !hasEnded) timer = window.setTimeout(again, every * 1000);
    };
    // The looks of another page, or from before this page was opened, count on. Without an interval, there is one look, so that there is something to see.
    const begin = async () => {
      try {
        const known = await ask<Looks>("live/looks", question("live/looks", { process }).parameters, abort.signal);
        if (abort.signal.aborted) return;
        setState({ process, known, problem: null });
        if (known.looks.length === 0) await take("live/look", null);
      } catch (error) {
        if (!abort.signal.aborted) showProblem(error);
      }
    };
    // The last state of a process that has ended is one more look. It goes on in a page that is not seen: it may stay in the background for a day.
    if (every > 0 || hasEnded) void again();
    else void begin();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [process, every, hasEnded]);
  const known = state.process === process ? state.known : NONE;
  return {
    looks: known.looks, keptBytes: known.kept_bytes, problem: state.problem,
    lookNow: (signal) => take("live/look", null, signal),
    startAgain: async (signal) => {
      await take("live/forget", null, signal);
      if (!signal.aborted) await take("live/look", null, signal);
    },
  };
}

// Looks at the watched process. The server takes them every few seconds, also while no page is open, and keeps and thins them; the page has their times only.
import { useEffect, useState } from "preact/hooks";
import { Failure, post } from "../api";
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
      return known;
    } catch (error) {
      if (!signal?.aborted) showProblem(error);
      return null;
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
    // Asked again each time: the server may have been started anew, and watches a few processes only.
    const again = async () => {
      await take("live/watch", every);
      if (!abort.signal.aborted) timer = window.setTimeout(again, every * 1000);
    };
    // Without an interval, there is one look, so that there is something to see. Those from before this page was opened count on.
    const begin = async () => {
      const known = await take("live/watch", 0);
      if (!abort.signal.aborted && known?.looks.length === 0) await take("live/look", null);
    };
    // The last state of a process that has ended is one more look, however fresh the one before is.
    if (hasEnded) void take("live/look", null);
    else if (every > 0) void again();
    else void begin();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [process, every, hasEnded]);
  const known = state.process === process ? state.known : NONE;
  return {
    looks: known.looks, keptBytes: known.kept_bytes, problem: state.problem,
    lookNow: async (signal) => void (await take("live/look", null, signal)),
    startAgain: async (signal) => {
      await take("live/forget", null, signal);
      if (!signal.aborted) await take("live/look", null, signal);
    },
  };
}

// What a button starts: it may take long, be cancelled, or fail, and shows that as a question does.
import { useEffect, useRef, useState } from "preact/hooks";
import { open, type Answer } from "./answer";
import type { Progress } from "./api";

/** What a running action checks, and reports to. */
export interface Running {
  signal: AbortSignal;
  progress: (progress: Progress) => void;
}

export type Act = (work: (running: Running) => Promise<void>) => Promise<void>;

const IDLE: Answer<null> = { data: null, question: null, waiting: false, isOld: false, progress: null, problem: null };

/** The state of the last action, and what starts one: it takes the place of one that still runs. An action ends with the view that it belongs to. */
export function useActions(): [Answer<null>, Act] {
  const [state, setState] = useState(IDLE);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const act: Act = async (work) => {
    running.current?.abort();
    const abort = new AbortController();
    running.current = abort;
    const show = (now: Partial<Answer<null>>) => {
      if (!abort.signal.aborted) setState({ ...IDLE, ...now });
    };
    const cancel = () => {
      abort.abort();
      setState(IDLE);
    };
    show({ waiting: true, cancel });
    open.value += 1;
    try {
      await work({ signal: abort.signal, progress: (progress) => show({ waiting: true, progress, cancel }) });
      show({});
    } catch (error) {
      show({ problem: error instanceof Error ? error.message : String(error) });
    } finally {
      open.value -= 1;
    }
  };
  return [state, act];
}

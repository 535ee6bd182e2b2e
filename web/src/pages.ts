// Rows of a long answer, a page at a time: the first comes with the answer, others when the user scrolls to them.
import { useEffect, useMemo, useState } from "preact/hooks";
import { useAnswer, type Answer, type Question } from "./answer";
import { ask } from "./api";
import { saved } from "./saved";

export const PAGE = 200;

export interface Pages<T, Row> {
  answer: Answer<T>;
  count: number;
  row: (index: number) => Row | undefined;
  need: (first: number, last: number) => void;
}

export function usePages<T, Row>(question: Question | null, rowsOf: (answer: T) => Row[], countOf: (answer: T) => number, pause = 0): Pages<T, Row> {
  const first = question && withPage(question, 0);
  const answer = useAnswer<T>(first, pause);
  const [, redraw] = useState(0);
  // Each answer has pages of its own: one that comes late belongs to the answer for which it was asked.
  const { pages, abort } = useMemo(() => ({ pages: new Map<number, Row[] | "asked">(), abort: new AbortController() }), [answer.data]);
  useEffect(() => () => abort.abort(), [abort]);
  const firstRows = useMemo(() => (answer.data ? rowsOf(answer.data) : []), [answer.data]);
  const all = answer.data ? countOf(answer.data) : 0;
  const count = saved ? Math.min(all, firstRows.length) : all;
  return {
    answer, count,
    row: (index) => {
      if (index < firstRows.length) return firstRows[index];
      const page = pages.get(Math.floor(index / PAGE));
      return page === undefined || page === "asked" ? undefined : page[index % PAGE];
    },
    need: (from, to) => {
      if (saved || !question || answer.isOld) return;
      for (let page = Math.floor(from / PAGE); page * PAGE < Math.min(to, count); page += 1) {
        if ((page + 1) * PAGE <= firstRows.length || page === 0 || pages.has(page)) continue;
        pages.set(page, "asked");
        const asked = withPage(question, page);
        ask<T>(asked.path, asked.parameters, abort.signal)
          .then((data) => { pages.set(page, rowsOf(data)); redraw((now) => now + 1); })
          .catch(() => pages.delete(page));
      }
    },
  };
}

function withPage(question: Question, page: number): Question {
  const parameters = new URLSearchParams(question.parameters);
  parameters.set("offset", String(page * PAGE));
  parameters.set("limit", String(PAGE));
  return { path: question.path, parameters };
}

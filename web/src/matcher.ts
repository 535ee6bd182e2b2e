// What a search finds: a part of a name whatever its case, or between slashes a regular expression. Lists that the page has whole are searched here, with
// the expressions of JavaScript; the others are searched by the server, with those of the crate `regex`. That one has neither look-around nor
// backreferences: the server says so where an expression is valid here only.

export interface Matcher {
  /** Null: nothing is searched. */
  matches: ((text: string) => boolean) | null;
  /** Why an expression is none; it finds nothing then. */
  problem: string | null;
}

export function matcherOf(search: string): Matcher {
  if (!search) return { matches: null, problem: null };
  const pattern = /^\/(.+)\/$/s.exec(search);
  if (!pattern) {
    const wanted = search.toLowerCase();
    return { matches: (text) => text.toLowerCase().includes(wanted), problem: null };
  }
  try {
    const expression = new RegExp(pattern[1], "iu");
    return { matches: (text) => expression.test(text), problem: null };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { matches: () => false, problem: `not a regular expression: ${why.slice(why.lastIndexOf(": ") + 2)}` };
  }
}

interface Found {
  key: string;
  stack?: { function?: string | null; file?: string | null; module?: string | null }[] | null;
}

/** The rows that a search finds, by their names or by any frame of their stacks. */
export function foundRows<Row extends Found>(rows: Row[], search: string): Row[] {
  const { matches } = matcherOf(search);
  if (!matches) return rows;
  return rows.filter((row) => matches(row.key) || (row.stack ?? []).some((frame) => [frame.function, frame.file, frame.module].some((text) => text && matches(text))));
}

// The views, in the order of their tabs. A new view is a file in this folder, its key here, and its line in list.tsx.

export const VIEWS = ["fleet", "processes", "overview", "flame", "table", "blocks", "leaks", "growth", "compare", "types", "rss", "image", "live"] as const;
export type View = (typeof VIEWS)[number];

// The resident pages of files and of shared memory.
import { matcherOf } from "../matcher";
import { useMemo } from "preact/hooks";
import type { Rss, RssFile } from "../answers";
import { choice, choose } from "../choice";
import { SaveCsv, type CsvColumns } from "../csv";
import * as format from "../format";
import { clean } from "../names";
import { Search } from "../search";
import { Table, type Column } from "../table";

const VALUES: { [column: string]: (file: RssFile) => number } = {
  resident: (file) => file.shared_bytes + file.private_bytes, shared: (file) => file.shared_bytes, private: (file) => file.private_bytes,
};

export function RssFiles({ data }: { data: Rss }) {
  const { sort, order, search } = choice.value;
  const column = sort in VALUES ? sort : "resident";
  const wanted = search;
  const { matches } = matcherOf(search);
  const files = useMemo(
    () => data.files.filter((file) => matches?.(file.path) ?? true).sort((a, b) => (order === "asc" ? 1 : -1) * (VALUES[column](a) - VALUES[column](b))),
    [data, column, order, wanted],
  );
  return (
    <>
      <div class="tools">
        <small>{format.plural(data.file_count, "file")}{files.length < data.file_count && `, ${format.count(files.length)} shown`}. Pages of the page cache may be shared with other processes; private pages are this process's alone.</small>
        <span class="stretch" />
        <Search hint="Search files" />
        <SaveCsv part="rss-by-file" columns={CSV} rows={() => files} />
      </div>
      <Table label="Files" columns={COLUMNS} count={files.length} row={(index) => files[index]} sort={column} order={order} onSort={(name, direction) => choose({ sort: name, order: direction })} identity={`${data.at_ns} ${column} ${order} ${wanted}`} empty="No file matches." />
    </>
  );
}

const CSV: CsvColumns<RssFile> = { file: (file) => file.path, resident_bytes: VALUES.resident, page_cache_bytes: VALUES.shared, private_bytes: VALUES.private };

const bytes = (name: string, title: string, hint: string): Column<RssFile> => ({ name, title, hint, width: "96px", numeric: true, sortable: true, cell: (file) => (VALUES[name](file) > 0 ? format.bytes(VALUES[name](file)) : "") });

const COLUMNS: Column<RssFile>[] = [
  bytes("resident", "Resident", "Both together"),
  bytes("shared", "Page cache", "Code and constants, as they are in the file"),
  bytes("private", "Private", "Data, relocations, zeroed variables: copies that the process changed"),
  { name: "name", title: "File", width: "minmax(200px, 1fr)", cell: (file) => <span class="name" title={clean(file.path)}>{clean(file.path)}</span> },
];

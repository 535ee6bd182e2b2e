// What each view is called, when it is offered, and what it shows.
import type { ComponentChild } from "preact";
import { saved } from "../saved";
import { fleetSource, has, hasBlockTypes, isObjectLog, isTree, source, sources } from "../sources";
import { BlocksView } from "./blocks";
import { CompareView } from "./compare";
import { FlameView } from "./flame";
import { FleetView } from "./fleet";
import { GrowthView } from "./growth";
import { ImageView } from "./image";
import { VIEWS, type View } from "./keys";
import { LeaksView } from "./leaks";
import { LiveView } from "./live";
import { OverviewView } from "./overview";
import { ProcessesView } from "./processes";
import { RssView } from "./rss";
import { TableView } from "./table";
import { TypesView } from "./types";

interface ViewEntry {
  title: string;
  /** Whether the chosen file has something for it. */
  isOffered: () => boolean;
  show: () => ComponentChild;
}

const hasFile = () => source.value !== null;

export const LIST: { [view in View]: ViewEntry } = {
  fleet: { title: "Fleet", isOffered: () => fleetSource.value !== null, show: () => <FleetView /> },
  processes: { title: "Processes", isOffered: () => isTree.value, show: () => <ProcessesView /> },
  overview: { title: "Overview", isOffered: hasFile, show: () => <OverviewView /> },
  flame: { title: "Flame graph", isOffered: hasFile, show: () => <FlameView /> },
  table: { title: "Table", isOffered: hasFile, show: () => <TableView /> },
  blocks: { title: "Blocks", isOffered: () => has("blocks"), show: () => <BlocksView /> },
  leaks: { title: "Leaks", isOffered: () => has("blocks"), show: () => <LeaksView /> },
  growth: { title: "Growth", isOffered: () => has("timeline"), show: () => <GrowthView /> },
  compare: { title: "Compare", isOffered: () => hasFile() && (has("timeline") || (sources.value?.length ?? 0) > 1), show: () => <CompareView /> },
  types: { title: "Types", isOffered: () => hasBlockTypes() || isObjectLog(), show: () => <TypesView /> },
  rss: { title: "RSS", isOffered: () => has("rss"), show: () => <RssView /> },
  image: { title: "Image", isOffered: () => has("image") || source.value?.kind === "image", show: () => <ImageView /> },
  live: { title: "Live", isOffered: () => !saved, show: () => <LiveView /> },
};

/** The views that the chosen file has something for. */
export function offeredViews(): View[] {
  return VIEWS.filter((view) => LIST[view].isOffered());
}

// Processes of the collector: a list of all, or one that is watched.
import "../live/live.css";
import { useActions } from "../actions";
import { choice } from "../choice";
import type { Live } from "../live/answers";
import { usePolled } from "../live/following";
import { Processes } from "../live/processes";
import { OwnSnapshots, TakenSnapshots, useOwnSnapshots } from "../live/snapshots";
import { Watch } from "../live/watch";
import { clean } from "../names";
import { question } from "../question";
import { StatusLine } from "../status";

const EVERY_MS = 1000;

export function LiveView() {
  const answer = usePolled<Live>(question("live", {}), EVERY_MS);
  const own = useOwnSnapshots();
  const [action, act] = useActions();
  const live = answer.data;
  if (choice.value.process !== "") return <div class="live-view"><Watch key={choice.value.process} live={live} own={own} /></div>;
  return (
    <div class="live-view all">
      <StatusLine answer={action} />
      {[answer.problem, live?.problem].map((line, index) => line && <p key={index} class="status-line problem" role="alert">{clean(line)}</p>)}
      {live && <Processes live={live} act={act} isBusy={action.waiting} />}
      <OwnSnapshots own={own} act={act} isBusy={action.waiting} />
      <TakenSnapshots />
    </div>
  );
}

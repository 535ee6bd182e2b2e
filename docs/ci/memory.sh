#!/bin/sh
# Records a test suite, checks its memory budget, and compares it with recordings of the main branch.
#
#     memory.sh OUT BASELINES -- PROGRAM ARGS…
#
# OUT gets run.hw (with run.children), budget.xml for JUnit, comment.md for the pull request and, on GitLab, codequality.json. BASELINES is a folder
# of recordings, which may be missing or empty. The exit code is that of the program, or 1 if it succeeded and a limit is broken.
#
#     HIGHWATER          the command [default: highwater]
#     HIGHWATER_BUDGET   the budget [default: highwater.toml]
#     HIGHWATER_ALLOW    by how much figures may exceed those of the baselines [default: +5%]
set -u
if [ $# -lt 4 ] || [ "$3" != -- ]; then
  echo "usage: memory.sh OUT BASELINES -- PROGRAM ARGS…" >&2
  exit 2
fi
highwater=${HIGHWATER:-highwater}
budget=${HIGHWATER_BUDGET:-highwater.toml}
out=$1 baselines=$2
shift 3
mkdir -p "$out" || exit

"$highwater" record --force --keep-children 0 -o "$out/run.hw" -- "$@" || exit

set -- --budget "$budget"
newest=
for file in "$baselines"/*.hw; do
  [ -f "$file" ] || continue
  [ -n "$newest" ] || set -- "$@" --allow "${HIGHWATER_ALLOW:-+5%}"
  set -- "$@" --baseline "$file"
  newest=$file
done

status=0
"$highwater" check "$out/run.hw" "$@" >"$out/budget.txt" || status=$?
cat "$out/budget.txt"
"$highwater" check "$out/run.hw" "$@" --format junit >"$out/budget.xml"
[ -z "${GITHUB_ACTIONS:-}" ] || "$highwater" check "$out/run.hw" "$@" --format github
[ -z "${GITLAB_CI:-}" ] || "$highwater" check "$out/run.hw" "$@" --format gitlab >"$out/codequality.json"

{
  echo '<!-- highwater -->'
  if [ $status -eq 0 ]; then echo '### Memory: all limits are kept'; else echo '### Memory: a limit is broken'; fi
  if [ -n "$newest" ]; then
    printf '\nAt the peak, against the main branch:\n\n'
    "$highwater" diff "$newest@peak" "$out/run.hw@peak" --format markdown
  fi
  printf '\n<details><summary>Limits</summary>\n\n```text\n'
  cat "$out/budget.txt"
  printf '```\n\n</details>\n'
} >"$out/comment.md"
exit $status

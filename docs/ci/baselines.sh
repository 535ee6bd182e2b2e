#!/bin/sh
# Downloads recordings of the main branch, the baselines of memory.sh: the last three runs from GitHub, the last one from GitLab. Needs curl, jq and unzip.
#
#     baselines.sh BASELINES
#
# GitHub: GITHUB_TOKEN, which may read actions, and MAIN, the branch [default: main]. GitLab: nothing else. The artefact and, on GitLab, the job are
# called 'memory'. No earlier run is no failure: there is nothing to compare with yet.
set -eu
if [ $# -ne 1 ]; then
  echo "usage: baselines.sh BASELINES" >&2
  exit 2
fi
baselines=$1
mkdir -p "$baselines"
downloads=$(mktemp -d)
trap 'rm -rf "$downloads"' EXIT

# Unpacks an artefact, and keeps its recording under a name.
keep() {
  unzip -q "$1" -d "$1.files"
  for folder in "$1.files" "$1.files/memory"; do
    [ -f "$folder/run.hw" ] || continue
    mv "$folder/run.hw" "$baselines/$2.hw"
    [ ! -d "$folder/run.children" ] || mv "$folder/run.children" "$baselines/$2.children"
  done
}

if [ -n "${GITLAB_CI:-}" ]; then
  # The server may redirect to an object store, which must not see the token: curl would send the header there, too.
  answer=$(curl --silent --show-error --header "JOB-TOKEN: $CI_JOB_TOKEN" --output "$downloads/main" --write-out '%{http_code} %{redirect_url}' \
    "$CI_API_V4_URL/projects/$CI_PROJECT_ID/jobs/artifacts/$CI_DEFAULT_BRANCH/download?job=memory")
  code=${answer%% *}
  case $code in
    3??) code=$(curl --silent --show-error --location --output "$downloads/main" --write-out '%{http_code}' "${answer#* }") ;;
  esac
  case $code in
    200) keep "$downloads/main" main ;;
    404) echo "the branch $CI_DEFAULT_BRANCH has no recording yet" ;;
    *) echo "cannot download the recording of $CI_DEFAULT_BRANCH: the server answers $code" >&2 && exit 1 ;;
  esac
  exit
fi

ask() { curl --silent --show-error --fail --location --header "Authorization: Bearer $GITHUB_TOKEN" "$@"; }
runs="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/actions"
# owner/name/.github/workflows/memory.yml@refs/heads/main
workflow=${GITHUB_WORKFLOW_REF%%@*}
ask "$runs/workflows/${workflow##*/}/runs?branch=${MAIN:-main}&status=success&per_page=3" >"$downloads/runs"
for run in $(jq '.workflow_runs[].id' "$downloads/runs"); do
  ask "$runs/runs/$run/artifacts?name=memory" >"$downloads/artifacts"
  # Artefacts expire.
  file=$(jq --raw-output '[.artifacts[] | select(.expired | not) | .archive_download_url] | first // empty' "$downloads/artifacts")
  [ -n "$file" ] || continue
  ask --output "$downloads/$run" "$file"
  keep "$downloads/$run" "$run"
done
[ -n "$(ls "$baselines")" ] || echo "the branch ${MAIN:-main} has no recording yet"

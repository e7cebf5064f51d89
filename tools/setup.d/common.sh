# shellcheck shell=bash
# shellcheck disable=SC2034  # used by those who source it
# Shared by tools/setup, tools/run and tools/test. Sourced, never run; expects `set -euo pipefail`.
# Everything is written below the repository, but for what apt installs.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
state_dir=$root/.cache/setup
log_dir=$state_dir/logs
lists=$root/tools/setup.d

# Progress goes to stderr: stdout belongs to the program that is run in the end.
say() { printf 'ftrt: %s\n' "$*" >&2; }

die() {
  say "$@"
  exit 1
}

on_terminal() { [[ -t 2 && ${TERM:-dumb} != dumb ]]; }

# show_tail LOG LINES: the end of a log, indented.
show_tail() { tail -n "$2" "$1" 2>/dev/null | sed 's/^/    /' >&2 || true; }

# need_space MEBIBYTES WHAT: refuses to begin what the disk cannot hold.
need_space() {
  local free_kib
  free_kib=$(df -Pk "$root" | awk 'NR == 2 { print $4 }')
  ((free_kib >= $1 * 1024)) && return 0
  die "$2 needs $1 MiB of free disk space at $root, found $((free_kib / 1024)) MiB." \
    "Free some space, then run the same command again."
}

# retried LOG COMMAND...: up to three attempts with a pause between; the output goes to LOG. The
# command inherits the lock, so that one which outlives a killed set-up still keeps others out.
retried() {
  local log=$1 attempt
  shift
  for attempt in 1 2 3; do
    printf '\n== attempt %d: %s\n' "$attempt" "$*" >>"$log"
    "$@" >>"$log" 2>&1 && return 0
    ((attempt < 3)) && sleep $((attempt * 3))
  done
  return 1
}

# step_failed STEP LOG HINT: says which step failed, why, and how to go on.
step_failed() {
  say "step '$1' failed; the end of its log:"
  show_tail "$2" 15
  say "whole log: $2"
  say "how to go on: $3, then run the same command again; what is already in place is kept."
  exit 1
}

fresh_log() {
  mkdir -p "$log_dir"
  : >"$log_dir/$1.log"
  printf '%s\n' "$log_dir/$1.log"
}

# job_count: as many compilers as there are cores, and memory for (1.5 GiB each).
job_count() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable/ { print int($2 / 1572864) }' /proc/meminfo)
  ((memory < 1)) && memory=1
  echo $((cores < memory ? cores : memory))
}

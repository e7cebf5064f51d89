# shellcheck shell=bash
# shellcheck disable=SC2154  # root, lists, state_dir, log_dir: common.sh
# Configuring and building with one progress line. Sourced by tools/run and tools/test.

export CCACHE_DIR=${CCACHE_DIR:-$root/.cache/ccache}

# configure PRESET BUILD_DIR: only where it has never been done or the presets changed; Ninja itself
# notices changes of the CMake files.
configure() {
  local stamp=$2/.presets-digest log digest
  digest=$(sha256sum <"$root/CMakePresets.json")
  [[ -f $2/build.ninja && -f $stamp && $(<"$stamp") == "$digest" ]] && return 0
  log=$(fresh_log "configure-$1")
  say "configuring ($1)"
  (cd "$root" && cmake --preset "$1") >"$log" 2>&1 ||
    step_failed "configure ($1)" "$log" "if the cause is unclear, remove $2"
  printf '%s\n' "$digest" >"$stamp"
}

# Ninja's "[12/140]" from the log, rewritten in place on a terminal, else a line now and then.
watch_build() {
  local pid=$1 log=$2 counter last='' ticks=0
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.25
    ticks=$((ticks + 1))
    counter=$(grep -o '^\[[0-9]*/[0-9]*\]' "$log" 2>/dev/null | tail -n 1 || true)
    [[ -z $counter || $counter == "$last" ]] && continue
    if on_terminal; then
      printf '\r\033[Kftrt: building %s' "$counter" >&2
    elif ((ticks >= 60)); then
      say "building $counter" && ticks=0
    else
      continue
    fi
    last=$counter
  done
  if on_terminal && [[ -n $last ]]; then printf '\r\033[K' >&2; fi
}

# build PRESET BUILD_DIR [TARGET...]: configures, then builds the targets (all of them by default).
# One build at a time in one folder.
build() {
  local preset=$1 dir=$2 log pid
  shift 2
  mkdir -p "$state_dir"
  exec 9>"$state_dir/build-$preset.lock"
  flock -n 9 || { say "another build is at work here, waiting for it" && flock -w 3600 9; } ||
    die "the other build did not end within an hour."
  configure "$preset" "$dir"
  log=$(fresh_log "build-$preset")
  NINJA_STATUS='[%f/%t] ' ninja -C "$dir" -j "$(job_count)" "$@" >"$log" 2>&1 &
  pid=$!
  # Ctrl-C reaches Ninja by itself; any other end of this script must not leave it behind.
  trap 'kill "$pid" 2>/dev/null || true' EXIT
  watch_build "$pid" "$log"
  wait "$pid" || {
    trap - EXIT
    grep -E -A 12 '^FAILED:|error:' "$log" | head -n 40 | sed 's/^/    /' >&2 || true
    step_failed "build ($preset)" "$log" "repair what the compiler names"
  }
  trap - EXIT
  exec 9>&-
}

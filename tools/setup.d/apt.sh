# shellcheck shell=bash
# shellcheck disable=SC2154  # root, lists, state_dir, log_dir: common.sh
# Step `apt`: the Debian packages. Sourced by tools/setup.

wanted_packages() { grep -v '^#' "$lists/apt-packages.txt"; }

# missing_packages PACKAGE...: those that dpkg does not call installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^ii //p' || true)
  comm -23 <(printf '%s\n' "$@" | sort) <(sort <<<"$installed")
}

# as_root COMMAND...; without our lock, which a service that a package starts would keep.
as_root() { if ((EUID == 0)); then "$@" 9>&-; else sudo "$@" 9>&-; fi; }

can_become_root() {
  ((EUID == 0)) ||
    { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; }
}

refuse_without_root() {
  say "these Debian packages are missing, and there is neither root nor sudo to install them:"
  say "    $*"
  say "please ask an administrator of this machine to run:"
  say "    apt-get update && apt-get install --no-install-recommends -y $*"
  say "then run the same command again; nothing has been changed so far."
  exit 1
}

install_packages() {
  local log hint="check the network and /etc/apt/sources.list*"
  can_become_root || refuse_without_root "$@"
  need_space 1500 "the installation of $# Debian packages"
  say "installing $# Debian packages (a minute or two; several where machine or network are busy)"
  log=$(fresh_log apt)
  retried "$log" as_root apt-get update || step_failed "apt update" "$log" "$hint"
  retried "$log" as_root env DEBIAN_FRONTEND=noninteractive apt-get install \
    --no-install-recommends -y -o DPkg::Lock::Timeout=120 "$@" ||
    step_failed "apt install" "$log" "$hint"
}

# ensure_packages PACKAGE...: installs those that are missing.
ensure_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) && return 0
  install_packages "${missing[@]}"
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) ||
    step_failed apt "$log_dir/apt.log" "install ${missing[*]} by hand"
}

setup_apt() {
  if ! command -v dpkg-query >/dev/null; then
    [[ -n ${FTRT_SKIP_APT:-} ]] && return 0
    die "this set-up knows Debian 12 only (no dpkg-query found). Install what" \
      "tools/setup.d/apt-packages.txt names in your own way, then run with FTRT_SKIP_APT=1."
  fi
  local wanted
  mapfile -t wanted < <(wanted_packages)
  ensure_packages "${wanted[@]}"
}

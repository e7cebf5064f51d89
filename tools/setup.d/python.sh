# shellcheck shell=bash
# shellcheck disable=SC2154  # root, lists, state_dir, log_dir: common.sh
# Steps `libtorch` and `python-tests`: wheels in .venv, pinned by version and sha256. Sourced by
# tools/setup.

venv=$root/.venv

# The distribution's own Python first: another one in PATH may be of a version without wheels.
system_python() { if [[ -x /usr/bin/python3 ]]; then echo /usr/bin/python3; else echo python3; fi; }

# make_venv FOLDER LOG
make_venv() {
  "$1/bin/python" -m pip --version >/dev/null 2>&1 && return 0
  "$(system_python)" -m venv --clear "$1" >>"$2" 2>&1 ||
    step_failed "virtual environment" "$2" "check that python3-venv is installed"
}

pip_install() {
  TMPDIR=$state_dir/tmp PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    "$venv/bin/python" -m pip install --no-deps --require-hashes --only-binary :all: "$@"
}

# wheels_intact LIST: every wheel of the list is there in its version, and each file that it brought
# has its size: an installation that was cut short is found out here.
wheels_intact() {
  "$venv/bin/python" - "$1" <<'PY'
import importlib.metadata as metadata, os, sys
for line in open(sys.argv[1]):
    if line.startswith("#") or not line.strip():
        continue
    name, version = line.split()[0].split("==")
    wheel = metadata.distribution(name)
    assert wheel.version == version, f"{name}: expected {version}, found {wheel.version}"
    for file in wheel.files:
        if file.size is not None and "__pycache__" not in file.parts:
            found = os.stat(file.locate()).st_size
            assert found == file.size, f"{file}: expected {file.size} bytes, found {found}"
PY
}

# setup_wheels STEP MEBIBYTES SECONDS KEY_FILE...: the wheels of setup.d/STEP.txt. The stamp holds
# the list's digest and lies in the environment, so that it goes when the environment goes.
setup_wheels() {
  local step=$1 space=$2 seconds=$3 list=$lists/$1.txt stamp=$venv/.ftrt-$1 digest log file fresh=1
  shift 3
  digest=$(sha256sum <"$list")
  [[ -f $stamp && $(<"$stamp") == "$digest" ]] || fresh=0
  for file in "$@"; do compgen -G "$venv/lib/python3*/site-packages/$file" >/dev/null || fresh=0; done
  ((fresh)) && return 0

  log=$(fresh_log "$step")
  mkdir -p "$state_dir/tmp"
  make_venv "$venv" "$log"
  if ! wheels_intact "$list" >>"$log" 2>&1; then
    need_space "$space" "step '$step'"
    say "installing $step into .venv (about $seconds seconds)"
    retried "$log" pip_install --force-reinstall -r "$list" ||
      step_failed "$step" "$log" "check the network, and that $venv/bin/python is CPython 3.11"
    wheels_intact "$list" >>"$log" 2>&1 || step_failed "$step" "$log" "remove $venv"
  fi
  printf '%s\n' "$digest" >"$stamp.new" && mv "$stamp.new" "$stamp"
}

setup_libtorch() {
  setup_wheels libtorch 3000 60 torch/lib/libtorch_cpu.so torch/include/ATen/ATen.h \
    nvidia/cu13/lib/libcudart.so.13 nvidia/cu13/lib/libcupti.so.13
}

setup_python_tests() {
  setup_wheels python-tests 400 20 numpy/__init__.py safetensors/numpy.py tensorboard/version.py
}

# A Python that imports torch, for who wants to look into checkpoints with safetensors.torch: .venv
# cannot (its torch asks for 3.5 GB of CUDA libraries), Debian's CPU build can.
setup_python_torch() {
  local folder=$root/.cache/python-torch list=$state_dir/python-torch.txt log pinned
  pinned=$(grep '^safetensors==' "$lists/python-tests.txt")
  [[ -f $folder/.ftrt && $(<"$folder/.ftrt") == "$pinned" ]] && return 0
  ensure_packages python3-torch
  say "preparing .cache/python-torch"
  log=$(fresh_log python-torch)
  /usr/bin/python3 -m venv --clear --system-site-packages "$folder" >"$log" 2>&1 ||
    step_failed "virtual environment" "$log" "check that python3-venv is installed"
  printf '%s\n' "$pinned" >"$list"
  retried "$log" "$folder/bin/python" -m pip install --no-deps --require-hashes --no-cache-dir \
    -r "$list" || step_failed python-torch "$log" "check the network"
  "$folder/bin/python" -c 'from safetensors.torch import load_file' >>"$log" 2>&1 ||
    step_failed python-torch "$log" "remove $folder"
  printf '%s\n' "$pinned" >"$folder/.ftrt"
}

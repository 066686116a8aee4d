#!/usr/bin/env bash
# The pool under ThreadSanitizer, the kernel tests under AddressSanitizer and UndefinedBehaviorSanitizer, on Linux with gcc:
#     tests/sanitize.sh [arguments of pytest]      default: tests/kernels and the fuzzing of the kernels
# Builds the extensions in a temporary copy of the tree. PYTHON names an interpreter whose environment has the
# `dev` extra and the build requirements of pyproject.toml (default: python).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(command -v "${PYTHON:-python}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Only what the build and the tests read; nothing compiled.
tar -c --exclude='*.so' --exclude=__pycache__ \
    minidl minidl_kernels tests bench docs setup.py pyproject.toml README.md LICENSE | tar -x -C "$work"

# The pool alone, strained by a small program: CPython is not built for ThreadSanitizer.
"$python" - <<'PRINT' >"$work/flags"
from sysconfig import get_config_var as var, get_path
print(f"-I{get_path('include')} -L{var('LIBDIR')} -Wl,-rpath,{var('LIBDIR')} -lpython{var('LDVERSION')}")
PRINT
gcc -g -O1 -fsanitize=thread -Wno-unused-function -Iminidl_kernels/cpu tests/kernels/pool_stress.c -o "$work/pool" \
    $(cat "$work/flags")
"$work/pool"

# A compiler that adds the sanitizers after everything setup.py says. -fno-wrapv: CPython's own flags have
# -fwrapv, which switches the check of signed overflow off.
cat >"$work/cc" <<'WRAPPER'
#!/bin/sh
exec gcc "$@" -O1 -g -fno-omit-frame-pointer -fno-wrapv -fsanitize=address,undefined
WRAPPER
chmod +x "$work/cc"
cd "$work"
CC="$work/cc" LDSHARED="$work/cc -pthread -shared" "$python" setup.py -q build_ext --inplace

export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
# CPython leaks on purpose at exit. Sizes that nobody has must come back as NULL, as they do elsewhere.
# Reports go to files, or past pytest (-s), which would swallow what a dying process prints.
export ASAN_OPTIONS="detect_leaks=0:halt_on_error=1:allocator_may_return_null=1:max_allocation_size_mb=4096:log_path=$work/report"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:log_path=$work/report"
export PYTHONMALLOC=malloc          # so that objects of Python are watched too
if [ $# -eq 0 ]; then
    set -- tests/kernels tests/test_fuzz.py -k "not (test_fuzz and (F or Tensor or md))"
fi
status=0
"$python" -m pytest -n 0 -v -s -p no:cacheprovider "$@" >"$work/log" 2>&1 || status=$?
unset LD_PRELOAD
tail -n 25 "$work/log"
# A size that nobody has is a warning there, which is no fault; everything else is.
if grep -lE "ERROR: |runtime error: " "$work"/report* 2>/dev/null; then
    head -n 60 "$work"/report*
    status=1
fi
exit "$status"

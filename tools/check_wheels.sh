#!/usr/bin/env bash
# Install the built wheels in a fresh virtual environment without a compiler or cargo on the PATH, and
# run what a new user would: the README's examples, and a reproduction in its quick form.
#
# Usage: tools/check_wheels.sh WHEELS [REPRODUCTION]
# WHEELS is a folder with one wheel of each distribution. The reproduction (letor, by default) runs if
# RANKING_DATA names the folder of data sets. PYTHON is the interpreter.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
wheels=$(cd "${1:?a folder of wheels}" && pwd)
reproduction=${2:-letor}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for wheel in "$wheels"/*.whl; do
  "${PYTHON:-python3}" - "$wheel" <<'CHECK'
import re
import sys
import zipfile

allowed = re.compile(r"ranking/include/ranking/native\.h$|\.tmpl$")
source = re.compile(r"\.(c|h|pyx|pxd|rs|build|orig)$|(^|/)(Cargo|meson)\b")
names = [name for name in zipfile.ZipFile(sys.argv[1]).namelist() if not allowed.search(name)]
found = [name for name in names if source.search(name)]
assert not found, f"the wheel holds sources: {found}"
assert any("/licenses/" in name for name in names), "the wheel has no licence"
CHECK
done

"${PYTHON:-python3}" -m venv "$scratch/venv"
mkdir "$scratch/bin" "$scratch/work"
for tool in sh env cat rm; do ln -s "$(command -v "$tool")" "$scratch/bin/$tool"; done
# The extra is how users install both halves; the version that is built here is in no index.
"$scratch/venv/bin/pip" install --quiet --only-binary :all: --find-links "$wheels" "ranking-kit[rust]"
export PATH="$scratch/venv/bin:$scratch/bin"
hash -r
for tool in cc gcc clang cargo rustc; do
  if command -v "$tool"; then echo "$tool is on the PATH" && exit 1; fi
done

cd "$scratch/work"
python -c 'from ranking import get_kernel; assert get_kernel("rust"); assert get_kernel("cython")'
python - "$repository/README.md" <<'EXAMPLES'
import re
import subprocess
import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text(encoding="utf-8")
for language, body in re.findall(r"^```(python|console)\n(.*?)^```", text, flags=re.M | re.S):
    if language == "python":
        subprocess.run([sys.executable, "-c", body], check=True)
        continue
    for command in re.findall(r"^\$ (ranking .*)", body, flags=re.M):
        print("$", command, flush=True)
        subprocess.run(["sh", "-c", command], check=True)
EXAMPLES
if [ -n "${RANKING_DATA:-}" ]; then
  ranking reproduce "$reproduction" --quick --data "$RANKING_DATA"
else
  echo "RANKING_DATA is not set: no reproduction"
fi
echo "the wheels work"

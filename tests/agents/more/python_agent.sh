#!/bin/sh
# Installs an agent that comes from PyPI into an environment of its own: python_agent.sh FOLDER PACKAGE…
# Agents differ in the Python that they need, so each one found here is tried, until one will do.
folder=$(dirname "$0")/$1
agent=$1
shift
for python in "${PYTHON:-python3}" python3.12 python3.13 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[23].*/bin/python3; do
    "$python" -c 'import venv' 2>/dev/null || continue
    rm -rf "$folder"
    "$python" -m venv "$folder" &&
        "$folder/bin/python" -m pip install --quiet --only-binary "${1%%=*}" "$@" 2>/dev/null && exit 0
done
rm -rf "$folder"
echo "no $agent here: no Python could install $*"

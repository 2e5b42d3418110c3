#!/bin/sh
# Installs the packages of requirements.lock, and jetbridge, into .venv; does nothing if it is done.
# Needs only python3 (3.11 or newer) and a package index.
set -eu
cd "$(dirname "$0")/.."

# Variables of an activated environment or of another tool must not change what is installed where.
# Settings of indexes and certificates (PIP_INDEX_URL, UV_DEFAULT_INDEX, PIP_CERT, ...) stay.
unset VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE \
    PIP_TARGET PIP_PREFIX PIP_ROOT PIP_USER PIP_PYTHON PIP_REQUIRE_HASHES PIP_CONSTRAINT \
    PIP_REQUIREMENT PIP_NO_DEPS PIP_NO_BINARY PIP_ONLY_BINARY PIP_DRY_RUN \
    UV_PYTHON UV_SYSTEM_PYTHON UV_PROJECT_ENVIRONMENT UV_PROJECT UV_WORKING_DIR UV_CONSTRAINT \
    UV_OVERRIDE UV_EXCLUDE_NEWER UV_NO_BINARY UV_NO_BUILD UV_NO_BUILD_ISOLATION UV_RESOLUTION \
    UV_PRERELEASE UV_REQUIRE_HASHES UV_NO_VERIFY_HASHES UV_BREAK_SYSTEM_PACKAGES UV_TORCH_BACKEND \
    2>/dev/null || true
# The system's store holds the certificates of private package indexes. uv reads it only if asked.
: "${UV_SYSTEM_CERTS:=1}"
export UV_SYSTEM_CERTS

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# Two runs at once would damage .venv. Without flock (macOS), nothing prevents that.
if command -v flock >/dev/null 2>&1; then
    exec 9<"tools/setup.sh"
    flock 9
fi

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

stamp=.venv/.jetbridge-setup
key="$(pwd) $(cat requirements.lock pyproject.toml tools/setup.sh | cksum)"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ] && new_enough .venv/bin/python \
    && [ -x .venv/bin/jetbridge ]; then
    exit 0
fi

find_python() {
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$name"; then
            printf '%s\n' "$name"
            return
        fi
    done
    fail "Python 3.11 or newer is needed, found $(python3 --version 2>&1 || echo none)." \
        "Debian 12, Ubuntu 24.04 or newer: apt-get install python3 python3-venv;" \
        "elsewhere put python3.11 to python3.14 on PATH."
}

need_venv_module() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1 && return
    package="$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing $package, which this Python lacks" >&2
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y "$package"; } \
            >&2 || fail "apt-get could not install $package"
    fi
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1 \
        || fail "$1 has no venv module. Run: sudo apt-get install $package"
}

# What Spark and the tests need besides Python; everything else works without it.
has_java() {
    for java in "${JAVA_HOME:-}/bin/java" "$(command -v java)" /usr/lib/jvm/*/bin/java; do
        if [ -x "$java" ] && "$java" -version 2>&1 | grep -Eq 'version "(17|21)[."]'; then
            return 0
        fi
    done
    return 1
}

has_postgres() {
    for postgres in "$(command -v postgres)" /usr/lib/postgresql/*/bin/postgres; do
        if [ -x "$postgres" ]; then
            return 0
        fi
    done
    return 1
}

has_library() {
    ldconfig -p 2>/dev/null | grep -q "$1" || ls /usr/lib/*/"$1" >/dev/null 2>&1
}

has_ltdl() { has_library libltdl.so.7; }

has_gssapi() { has_library libgssapi_krb5.so.2; }

# need_package CHECK PACKAGE WHY
need_package() {
    "$1" && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: installing $2, which $3" >&2
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
            --no-install-recommends "$2"; } >&2 || true
    fi
    "$1" || echo "setup: warning: $2 is missing, which $3; install it: apt-get install $2" >&2
}

need_package has_java openjdk-17-jre-headless "Spark needs (or any Java 17 or 21, in JAVA_HOME)"
need_package has_postgres postgresql "the tests of PostgreSQL catalogs need"
need_package has_ltdl libltdl7 "Microsoft's driver for SQL Server needs"
need_package has_gssapi libgssapi-krb5-2 "Microsoft's driver for SQL Server needs"

if ! new_enough .venv/bin/python; then
    python="$(find_python)"
    need_venv_module "$python"
    "$python" -m venv --clear .venv || fail "could not create .venv with $python"
fi

# uv comes from the same lock as everything else, so its hash is checked, too.
block="$(awk '/^uv==/ { on = 1 } on { print } on && !/\\$/ { exit }' requirements.lock)"
version="$(printf '%s\n' "$block" | sed -n 's/^uv==\([^ ]*\).*/\1/p')"
if [ "$(.venv/bin/uv --version 2>/dev/null | cut -d ' ' -f 2)" != "$version" ]; then
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null \
        || fail ".venv has no pip and cannot get one: delete .venv and run make setup again"
    requirement=.venv/uv-requirement.txt
    printf '%s\n' "$block" >"$requirement"
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes \
        -r "$requirement" || fail "could not install uv from the package index"
    rm -f "$requirement"
fi

# Compile now: a server that may not write the cache would compile at every start, which takes 2 s.
.venv/bin/uv pip sync -q --compile-bytecode --python .venv/bin/python --require-hashes \
    requirements.lock \
    || fail "could not install the packages of requirements.lock"
# The build backend is in the lock, too, so nothing outside of the lock is downloaded.
.venv/bin/uv pip install -q --python .venv/bin/python --no-deps --no-build-isolation -e . \
    || fail "could not install jetbridge itself into .venv"
printf '%s\n' "$key" >"$stamp"
echo "setup: .venv is ready" >&2

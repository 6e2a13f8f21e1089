#!/usr/bin/env bash
# kernel-sources.sh FOLDER: lays out the idle governors of Debian's kernels, FOLDER/6.1 and
# FOLDER/6.12, for the parity check. Installs the source packages where they are missing.
set -euo pipefail
to=$1

# Installs a package, within a time that suits a slow mirror.
install_package() {
    if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
        echo "parity: $1 is missing; install it (apt-get install $1), as root on Debian 12 or later" >&2
        exit 2
    fi
    export DEBIAN_FRONTEND=noninteractive
    echo "parity: installing $1" >&2
    if ! { timeout 300 apt-get update -qq &&
        timeout 600 apt-get install -y -qq --no-install-recommends "$1" >/dev/null; }; then
        echo "parity: $1 cannot be installed; it comes with Debian 12 (main and security)" >&2
        exit 2
    fi
}

for release in 6.1 6.12; do
    package=linux-source-$release
    archive=/usr/src/$package.tar.xz
    [ -f "$archive" ] || install_package "$package"
    # Unpacking reads half of an archive of 1 GB: only when the package has changed.
    version=$(stat --format '%s %Y' "$archive")
    if [ "$(cat "$to/$release/.version" 2>/dev/null)" = "$version" ]; then
        continue
    fi
    files=(haltpoll.c ladder.c menu.c teo.c)
    [ "$release" = 6.1 ] || files+=(gov.h)
    rm -rf "${to:?}/$release"
    mkdir -p "$to/$release"
    # Stops at the last of them.
    tar --extract --xz --file "$archive" --directory "$to/$release" --strip-components 4 \
        --occurrence=1 "${files[@]/#/$package/drivers/cpuidle/governors/}"
    echo "$version" >"$to/$release/.version"
done

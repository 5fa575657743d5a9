#!/bin/sh
# Fetch source packages of Debian into a folder, each under its name without a version, so that what is held out by
# name stays held out in the next release. Needs apt and dpkg-dev, no root; packages that are not there are named.
#   sh recipes/sources.sh FOLDER [PACKAGE ...]      without packages: those of recipes/sources.txt
set -eu
folder=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- $(grep -v '^#' "$here/sources.txt")
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/sources"
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
echo "deb-src ${DEBIAN_MIRROR:-http://deb.debian.org/debian} $release main" > "$apt/sources.list"
apt_get() {
    apt-get -q -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User="$(id -un)" "$@"
}
apt_get update > /dev/null
for package in "$@"; do
    [ ! -d "$folder/$package" ] || continue
    rm -rf "$apt/sources" && mkdir "$apt/sources"
    if (cd "$apt/sources" && apt_get source "$package" > log 2>&1); then
        mv "$(find "$apt/sources" -mindepth 1 -maxdepth 1 -type d)" "$folder/$package"
    else
        echo "$package: $(grep '^E:' "$apt/sources/log" | head -n 1)" >&2
    fi
done

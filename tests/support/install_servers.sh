#!/bin/sh
# install_servers.sh FOLDER: install the servers that the tests start themselves, those that are missing here.
# No system service is started, now or at the next boot: while apt works, a policy forbids it, as in a container.
# Where Debian has no Valkey yet, FOLDER/valkey-server starts that of the next release with the libraries that it was built for.
# What cannot be had is left out: its tests are skipped and say so.
mkdir -p "$1"
folder=$(cd "$1" && pwd)

install() {
  apt-get install --yes --quiet --no-install-recommends "$1" || return 1
  command -v systemctl >/dev/null && systemctl disable --quiet "$1" 2>/dev/null
  return 0
}

take_valkey() {
  cd "$folder" || return 1
  mkdir -p lists/partial root
  archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie main" > sources
  next="-o Dir::Etc::sourcelist=$folder/sources -o Dir::Etc::sourceparts=- -o Dir::State::lists=$folder/lists -o APT::Sandbox::User=root"
  apt-get $next update --quiet || return 1
  apt-get $next download --quiet valkey-server valkey-tools libatomic1/trixie libc6/trixie libcap2/trixie libgcc-s1/trixie \
    libjemalloc2/trixie liblzf1/trixie libssl3t64/trixie libstdc++6/trixie libsystemd0/trixie libzstd1/trixie zlib1g/trixie || return 1
  for package in *.deb; do dpkg-deb --extract "$package" root || return 1; done
  rm -rf ./*.deb lists sources root/usr/share
  libraries=$folder/root/usr/lib/x86_64-linux-gnu
  printf '#!/bin/sh\nexec %s/ld-linux-x86-64.so.2 --library-path %s %s/root/usr/bin/valkey-server "$@"\n' \
    "$libraries" "$libraries" "$folder" > starting
  chmod 755 starting
  ./starting --version && mv starting valkey-server
}

missing=""
command -v redis-server >/dev/null || missing="$missing redis-server"
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
command -v pgbouncer >/dev/null || missing="$missing pgbouncer"
command -v valkey-server >/dev/null || [ -x "$folder/valkey-server" ] || missing="$missing valkey-server"
[ -n "$missing" ] || exit 0
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy" && trap 'rm -f "$policy"' EXIT
fi
apt-get update --quiet
for server in $missing; do
  install "$server" || { [ "$server" = valkey-server ] && (take_valkey); } || echo "$server cannot be had here"
done
exit 0

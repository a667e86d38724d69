#!/bin/sh
# install_servers.sh: install the servers that the tests start themselves, those that are missing here.
# No system service is started, now or at the next boot: while apt works, a policy forbids it, as in a container.
# What cannot be had is left out: its tests are skipped and say so.
missing=""
command -v redis-server >/dev/null || missing="$missing redis-server"
command -v valkey-server >/dev/null || missing="$missing valkey-server"
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
[ -n "$missing" ] || exit 0
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy" && trap 'rm -f "$policy"' EXIT
fi
apt-get update --quiet || exit 0
for server in $missing; do
  apt-get install --yes --quiet --no-install-recommends "$server" || { echo "$server cannot be had here"; continue; }
  command -v systemctl >/dev/null && systemctl disable --quiet "$server" 2>/dev/null
done
exit 0

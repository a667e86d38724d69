#!/bin/sh
# git_tools.sh FOLDER: put the newest git of Debian and git-lfs into a folder. Nothing of the machine is changed.
# FOLDER/newer/git starts that git with the C library that it was built for; FOLDER/lfs/git-lfs is the other.
# Fails where there is no apt.
set -e
mkdir -p "$1"
cd "$1"
folder=$PWD
mkdir -p lists/partial newer lfs root
archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive sid main" > sources
of_sid="-o Dir::Etc::sourcelist=$folder/sources -o Dir::Etc::sourceparts=- -o Dir::State::lists=$folder/lists -o APT::Sandbox::User=root"
apt-get $of_sid update --quiet
apt-get $of_sid download --quiet git/sid git-lfs/sid libc6/sid libpcre2-8-0/sid zlib1g/sid
for package in *.deb; do dpkg-deb --extract "$package" root; done
rm -rf ./*.deb lists sources root/usr/share
libraries=$folder/root/usr/lib/x86_64-linux-gnu
starts() { printf '#!/bin/sh\n%sexec %s/ld-linux-x86-64.so.2 --library-path %s %s/root/usr/bin/%s "$@"\n' "$2" "$libraries" "$libraries" "$folder" "$1"; }
starts git "GIT_EXEC_PATH=$folder/newer " > newer/git
starts git-lfs "" > lfs/git-lfs
chmod 755 newer/git lfs/git-lfs
newer/git --version
lfs/git-lfs version

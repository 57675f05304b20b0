#!/bin/sh
# Takes what the boot before this one left in memory, and replaces an earlier one's trace by it.
set -eu
out=$1

# Complete, as the extractor's directories are; this script did not come to the next line.
finish() {
	rm -rf "$out"
	mv "$out.new" "$out"
}

[ ! -d "$out.new" ] || finish
status=0
said=$(bootmark extract --boot -1 --output "$out.new" 2>&1) || status=$?
case $status in
0)
	finish
	echo "$said"
	;;
3) ;; # There was none.
*)
	echo "$said" >&2
	exit "$status"
	;;
esac

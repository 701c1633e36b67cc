#!/bin/sh
# Ends what a test process leaves behind. The first line of its input is the folder of a server, the end of its input is
# the end of the test process, however that came about. What names the folder in its command line is killed, and the
# folder is gone.
trap '' HUP INT TERM
read -r folder || exit 0
cat >/dev/null
case $folder in
    */fl-*) ;;
    *) exit 1 ;;
esac
for command in /proc/[0-9]*/cmdline; do
    pid=${command#/proc/}
    pid=${pid%/cmdline}
    [ "$pid" != "$$" ] || continue
    if grep -qF -- "$folder" "$command" 2>/dev/null; then
        kill -9 "$pid" 2>/dev/null
    fi
done
rm -rf -- "$folder" || { sleep 1 && rm -rf -- "$folder"; }

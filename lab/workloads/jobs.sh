#!/bin/sh
# A mix of short jobs with pipes and temporary files.
for i in 1 2 3 4; do
    awk 'BEGIN { for (i = 0; i < 4000; i++) print (i * 7919) % 4001, i }' > /tmp/numbers || exit 1
    sort -n /tmp/numbers | uniq | wc -l > /tmp/count
    gzip -1 < /tmp/numbers | gunzip | tail -n 1 > /tmp/last
    grep -c 7 /tmp/numbers > /tmp/found
    [ -s /tmp/count ] && [ -s /tmp/last ] || exit 1
done
rm -f /tmp/numbers /tmp/count /tmp/last /tmp/found

#!/bin/sh
# Compiles one generated C file again and again, 4 at a time.
awk 'BEGIN { for (i = 0; i < 300; i++) printf "static int f%d(int x) { int a[8] = {x}; for (int i = 0; i < 8; i++) a[i & 7] += x * %d; return a[x & 7]; }\n", i, i;
    print "int main(int c, char **v) { (void)v; return f7(c) + f99(c); }" }' > /tmp/gen.c
for i in 1 2 3; do
    for j in 1 2 3 4; do
        tcc -c -o /tmp/gen$j.o /tmp/gen.c || exit 1 &
        last=$!
    done
    wait $last || exit 1
    wait
done
rm -f /tmp/gen*

/* Loads the library, uses a pool, unloads the library and continues. The kernel reads the descriptor of a restartable
 * sequence when it interrupts the thread, so none of the library may remain registered. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pageset.h"

/* Finds a function of the library. POSIX lets a data pointer represent it. */
static void find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
}

int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return puts(dlerror()), 1;
    __typeof__(&pageset_options_init) options_init;
    __typeof__(&pageset_pool_create) create;
    __typeof__(&pageset_pool_destroy) destroy;
    __typeof__(&pageset_alloc) alloc;
    __typeof__(&pageset_free) free_run;
    find(library, "pageset_options_init", &options_init);
    find(library, "pageset_pool_create", &create);
    find(library, "pageset_pool_destroy", &destroy);
    find(library, "pageset_alloc", &alloc);
    find(library, "pageset_free", &free_run);

    pageset_options options;
    pageset_pool *pool;
    options_init(&options, sizeof options, UINT64_C(64) << 20);
    if (create(&options, &pool) != PAGESET_OK) return puts("no pool"), 1;
    for (int i = 0; i < 1000; i++) {
        void *run = alloc(pool, 0);
        if (!run || free_run(pool, run, 0) != PAGESET_OK) return puts("no run"), 1;
    }
    if (destroy(pool) != PAGESET_OK) return puts("not destroyed"), 1;
    if (dlclose(library) != 0) return puts(dlerror()), 1;

    /* Runs for 0.1 s of CPU time, so that the timer interrupts the thread many times. */
    for (clock_t end = clock() + CLOCKS_PER_SEC / 10; clock() < end;) {}
    puts(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) ? "still loaded" : "unloaded");
    return 0;
}

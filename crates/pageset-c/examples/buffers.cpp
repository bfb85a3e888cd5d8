// A pool and its runs as C++ objects: destructors free them, and errors become exceptions. No exception crosses the
// library.
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pageset.h"

class Pool {
public:
    explicit Pool(std::uint64_t bytes) {
        pageset_options options;
        pageset_options_init(&options, sizeof options, bytes);
        if (pageset_pool_create(&options, &pool_) != PAGESET_OK) throw std::runtime_error(pageset_last_error());
    }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;
    ~Pool() { pageset_pool_destroy_with_pages(pool_); }

    struct Free {
        pageset_pool *pool;
        unsigned order;
        void operator()(void *run) const { pageset_free(pool, run, order); }
    };
    using Pages = std::unique_ptr<void, Free>;

    Pages pages(unsigned order) {
        void *run = pageset_alloc(pool_, order);
        if (!run) throw std::bad_alloc();
        return Pages(run, Free{pool_, order});
    }

    pageset_stats stats() const {
        pageset_stats stats;
        pageset_get_stats(pool_, &stats, sizeof stats);
        return stats;
    }

private:
    pageset_pool *pool_ = nullptr;
};

int main() {
    try {
        Pool pool(std::uint64_t(64) << 20);
        std::vector<std::thread> threads;
        for (int n = 0; n < 4; n++) {
            threads.emplace_back([&pool, n] {
                std::vector<Pool::Pages> held;
                for (unsigned i = 0; i < 200; i++) {
                    unsigned order = i % 4;
                    held.push_back(pool.pages(order));
                    std::memset(held.back().get(), n, std::size_t(PAGESET_PAGE_BYTES) << order);
                }
            });
        }
        for (auto &thread : threads) thread.join();
        std::printf("%llu bytes in use\n", static_cast<unsigned long long>(pool.stats().in_use_bytes));

        try {
            Pool none(0);
        } catch (const std::runtime_error &error) {
            std::printf("%s\n", error.what());
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

// The hash set of S2 in C++: `std::unordered_set<int>` over the standard allocator, over the
// standard library's pool resource, and over a textbook pool. The build script compiles it if there
// is a C++ compiler. Rust calls the functions at the end.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

// The number of single nodes that counting sets have allocated.
std::uint64_t allocations = 0;

// The heap: `new` and `delete`.
template <class T>
struct Heap {
    using value_type = T;

    Heap() = default;
    template <class U>
    Heap(const Heap<U>&) noexcept {}

    T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T))); }
    void deallocate(T* at, std::size_t n) noexcept { ::operator delete(at, n * sizeof(T)); }

    template <class U>
    bool operator==(const Heap<U>&) const noexcept { return true; }
    template <class U>
    bool operator!=(const Heap<U>&) const noexcept { return false; }
};

// A pool for one type and one thread: chunks of 64 slots. It hands out the most recently freed slot
// first. Thread exit frees the chunks.
template <class T>
class Slots {
    union Slot {
        Slot* next;
        alignas(T) unsigned char object[sizeof(T)];
    };

    static constexpr std::size_t chunk = 64;

    Slot* free = nullptr;
    std::vector<std::unique_ptr<Slot[]>> chunks;

    void grow() {
        chunks.push_back(std::unique_ptr<Slot[]>(new Slot[chunk]));
        Slot* const first = chunks.back().get();
        for (std::size_t i = chunk; i-- > 0;) {
            first[i].next = free;
            free = &first[i];
        }
    }

public:
    T* take() {
        if (free == nullptr) {
            grow();
        }
        Slot* const slot = free;
        free = slot->next;
        return reinterpret_cast<T*>(slot);
    }

    void give(T* at) noexcept {
        Slot* const slot = reinterpret_cast<Slot*>(at);
        slot->next = free;
        free = slot;
    }

    static Slots& here() {
        static thread_local Slots slots;
        return slots;
    }
};

// The textbook pool as an allocator: single objects come from the pool, arrays from the heap.
template <class T>
struct Pooled {
    using value_type = T;

    Pooled() = default;
    template <class U>
    Pooled(const Pooled<U>&) noexcept {}

    T* allocate(std::size_t n) { return n == 1 ? Slots<T>::here().take() : Heap<T>().allocate(n); }
    void deallocate(T* at, std::size_t n) noexcept {
        if (n == 1) {
            Slots<T>::here().give(at);
        } else {
            Heap<T>().deallocate(at, n);
        }
    }

    template <class U>
    bool operator==(const Pooled<U>&) const noexcept { return true; }
    template <class U>
    bool operator!=(const Pooled<U>&) const noexcept { return false; }
};

// Counts the single nodes that an allocator hands out.
template <class A>
struct Counted : A {
    using value_type = typename std::allocator_traits<A>::value_type;

    template <class U>
    struct rebind {
        using other = Counted<typename std::allocator_traits<A>::template rebind_alloc<U>>;
    };

    Counted(const A& inner) : A(inner) {}
    Counted() = default;
    template <class B>
    Counted(const Counted<B>& other) noexcept : A(static_cast<const B&>(other)) {}

    value_type* allocate(std::size_t n) {
        allocations += n == 1;
        return A::allocate(n);
    }
};

// Adds a word to a checksum, as the Rust side does.
std::uint64_t mix(std::uint64_t sum, std::uint64_t word) {
    const std::uint64_t product = (sum ^ word) * 0x9E3779B97F4A7C15u;
    return product << 29 | product >> 35;
}

struct Work {
    virtual ~Work() = default;
    virtual std::uint64_t run(std::uint64_t units) = 0;
};

template <class A>
class Elements final : public Work {
    std::pmr::unsynchronized_pool_resource resource;
    std::vector<int> keys;
    bool again;
    std::unordered_set<int, std::hash<int>, std::equal_to<int>, A> set;

    A allocator() {
        if constexpr (std::is_constructible_v<A, std::pmr::polymorphic_allocator<int>>) {
            return A(std::pmr::polymorphic_allocator<int>(&resource));
        } else {
            return A();
        }
    }

    std::uint64_t fill() {
        std::uint64_t inserted = 0;
        for (const int key : keys) {
            inserted += set.insert(key).second;
        }
        return inserted;
    }

public:
    Elements(const int* first, std::size_t n, bool insert_again)
        : keys(first, first + n), again(insert_again), set(allocator()) {
        set.reserve(n);
        if (again) {
            fill();
        }
    }

    std::uint64_t run(std::uint64_t units) override {
        std::uint64_t sum = 0;
        for (std::uint64_t unit = 0; unit < units; ++unit) {
            std::uint64_t erased = 0;
            if (again) {
                for (const int key : keys) {
                    erased += set.erase(key);
                }
            }
            const std::uint64_t inserted = fill();
            sum = mix(sum, erased << 40 ^ inserted << 20 ^ set.size());
            if (!again) {
                set.clear();
            }
        }
        return sum;
    }
};

template <class A>
Work* make(const int* keys, std::size_t n, bool again, bool counted) {
    if (counted) {
        return new Elements<Counted<A>>(keys, n, again);
    }
    return new Elements<A>(keys, n, again);
}

}  // namespace

extern "C" {

// Returns a set over allocator 0 (the heap), 1 (the pool resource) or 2 (the textbook pool).
// Returns null if the set cannot be made.
void* ephemera_set_new(int allocator, const int* keys, std::size_t n, bool again, bool counted) noexcept {
    try {
        switch (allocator) {
        case 0:
            return make<Heap<int>>(keys, n, again, counted);
        case 1:
            return make<std::pmr::polymorphic_allocator<int>>(keys, n, again, counted);
        case 2:
            return make<Pooled<int>>(keys, n, again, counted);
        default:
            return nullptr;
        }
    } catch (...) {
        return nullptr;
    }
}

// Runs a number of units and returns the checksum. Stores the number of single nodes that counting
// sets have allocated since the last call. Ends the process if memory runs out.
std::uint64_t ephemera_set_run(void* set, std::uint64_t units, std::uint64_t* allocated) noexcept {
    const std::uint64_t sum = static_cast<Work*>(set)->run(units);
    *allocated = std::exchange(allocations, 0);
    return sum;
}

void ephemera_set_free(void* set) noexcept {
    delete static_cast<Work*>(set);
}

}

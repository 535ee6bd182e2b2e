// Allocates at the far end of what C++ adds to calls: exceptions on their way, destructors that they run, virtual and inlined
// functions, lambdas, callbacks of algorithms. Prints what libgcc's unwinder says about the stack there.
#include "traces.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {
volatile int unknown;
constexpr size_t EXCEPTIONS = 80001, CALLS = 80101, INLINED = 80201, STATICS = 80301;
} // namespace

namespace shapes {

OWN_FRAME void allocate_here(size_t size) { ALLOCATE(size); }

// Runs while an exception passes: the frames of what threw are still there, below.
struct AllocatesAsItDies {
    size_t size;
    explicit AllocatesAsItDies(size_t size) : size(size) {}
    OWN_FRAME ~AllocatesAsItDies() { ALLOCATE(size); }
};

OWN_FRAME void throw_it(int depth) {
    AllocatesAsItDies dies(EXCEPTIONS + 10 + size_t(depth));
    if (depth == 0) throw std::runtime_error("through frames");
    throw_it(depth - 1);
    unknown += 0;
}

OWN_FRAME void catch_and_rethrow() {
    try {
        throw_it(3);
    } catch (const std::exception &) {
        allocate_here(EXCEPTIONS);
        throw;
    }
}

OWN_FRAME void through_exceptions() {
    try {
        catch_and_rethrow();
    } catch (const std::runtime_error &) {
        allocate_here(EXCEPTIONS + 1);
    }
    allocate_here(EXCEPTIONS + 2); // the stack that was unwound is gone
}

struct Shape {
    virtual void visit(size_t size) = 0;
    virtual ~Shape() = default;
};

template <int SIDES> struct Polygon : Shape {
    OWN_FRAME void visit(size_t size) override {
        ALLOCATE(size + SIDES);
        unknown += 0;
    }
};

inline __attribute__((always_inline)) void inlined_inner(size_t size) { ALLOCATE(size); }
inline __attribute__((always_inline)) void inlined_middle(size_t size) {
    inlined_inner(size);
    unknown += 0;
}
OWN_FRAME void not_inlined_outer(size_t size) {
    inlined_middle(size);
    unknown += 0;
}

OWN_FRAME void through_calls() {
    Polygon<3> triangle;
    Polygon<4> square;
    Shape *all[] = {&triangle, &square};
    for (Shape *shape : all) shape->visit(CALLS);

    std::vector<int> numbers{3, 1, 2, 7, 5};
    bool first = true;
    std::sort(numbers.begin(), numbers.end(), [&](int a, int b) {
        if (first) {
            first = false;
            allocate_here(CALLS + 10);
        }
        return a < b;
    });
    std::function<void(size_t)> call = [](size_t size) { allocate_here(size); };
    call(CALLS + 11);
    std::thread([] { allocate_here(CALLS + 12); }).join();
}

// A constructor that runs before main.
struct Early {
    Early() { allocate_here(STATICS); }
} early;

OWN_FRAME void run_all() {
    through_exceptions();
    through_calls();
    not_inlined_outer(INLINED);
    unknown += 0;
}

} // namespace shapes

int main() {
    shapes::run_all();
    atexit([] { shapes::allocate_here(STATICS + 1); });
    atexit([] { shapes::allocate_here(STATICS + 2); });
    return 0;
}

__attribute__((destructor)) static void print_at_the_end() {
    shapes::allocate_here(STATICS + 3);
    print_traces();
}

// Allocates in every way C++ has: before main, in containers, around exceptions, in threads and their destructors, after main.
// Prints what it did when everything else is over.
#include "tally.h"

#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace counted {

struct alignas(64) Line {
    unsigned char bytes[192];
};

// Its destructor makes an array of it carry its length: eight bytes before the first.
struct Guarded {
    long value = 1;
    ~Guarded() { ESCAPES(this); }
};

constexpr size_t ARRAY_HEAD = 8;

OWN_FRAME int *plain_new() {
    int *block = new int(7);
    tally_born(block, sizeof(int));
    return block;
}

OWN_FRAME void plain_delete(int *block) {
    tally_dies(block);
    delete block;
}

OWN_FRAME char *array_new(size_t count) {
    char *block = new char[count];
    tally_born(block, count);
    return block;
}

OWN_FRAME void array_delete(char *block) {
    tally_dies(block);
    delete[] block;
}

OWN_FRAME Guarded *guarded_array_new(size_t count) {
    Guarded *block = new Guarded[count];
    tally_born(reinterpret_cast<char *>(block) - ARRAY_HEAD, count * sizeof(Guarded) + ARRAY_HEAD);
    return block;
}

OWN_FRAME void guarded_array_delete(Guarded *block) {
    tally_dies(reinterpret_cast<char *>(block) - ARRAY_HEAD);
    delete[] block;
}

OWN_FRAME Line *aligned_new() {
    Line *block = new Line;
    if (reinterpret_cast<uintptr_t>(block) % 64) tally_fail("an aligned object is not");
    tally_born(block, sizeof(Line));
    return block;
}

OWN_FRAME void aligned_delete(Line *block) {
    tally_dies(block);
    delete block;
}

OWN_FRAME Line *aligned_array_new(size_t count) {
    Line *block = new Line[count];
    tally_born(block, count * sizeof(Line));
    return block;
}

OWN_FRAME void aligned_array_delete(Line *block) {
    tally_dies(block);
    delete[] block;
}

OWN_FRAME void *nothrow_new(size_t size) {
    void *block = ::operator new(size, std::nothrow);
    tally_born(block, size);
    return block;
}

OWN_FRAME void nothrow_delete(void *block) {
    tally_dies(block);
    ::operator delete(block, std::nothrow);
}

OWN_FRAME void *nothrow_array_new(size_t size) {
    void *block = ::operator new[](size, std::nothrow);
    tally_born(block, size);
    return block;
}

OWN_FRAME void nothrow_array_delete(void *block) {
    tally_dies(block);
    ::operator delete[](block, std::nothrow);
}

// The library asks for a multiple of the alignment.
OWN_FRAME void *aligned_nothrow_new(size_t size) {
    void *block = ::operator new(size, std::align_val_t(256), std::nothrow);
    tally_born(block, (size + 255) / 256 * 256);
    return block;
}

OWN_FRAME void aligned_sized_delete(void *block, size_t size) {
    tally_dies(block);
    ::operator delete(block, size, std::align_val_t(256));
}

OWN_FRAME void sized_delete(void *block, size_t size) {
    tally_dies(block);
    ::operator delete(block, size);
}

OWN_FRAME void sized_array_delete(void *block, size_t size) {
    tally_dies(block);
    ::operator delete[](block, size);
}

// Too much: std::bad_alloc instead of a block. The exception is the library's own.
static volatile size_t far_too_much = size_t(1) << 60;

OWN_FRAME void new_that_fails() {
    try {
        ESCAPES(::operator new(far_too_much));
        tally_fail("far too much was given");
    } catch (const std::bad_alloc &) {
    }
    if (::operator new(far_too_much, std::nothrow)) tally_fail("far too much was given without a throw");
}

// The name under which the container at work allocates.
static thread_local const char *user = "nobody";

template <class T> struct Counting {
    using value_type = T;
    Counting() = default;
    template <class U> Counting(const Counting<U> &) {}
    T *allocate(size_t count) {
        void *block = ::operator new(count * sizeof(T));
        tally_enter(user, block, count * sizeof(T), 0);
        return static_cast<T *>(block);
    }
    void deallocate(T *block, size_t count) {
        tally_dies(block);
        ::operator delete(block, count * sizeof(T));
    }
    template <class U> bool operator==(const Counting<U> &) const { return true; }
};

using String = std::basic_string<char, std::char_traits<char>, Counting<char>>;

OWN_FRAME size_t grow_a_vector(int count) {
    user = __func__;
    std::vector<long, Counting<long>> numbers;
    for (int i = 0; i < count; i++) numbers.push_back(i);
    ESCAPES(numbers.data());
    return numbers.size();
}

OWN_FRAME size_t grow_a_string(int count) {
    user = __func__;
    String text;
    for (int i = 0; i < count; i++) text += "some more of it, ";
    ESCAPES(text.data());
    return text.size();
}

OWN_FRAME size_t fill_a_map(int count) {
    user = __func__;
    std::map<int, String, std::less<int>, Counting<std::pair<const int, String>>> map;
    for (int i = 0; i < count; i++) map.emplace(i * 7919 % count, String("a text too long to be kept within the string"));
    return map.size();
}

// The memory of an exception is the library's, and so not tallied: the test tells it by this function's name.
OWN_FRAME void throw_an_exception() {
    tally_else();
    throw std::runtime_error("thrown through frames that hold blocks");
}

OWN_FRAME void throw_with_a_block_in_hand(int depth) {
    char *block = new char[size_t(depth) + 500];
    tally_born(block, size_t(depth) + 500);
    struct GiveBack {
        char *block;
        ~GiveBack() {
            tally_dies(block);
            delete[] block;
        }
    } give_back{block};
    if (depth == 0) throw_an_exception();
    throw_with_a_block_in_hand(depth - 1);
    ESCAPES(block);
}

OWN_FRAME void catch_it() {
    try {
        throw_with_a_block_in_hand(5);
    } catch (const std::runtime_error &error) {
        char *block = new char[strlen(error.what())];
        tally_born(block, strlen(error.what()));
        tally_dies(block);
        delete[] block;
    }
}

OWN_FRAME char *allocate_before_main() {
    char *block = new char[3333];
    tally_born(block, 3333);
    return block;
}

struct BeforeMain {
    char *block = allocate_before_main();
    ~BeforeMain() { array_delete(block); }
};
static BeforeMain before_main;

OWN_FRAME char *allocate_in_atexit() {
    char *block = new char[4444];
    tally_born(block, 4444);
    return block;
}

OWN_FRAME char *allocate_for_the_thread() {
    char *block = new char[1234];
    tally_born(block, 1234);
    return block;
}

OWN_FRAME char *allocate_as_the_thread_ends() {
    char *block = new char[4321];
    tally_born(block, 4321);
    return block;
}

struct ForTheThread {
    char *block = allocate_for_the_thread();
    ~ForTheThread() {
        array_delete(block);
        array_delete(allocate_as_the_thread_ends());
        allocate_as_the_thread_ends(); // and this one stays
    }
};

OWN_FRAME void be_a_thread() {
    static thread_local ForTheThread mine;
    ESCAPES(mine.block);
    grow_a_vector(100);
    grow_a_string(20);
}

OWN_FRAME void go_through_all_forms(size_t round) {
    plain_delete(plain_new());
    array_delete(array_new(round * 3 + 1));
    guarded_array_delete(guarded_array_new(round % 9 + 1));
    aligned_delete(aligned_new());
    aligned_array_delete(aligned_array_new(round % 5 + 1));
    nothrow_delete(nothrow_new(round + 17));
    nothrow_array_delete(nothrow_array_new(round + 18));
    aligned_sized_delete(aligned_nothrow_new(round + 300), round + 300);
    sized_delete(nothrow_new(64), 64);
    sized_array_delete(nothrow_array_new(65), 65);
    new_that_fails();
    catch_it();
}

} // namespace counted

// Runs after all destructors and everything registered with atexit.
__attribute__((destructor)) static void print_at_the_very_end() { tally_print(); }

int main() {
    using namespace counted;
    atexit([] { array_delete(allocate_in_atexit()); });
    for (size_t round = 0; round < 100; round++) go_through_all_forms(round);
    if (grow_a_vector(10000) != 10000 || fill_a_map(500) != 500 || grow_a_string(300) != 300 * 17) tally_fail("containers");
    for (int i = 0; i < 3; i++) std::thread(be_a_thread).join();
    array_new(100000);
    return 0;
}

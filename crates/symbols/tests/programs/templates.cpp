#include <cstdio>
#include <vector>

namespace shop {

template <typename Item> class Basket {
  public:
    __attribute__((noinline)) void put(const Item &item) {
        items.push_back(item); // put pushes
    }
    std::vector<Item> items;
};

namespace {
__attribute__((noinline)) int hidden(int value) { return std::puts("hidden") + value; }
} // namespace

__attribute__((noinline)) int filled(int count) {
    Basket<double> basket;
    auto fill = [&basket](int number) __attribute__((noinline)) {
        basket.put(number * 1.5); // the lambda puts
    };
    for (int number = 0; number < count; number++) fill(number);
    return hidden(static_cast<int>(basket.items.size()));
}

} // namespace shop

int main(int count, char **) { return shop::filled(count); }

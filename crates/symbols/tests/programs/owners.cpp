// Classes with and without constructors. Prints the size of each, which its debug information must agree with.
#include <cstdio>
#include <memory>
#include <vector>

namespace demo {
class Buffer {
public:
    explicit Buffer(unsigned size) : bytes(new char[size]), size(size) {}
    ~Buffer() { delete[] bytes; }
    Buffer(const Buffer &) = delete;

private:
    char *bytes;
    unsigned size;
    long reserved[9];
};

struct Item {
    int numbers[5];
};

template <typename T> class Stack {
public:
    Stack() : first(new T()) {}
    ~Stack() { delete first; }

private:
    T *first;
    T last;
};

struct Plain {
    double numbers[70];
};
}

int main(int count, char **) {
    demo::Buffer buffer(count);
    std::vector<demo::Item> items(count);
    demo::Stack<int> numbers;
    demo::Stack<double> fractions;
    demo::Plain plain = {};
    plain.numbers[0] = count + items[0].numbers[0];
    std::printf("demo::Buffer %zu\n", sizeof(demo::Buffer));
    std::printf("demo::Item %zu\n", sizeof(demo::Item));
    std::printf("demo::Stack %zu\n", sizeof(demo::Stack<double>));
    return plain.numbers[0] < 0;
}

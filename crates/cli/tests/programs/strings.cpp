// Allocates through the standard library only, and calls none of ours.
#include <string>
#include <vector>

static std::vector<std::string> held;

int main() {
    held.reserve(1000);
    for (int number = 0; number < 1000; number++) held.emplace_back(100 + number % 7, 'x');
    return 0;
}

// What the compiler is given to do.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

template <class Key> struct Table {
    std::map<Key, std::vector<std::string>> rows;
    std::unordered_map<std::string, Key> keys;
    void add(const Key &key, const std::string &text) {
        rows[key].push_back(text);
        keys.emplace(text, key);
    }
    std::vector<Key> sorted() const {
        std::vector<Key> all;
        for (const auto &entry : keys) all.push_back(entry.second);
        std::sort(all.begin(), all.end());
        return all;
    }
};

int use(int argument) {
    Table<int> numbers;
    Table<std::string> texts;
    auto shared = std::make_shared<Table<long>>();
    for (int i = 0; i < argument; i++) {
        numbers.add(i, std::to_string(i));
        texts.add(std::to_string(i), "text");
        shared->add(i, "shared");
    }
    return int(numbers.sorted().size() + texts.sorted().size() + shared->sorted().size());
}

// A program as people write them: takes text apart, counts and indexes its words, sorts and joins them again.
// usage: index DOCUMENTS
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

static uint64_t random_state = 1;

static unsigned next_random() {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return unsigned(random_state >> 33);
}

static std::string some_word() {
    static const char *syllables[] = {"ba", "co", "di", "fu", "ge", "ha", "ki", "lo", "mu", "ne", "pra", "sto", "tri", "ver"};
    std::string word;
    for (unsigned i = next_random() % 4 + next_random() % 5 + 1; i; i--) word += syllables[next_random() % 14];
    return word;
}

static std::string some_document() {
    std::ostringstream text;
    for (unsigned i = 0; i < 200; i++) text << some_word() << (i % 12 == 11 ? ".\n" : " ");
    return text.str();
}

struct Document {
    std::string title;
    std::vector<std::string> words;
    std::map<std::string, int> counts;
};

static std::vector<std::string> words_of(const std::string &text) {
    std::vector<std::string> words;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream parts(line);
        for (std::string word; parts >> word;) {
            if (word.back() == '.') word.pop_back();
            words.push_back(word);
        }
    }
    return words;
}

static std::unique_ptr<Document> parse(const std::string &text) {
    auto document = std::make_unique<Document>();
    document->words = words_of(text);
    document->title = document->words[0] + " and " + document->words[1];
    for (const std::string &word : document->words) document->counts[word]++;
    return document;
}

using Index = std::unordered_map<std::string, std::vector<const Document *>>;

static void add_to_index(Index &index, const Document &document) {
    for (const auto &[word, count] : document.counts) index[word].push_back(&document);
}

static std::string answer(const Index &index, const std::string &word) {
    auto found = index.find(word);
    if (found == index.end()) return "";
    std::vector<std::pair<int, std::string>> ranked;
    for (const Document *document : found->second) ranked.emplace_back(document->counts.at(word), document->title);
    std::sort(ranked.begin(), ranked.end(), [](const auto &a, const auto &b) { return b < a; });
    std::string joined;
    for (size_t i = 0; i < ranked.size() && i < 10; i++) joined += ranked[i].second + ", ";
    return joined;
}

int main(int count, char **arguments) {
    long documents = count > 1 ? atol(arguments[1]) : 1000;
    std::vector<std::unique_ptr<Document>> all;
    Index index;
    for (long i = 0; i < documents; i++) {
        all.push_back(parse(some_document()));
        add_to_index(index, *all.back());
        if (i % 10 == 9 && next_random() % 2) {
            // A document that is dropped again, with what it held.
            auto dropped = parse(some_document());
            std::sort(dropped->words.begin(), dropped->words.end());
        }
    }
    uint64_t sum = 0;
    for (long i = 0; i < documents * 2; i++)
        for (char c : answer(index, some_word())) sum = sum * 31 + (unsigned char)c;
    printf("checksum %016llx words %zu\n", (unsigned long long)sum, index.size());
    return 0;
}

// A program that records itself, with a mark at each phase: highwater report phases.hw --at mark:loaded
//
//     c++ phases.cpp $(pkg-config --cflags --libs highwater) -o phases
//     c++ -static phases.cpp $(pkg-config --cflags --static --libs highwater) -o phases
#include <highwater.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Document {
    std::string title;
    std::vector<double> weights;
};

static std::map<std::string, std::unique_ptr<Document>> load(int count) {
    std::map<std::string, std::unique_ptr<Document>> documents;
    for (int i = 0; i < count; i++) {
        auto document = std::make_unique<Document>();
        document->title = "a document with a title that is too long to be short: " + std::to_string(i);
        document->weights.resize(100 + i);
        documents[document->title] = std::move(document);
    }
    return documents;
}

int main(int count, char **arguments) {
    const char *file = count > 1 ? arguments[1] : "phases.hw";
    if (int error = highwater_record_to(file)) std::fprintf(stderr, "%s: not recorded: %s\n", file, std::strerror(error));
    auto documents = load(200);
    highwater_mark("loaded");
    for (auto document = documents.begin(); document != documents.end();) {
        if (document->second->weights.size() % 3 == 0) document = documents.erase(document);
        else ++document;
    }
    highwater_mark("reduced");
    std::printf("%zu documents\n", documents.size());
    return 0;
}

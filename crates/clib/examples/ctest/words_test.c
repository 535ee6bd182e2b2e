/* The tests of a table of words. WORDS_LEAK=1 in the environment makes it forget a word in each round, as a bug would. */
#include <highwater.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    struct word *next;
    char *text;
};

static struct word *words;

static void add(const char *text) {
    struct word *word = malloc(sizeof *word);
    word->text = strdup(text);
    word->next = words;
    words = word;
}

static int has(const char *text) {
    for (struct word *word = words; word; word = word->next)
        if (strcmp(word->text, text) == 0) return 1;
    return 0;
}

static void clear(int leaks) {
    while (words) {
        struct word *next = words->next;
        if (!leaks || next) free(words->text);
        free(words);
        words = next;
    }
}

int main(void) {
    int leaks = getenv("WORDS_LEAK") != NULL;
    char text[32];
    for (int round = 0; round < 5; round++) {
        if (highwater_mark) highwater_mark("round");
        for (int i = 0; i < 100; i++) {
            snprintf(text, sizeof text, "word %d", i);
            add(text);
        }
        highwater_measure_begin("look up");
        int found = has("word 7"), missing = has("word 100");
        highwater_measure_end("look up");
        assert(found && !missing);
        clear(leaks);
    }
    puts("all words are found");
    return 0;
}

/* Many short-lived small blocks: requests that take a few blocks, fill and read them, and give them back.
 * usage: short_lived PAIRS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_FRAME __attribute__((noinline, noclone))
static uint64_t random_state = 1;

static unsigned next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33);
}

OWN_FRAME static unsigned char *make_text(size_t size, int seed) {
    unsigned char *text = malloc(size);
    memset(text, seed, size);
    return text;
}

OWN_FRAME static unsigned read_text(const unsigned char *text, size_t size) {
    unsigned sum = 0;
    for (size_t i = 0; i < size; i++) sum = sum * 31 + text[i];
    return sum;
}

OWN_FRAME static unsigned handle(unsigned request) {
    size_t key_size = request % 40 + 8, value_size = (request >> 8) % 200 + 16, answer_size = (request >> 16) % 120 + 16;
    unsigned char *key = make_text(key_size, (int)request);
    unsigned char *value = make_text(value_size, (int)request + 1);
    unsigned sum = read_text(key, key_size);
    free(key);
    unsigned char *answer = make_text(answer_size, (int)sum);
    sum += read_text(value, value_size) ^ read_text(answer, answer_size);
    free(answer);
    free(value);
    return sum;
}

OWN_FRAME static unsigned serve(long requests) {
    unsigned sum = 0;
    while (requests--) sum += handle(next_random());
    return sum;
}

int main(int count, char **arguments) {
    long requests = count > 1 ? atol(arguments[1]) / 3 : 1000000;
    unsigned sum = serve(requests);
    printf("pairs %ld checksum %08x\n", requests * 3, sum);
    return 0;
}

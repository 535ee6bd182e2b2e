#define HIGHWATER_OPTIONAL
#include <highwater.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

/* With and without the library: what each function of highwater.h returns, and whether the program has the function. */
int main(int count, char **arguments) {
    struct highwater_live_options options = {0, 0, 0, 0, NULL};
    struct highwater_stats stats = {0, 0, 0, 0};
    uint32_t task = highwater_task("work");
    int in_program = highwater_mark != NULL;
    int state = highwater_state();
    int record = highwater_record_to(count > 1 ? arguments[1] : "");
    options.size = sizeof options;
    highwater_task_enter(task);
    highwater_measure_begin("inner");
    free(malloc(1000));
    highwater_measure_end("inner");
    highwater_mark("after");
    printf("{\"in_program\": %d, \"version\": \"%s\", \"state\": %d, \"task\": %d, \"record\": %d, \"live\": %d, \"live_with\": %d, \"snapshot\": %d, "
           "\"stats\": %d, \"thread_stats\": %d, \"stop\": %d}\n",
           in_program, highwater_version(), state, task != 0, record, highwater_live(), highwater_live_with(&options),
           highwater_take_named_snapshot("never"), highwater_global_stats(&stats), highwater_thread_stats(&stats), highwater_stop_recording());
    return 0;
}

/* The client library from C: one rank by itself. */

#include "worker/client/c/strata_client.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/client/c/strata_client_checkpoints.h"
#include "worker/client/c/strata_client_devices.h"
#include "worker/client/c/strata_client_rows.h"
#include "worker/client/c/strata_client_views.h"

static int failures = 0;

static void Check(int holds, const char* what, int line) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "line %d: %s; last error: %s\n", line, what, strata_error_text());
}
#define CHECK(condition) Check(condition, #condition, __LINE__)

static const char kJob[] =
    "optimizer { momentum_sgd { momentum: 0.5 } } schedule { base_lr: 0.5 constant {} }";

static strata_client* Connect(void) {
  strata_client* client = NULL;
  CHECK(strata_connect_alone(kJob, &client) == STRATA_OK);
  return client;
}

static strata_tensor Tensor(const char* name, const uint64_t* shape, uint32_t dimensions) {
  const strata_tensor tensor = {.size = sizeof tensor,
                                .name = name,
                                .shape = shape,
                                .dimensions = dimensions,
                                .lr_multiplier = 1,
                                .decay_multiplier = 1};
  return tensor;
}

static const strata_facts kFacts = {.size = sizeof(strata_facts), .takes_first_weights = 1};

static void TrainsByTheJobsOptimizer(void) {
  strata_client* client = Connect();
  const uint64_t shape[] = {2, 3};
  const strata_tensor w = Tensor("w", shape, 2), b = Tensor("b", NULL, 0);
  int32_t index = -1;
  CHECK(strata_register(client, &w, &index) == STRATA_OK && index == 0);
  CHECK(strata_register(client, &b, &index) == STRATA_OK && index == 1);
  CHECK(strata_elements(client, 0) == 6 && strata_elements(client, 1) == 1);
  CHECK(strata_elements(client, 2) == 0);
  CHECK(strata_weights(client, 0) == NULL);
  CHECK(strata_allocate(client) == STRATA_OK);
  for (int i = 0; i < 6; ++i) strata_weights(client, 0)[i] = 1;
  CHECK(strata_start(client, &kFacts) == STRATA_OK);
  for (int step = 0; step < 2; ++step) {
    CHECK(strata_wait(client, 0) == STRATA_OK);
    CHECK(strata_begin_step(client, 4) == STRATA_OK);
    for (int i = 0; i < 6; ++i) strata_gradients(client, 0)[i] = 2; /* mean 0.5 */
    CHECK(strata_publish(client, 0) == STRATA_OK);
    const double gradient = 0.5; /* times 4: mean 0.5 */
    const double other = 9;
    CHECK(strata_publish_values(client, 1, &gradient, STRATA_FLOAT64, 4) == STRATA_OK);
    /* A second one changes nothing of the first. */
    CHECK(strata_publish_values(client, 1, &other, STRATA_FLOAT64, 4) ==
          STRATA_FAILED_PRECONDITION);
    CHECK(strata_gradients(client, 1)[0] == 2);
    CHECK(strata_finish_step(client) == STRATA_OK);
  }
  /* v = 0.5, then 0.75: 0.5 * 1.25 less. */
  double read[6] = {0};
  CHECK(strata_read_weights(client, 0, read, STRATA_FLOAT64) == STRATA_OK);
  CHECK(read[0] == 0.375 && read[5] == 0.375);
  CHECK(strata_wait_all(client) == STRATA_OK);
  CHECK(strata_weights(client, 1)[0] == -0.625f);
  const char* const names[] = {"perplexity", "perplexity"};
  const double values[] = {12.5, 1};
  strata_report report = {.size = sizeof report,
                          .end_step = 2,
                          .samples = 8,
                          .value_names = names,
                          .values = values,
                          .value_count = 1};
  CHECK(strata_send_report(client, &report) == STRATA_OK);
  report.value_count = 2;
  CHECK(strata_send_report(client, &report) == STRATA_INVALID_ARGUMENT);
  CHECK(strcmp(strata_error_text(), "value \"perplexity\": stands there twice") == 0);
  CHECK(strata_keep_weights(client) == STRATA_FAILED_PRECONDITION);
  CHECK(strata_finish(client) == STRATA_OK);
  float* const kept = strata_weights(client, 1);
  CHECK(strata_keep_weights(client) == STRATA_OK);
  strata_close(client);
  CHECK(kept[0] == -0.625f);
  kept[0] = 7;
  CHECK(kept[0] == 7);
}

static void TrainsByItsOwnOptimizerAndRates(void) {
  strata_client* client = NULL;
  CHECK(strata_connect_alone("optimizer { from_program {} }", &client) == STRATA_OK);
  const strata_tensor w = Tensor("w", NULL, 0);
  int32_t index = -1;
  strata_facts facts = kFacts;
  CHECK(strata_register(client, &w, &index) == STRATA_OK);
  facts.optimizer = "sgd { weight_decay: 0.5 }";
  facts.says_rates = 1;
  CHECK(strata_start(client, &facts) == STRATA_OK);
  CHECK(strata_begin_step(client, 1) == STRATA_FAILED_PRECONDITION);
  CHECK(strata_begin_step_at(client, 1, -1) == STRATA_INVALID_ARGUMENT);
  CHECK(strstr(strata_error_text(), "learning rate -1") != NULL);
  const double rates[] = {0.5, 0.25};
  for (int step = 0; step < 2; ++step) {
    CHECK(strata_begin_step_at(client, 1, rates[step]) == STRATA_OK);
    strata_gradients(client, 0)[0] = -1;
    CHECK(strata_publish(client, 0) == STRATA_OK);
    CHECK(strata_finish_step(client) == STRATA_OK);
  }
  /* 0.5, then 0.25 * (1 - 0.25) more. */
  CHECK(strata_wait_all(client) == STRATA_OK);
  CHECK(strata_weights(client, 0)[0] == 0.6875f);
  strata_close(client);
}

static void AStepWithoutSamplesChangesNothing(void) {
  strata_client* client = Connect();
  const strata_tensor w = Tensor("w", NULL, 0);
  int32_t index = -1;
  CHECK(strata_register(client, &w, &index) == STRATA_OK);
  CHECK(strata_start(client, &kFacts) == STRATA_OK);
  const uint32_t samples[] = {1, 0, 1};
  const float after[] = {-0.5f, -0.5f, -1.25f}; /* v = 1, then 1.5: 0.5 of it less */
  for (int step = 0; step < 3; ++step) {
    CHECK(strata_begin_step(client, samples[step]) == STRATA_OK);
    strata_gradients(client, 0)[0] = 1;
    CHECK(strata_publish(client, 0) == STRATA_OK);
    CHECK(strata_finish_step(client) == STRATA_OK);
    CHECK(strata_wait_all(client) == STRATA_OK);
    CHECK(strata_weights(client, 0)[0] == after[step]);
  }
  strata_close(client);
}

static void SaysItsState(void) {
  /* Of XXH3's own test vectors: no bytes. */
  CHECK(strata_checksum(NULL, 0) == 0x2d06800538d394c2u);
  CHECK(strata_checksum("a", 1) != strata_checksum("b", 1));
  strata_client* client = Connect();
  const strata_state_item items[] = {{.name = "lr", .checksum = 1, .value = "0.5"},
                                     {.name = "w", .checksum = 2}};
  CHECK(strata_send_state(client, 3, items, 2) == STRATA_OK);
  CHECK(strata_send_state(client, 3, items, 4097) == STRATA_INVALID_ARGUMENT);
  CHECK(strcmp(strata_error_text(), "4097 items of a state, at most 4096") == 0);
  strata_close(client);
}

static void ItsRanksMakeAllSteps(void) {
  strata_client* client = Connect();
  const strata_tensor w = Tensor("w", NULL, 0);
  int32_t index = -1;
  int known = 0;
  strata_step_ranks ranks = {.size = sizeof ranks, .rank = 9};
  CHECK(strata_register(client, &w, &index) == STRATA_OK);
  CHECK(strata_start(client, &kFacts) == STRATA_OK);
  CHECK(strata_ranks_at(client, 5, &ranks) == STRATA_OK);
  CHECK(ranks.makes_it && ranks.rank == 0 && ranks.ranks == 1 && ranks.rank_steps_before == 5);
  CHECK(strata_ranks_at_if_known(client, 7, &known, &ranks) == STRATA_OK);
  CHECK(known == 1 && ranks.rank_steps_before == 7);
  strata_close(client);
}

/* A program that was built before strata_facts had an optimizer. */
static void FactsOfAnOlderHeaderNameNoOptimizer(void) {
  strata_client* client = NULL;
  CHECK(strata_connect_alone("optimizer { from_program {} }", &client) == STRATA_OK);
  const strata_tensor w = Tensor("w", NULL, 0);
  int32_t index = -1;
  strata_facts facts = kFacts;
  facts.size = offsetof(strata_facts, optimizer);
  facts.optimizer = (const char*)1;
  CHECK(strata_register(client, &w, &index) == STRATA_OK);
  CHECK(strata_start(client, &facts) == STRATA_INVALID_ARGUMENT);
  CHECK(strstr(strata_error_text(), "the program has named no optimizer") != NULL);
  strata_close(client);
}

static void SaysWhichJobAndRankItIs(void) {
  strata_client* client = Connect();
  CHECK(strata_client_abi() == STRATA_CLIENT_ABI);
  CHECK(strlen(strata_version()) >= 5);
  CHECK(strata_rank(client) == 0 && strata_ranks(client) == 1);
  CHECK(strata_local_rank(client) == 0 && strata_local_ranks(client) == 1);
  CHECK(strstr(strata_job_json(client), "\"base_lr\":0.5") != NULL);
  CHECK(strcmp(strata_run_dir(client), "") == 0);
  strata_close(client);
}

static void NamesWhatIsWrong(void) {
  strata_client* client = (strata_client*)&failures;
  CHECK(strata_connect("/nowhere/launch", &client) == STRATA_NOT_FOUND);
  CHECK(client == NULL);
  CHECK(strstr(strata_error_text(), "/nowhere/launch") != NULL);
  CHECK(strata_connect_alone("optimizer { what {} }", &client) == STRATA_INVALID_ARGUMENT);
  CHECK(strstr(strata_error_text(), "what") != NULL);
  CHECK(strata_connect_alone("consistency { preset: 'ssp(x)' }", &client) ==
        STRATA_INVALID_ARGUMENT);
  CHECK(strata_wait(NULL, 0) == STRATA_INVALID_ARGUMENT);
  client = Connect();
  int32_t index;
  const uint64_t none[] = {0};
  const strata_tensor empty = Tensor("empty", none, 1), w = Tensor("w", NULL, 0);
  CHECK(strata_register(client, &empty, &index) == STRATA_INVALID_ARGUMENT);
  CHECK(strstr(strata_error_text(), "empty") != NULL);
  CHECK(strata_register(client, &w, &index) == STRATA_OK);
  CHECK(strata_begin_step(client, 1) == STRATA_FAILED_PRECONDITION);
  CHECK(strata_start(client, &kFacts) == STRATA_OK);
  CHECK(strata_begin_step(client, 1) == STRATA_OK);
  const float infinite = 1e30f;
  CHECK(strata_publish_values(client, 0, &infinite, STRATA_FLOAT32, 1e30) ==
        STRATA_INVALID_ARGUMENT);
  CHECK(strstr(strata_error_text(), "\"w\": element 0 is infinite") != NULL);
  CHECK(strata_publish_values(client, 1, &infinite, STRATA_FLOAT32, 1) == STRATA_INVALID_ARGUMENT);
  CHECK(strata_publish_values(client, 0, &infinite, STRATA_FLOAT32, 1) == STRATA_OK);
  strata_close(client);
  strata_close(NULL);
}

static void AChildCannotUseIt(void) {
  strata_client* client = Connect();
  int32_t index;
  const strata_tensor w = Tensor("w", NULL, 0);
  const pid_t child = fork();
  if (child == 0) {
    const int refused = strata_register(client, &w, &index) == STRATA_FAILED_PRECONDITION &&
                        strstr(strata_error_text(), "forked") != NULL;
    strata_close(client);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(strata_register(client, &w, &index) == STRATA_OK);
  strata_close(client);
}

static void AJobWithoutGpusHasNoDevice(void) {
  strata_client* client = Connect();
  int32_t index;
  const strata_tensor w = Tensor("w", NULL, 0);
  CHECK(strata_accept_device(client) == STRATA_OK);
  CHECK(strata_register(client, &w, &index) == STRATA_OK);
  CHECK(strata_start(client, &kFacts) == STRATA_OK);
  CHECK(strata_device_index(client) == -1);
  CHECK(strata_compute_in(client, STRATA_CUDA_DEFAULT_STREAM) == STRATA_FAILED_PRECONDITION);
  CHECK(strstr(strata_error_text(), "no device") != NULL);
  CHECK(strata_compute_in(client, NULL) == STRATA_OK);
  void* none = client;
  char from = 1, to = 0;
  CHECK(strata_device_stream(client, &none) == STRATA_FAILED_PRECONDITION && none == NULL);
  none = client;
  CHECK(strata_device_memory(client, 4, &none) == STRATA_FAILED_PRECONDITION && none == NULL);
  CHECK(strata_copy(client, &to, &from, 1, NULL) == STRATA_FAILED_PRECONDITION && to == 0);
  strata_close(client);
}

/* Returns the exit status of a process that has the client finish when it exits. */
static int ExitsWith(int status, int starts) {
  const pid_t child = fork();
  if (child == 0) {
    strata_client* client = Connect();
    int32_t index;
    const strata_tensor w = Tensor("w", NULL, 0);
    CHECK(strata_register(client, &w, &index) == STRATA_OK);
    if (starts) CHECK(strata_start(client, &kFacts) == STRATA_OK);
    CHECK(strata_finish_at_exit(client) == STRATA_OK);
    if (starts == 2) CHECK(strata_finish(client) == STRATA_OK);
    exit(failures == 0 ? status : 100);
  }
  int ended = -1;
  CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended));
  return WEXITSTATUS(ended);
}

static void FinishesAtAGoodExitAlone(void) {
  CHECK(ExitsWith(0, 1) == 0);
  CHECK(ExitsWith(0, 2) == 0); /* not a second time */
  CHECK(ExitsWith(0, 0) == 1); /* cannot finish what has not started */
  CHECK(ExitsWith(3, 0) == 3); /* does not try */
  strata_client* client = Connect();
  CHECK(strata_finish_at_exit(client) == STRATA_OK);
  strata_close(client); /* or this process would end with status 1 */
}

static int CountsAndEnds(void* context) { return ++*(int*)context >= 3; }

/* Under a worker daemon that never lets it train. */
static void AWaitEndsWhenTheProgramSaysSo(void) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  char path[4096];
  const char* folder = getenv("TEST_TMPDIR");
  snprintf(path, sizeof path, "%s/launch.txt", folder == NULL ? "/tmp" : folder);
  FILE* launch = fopen(path, "w");
  fprintf(launch,
          "record { job_id: 7 job { name: 't' ranks: 1 exchange: NONE program { path: 'p' } %s } }"
          "local_ranks: 1 channel_fd: %d",
          kJob, fds[1]);
  fclose(launch);
  strata_client* client = NULL;
  CHECK(strata_connect(path, &client) == STRATA_OK);
  int asked = 0;
  CHECK(strata_on_wait(client, CountsAndEnds, &asked) == STRATA_OK);
  int32_t index;
  const strata_tensor w = Tensor("w", NULL, 0);
  CHECK(strata_register(client, &w, &index) == STRATA_OK);
  CHECK(strata_start(client, &kFacts) == STRATA_INTERRUPTED);
  CHECK(strcmp(strata_error_text(), "interrupted") == 0);
  CHECK(asked == 3);
  CHECK(strata_begin_step(client, 1) == STRATA_FAILED_PRECONDITION);
  CHECK(strata_on_wait(client, NULL, NULL) == STRATA_OK);
  strata_close(client);
  close(fds[0]);
}

/* The rank of a job that makes checkpoints every 2 steps, though it has no exchange. */
static strata_client* ConnectWithCheckpoints(const char* folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/checkpoints.txt", folder);
  FILE* launch = fopen(path, "w");
  fprintf(launch,
          "record { job_id: 7 job { name: 't' ranks: 1 exchange: NONE program { path: 'p' } %s "
          "checkpoint { dir: '%s/store' every_steps: 2 } } } local_ranks: 1",
          kJob, folder);
  fclose(launch);
  strata_client* client = NULL;
  CHECK(strata_connect(path, &client) == STRATA_OK);
  return client;
}

static void GivesAndReadsAStateOfItsOwn(void) {
  const char* folder = getenv("TEST_TMPDIR");
  strata_client* client = ConnectWithCheckpoints(folder == NULL ? "/tmp" : folder);
  const strata_tensor w = Tensor("w", NULL, 0);
  strata_facts facts = kFacts;
  int32_t index;
  const void* state = &index;
  size_t bytes = 9;
  CHECK(strata_register(client, &w, &index) == STRATA_OK);
  facts.can_resume = facts.keeps_state = 1;
  CHECK(strata_start(client, &facts) == STRATA_OK);
  CHECK(strata_first_step(client) == 0);
  CHECK(strata_goes_on(client) == 0);
  CHECK(strata_read_state(client, 0, &state, &bytes) == STRATA_NOT_FOUND);
  CHECK(state == NULL && bytes == 0);
  CHECK(strata_read_state(client, 1, &state, &bytes) == STRATA_INVALID_ARGUMENT);
  for (int step = 0; step < 4; ++step) {
    CHECK(!strata_checkpoint_due(client) == (step != 2));
    if (step != 2) CHECK(strata_give_state(client, "x", 1) == STRATA_FAILED_PRECONDITION);
    if (step == 2) CHECK(strata_give_state(client, "st\0te", 5) == STRATA_OK);
    CHECK(!strata_checkpoint_due(client));
    CHECK(strata_begin_step(client, 1) == STRATA_OK);
    CHECK(strata_finish_step(client) == STRATA_OK);
  }
  CHECK(strata_checkpoint_due(client));
  CHECK(strata_give_state(client, "last", 4) == STRATA_OK);
  CHECK(strata_finish(client) == STRATA_OK);
  strata_close(client);
  char path[4096];
  snprintf(path, sizeof path, "%s/store/clock-00000000000000000002/rank-0-7.0",
           folder == NULL ? "/tmp" : folder);
  FILE* file = fopen(path, "rb");
  CHECK(file != NULL);
  char content[70] = {0};
  CHECK(file != NULL && fread(content, 1, sizeof content, file) == 69);
  CHECK(memcmp(content, "STRANK01", 8) == 0 && memcmp(content + 64, "st\0te", 5) == 0);
  if (file != NULL) fclose(file);
}

static int HasError(const char* part) { return strstr(strata_error_text(), part) != NULL; }

static void ATableTrainsRowsByTheirIds(void) {
  strata_table_spec spec = {.size = sizeof spec,
                            .name = "items",
                            .columns = 2,
                            .capacity = 2,
                            .initial = STRATA_CONSTANT,
                            .initial_scale = 1,
                            .optimizer = STRATA_ROW_SGD};
  strata_table* table = NULL;
  CHECK(strata_table_create(&spec, &table) == STRATA_OK && table != NULL);
  const int64_t ids[] = {7, 3, 7};
  int64_t distinct[3], places[3];
  uint64_t count = 0;
  CHECK(strata_distinct_ids(table, ids, 3, distinct, places, &count) == STRATA_OK);
  CHECK(count == 2 && distinct[0] == 3 && distinct[1] == 7);
  CHECK(places[0] == 1 && places[1] == 0 && places[2] == 1);
  const float gradients[] = {1, 2, 3, 4};
  CHECK(strata_push_rows(table, distinct, 2, gradients) == STRATA_OK);
  CHECK(strata_push_rows(table, distinct, 1, gradients) == STRATA_OK);
  CHECK(strata_table_rows(table) == 0);
  strata_row_counts counts = {.size = sizeof counts};
  CHECK(strata_step_rows(table, 0.5, &counts) == STRATA_OK);
  CHECK(counts.updated == 2 && counts.stored == 2 && counts.refused == 0);
  CHECK(strata_table_steps(table) == 1 && strata_table_rows(table) == 2);
  CHECK(strata_table_bytes(table) > 0 && strata_table_state_columns(table) == 0);
  float rows[6];
  CHECK(strata_lookup_rows(table, ids, 3, rows) == STRATA_OK);
  CHECK(rows[0] == -0.5f && rows[1] == -1 && rows[2] == 0 && rows[3] == -1 && rows[4] == -0.5f);
  const int64_t third = 9;
  CHECK(strata_push_rows(table, &third, 1, gradients) == STRATA_OK);
  CHECK(strata_step_rows(table, 0.5, &counts) == STRATA_OK && counts.refused == 1);
  strata_table_destroy(table);
  strata_table_destroy(NULL);
}

static void WhatATableCannotTakeIsRefused(void) {
  strata_table_spec spec = {.size = sizeof spec,
                            .name = "items",
                            .columns = 2,
                            .capacity = 2,
                            .optimizer = STRATA_ROW_FTRL,
                            .beta = 1};
  strata_table* table = NULL;
  const strata_code bad = STRATA_INVALID_ARGUMENT;
  spec.columns = 0;
  CHECK(strata_table_create(&spec, &table) == bad && HasError("table \"items\": dim: 0"));
  CHECK(table == NULL);
  spec.columns = 2;
  spec.optimizer = (strata_row_optimizer)9;
  CHECK(strata_table_create(&spec, &table) == bad && HasError("optimizer: there is no 9"));
  spec.optimizer = STRATA_ROW_FTRL;
  CHECK(strata_table_create(&spec, &table) == STRATA_OK);
  int64_t ids[] = {5, 5};
  int64_t distinct[2], places[2];
  uint64_t count = 0;
  float rows[4] = {0, 0, 0, 0};
  CHECK(strata_push_rows(table, ids, 2, rows) == bad);
  CHECK(HasError("table \"items\": id 5 comes after 5: ids ascend, each once"));
  ids[0] = -2;
  CHECK(strata_push_rows(table, ids, 2, rows) == bad && HasError("id -2 is below 0"));
  CHECK(strata_lookup_rows(table, ids, 2, rows) == bad && HasError("id -2 is below 0"));
  CHECK(strata_distinct_ids(table, ids, 2, distinct, places, &count) == bad);
  CHECK(strata_step_rows(table, -1, NULL) == bad && HasError("lr: -1 is not"));
  CHECK(strata_step_rows(table, 0, NULL) == STRATA_OK);
  CHECK(strata_set_table_steps(table, UINT64_MAX) == bad && HasError("is more than 2^62"));
  CHECK(strata_table_create(NULL, &table) == bad && HasError("a pointer is null"));
  CHECK(strata_read_row_state(table, ids + 1, 1, rows) == STRATA_NOT_FOUND);
  const int64_t ends[] = {1}, place = 1;
  CHECK(strata_spread_bags(table, rows, ends, 1, &place, rows + 2, 1) == bad);
  CHECK(HasError("place 1 is not in 0 to 0"));
  rows[1] = 1.0f / 0.0f;
  CHECK(strata_push_rows(table, ids + 1, 1, rows) == bad && strata_error_has_diverged());
  CHECK(strata_stored_ids(NULL, distinct, 2, &count) == bad && HasError("the table is null"));
  strata_table_destroy(table);
}

int main(void) {
  GivesAndReadsAStateOfItsOwn();
  TrainsByTheJobsOptimizer();
  TrainsByItsOwnOptimizerAndRates();
  FactsOfAnOlderHeaderNameNoOptimizer();
  AStepWithoutSamplesChangesNothing();
  SaysItsState();
  ItsRanksMakeAllSteps();
  SaysWhichJobAndRankItIs();
  NamesWhatIsWrong();
  AChildCannotUseIt();
  FinishesAtAGoodExitAlone();
  AJobWithoutGpusHasNoDevice();
  AWaitEndsWhenTheProgramSaysSo();
  ATableTrainsRowsByTheirIds();
  WhatATableCannotTakeIsRefused();
  if (failures == 0) puts("ok");
  return failures == 0 ? 0 : 1;
}

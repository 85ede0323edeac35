#ifndef STRATA_WORKER_CLIENT_C_STRATA_CLIENT_H_
#define STRATA_WORKER_CLIENT_C_STRATA_CLIENT_H_

/* The client library for C, and for languages that call C: a rank's side of a Strata job. Link with
 * -lstrata_client (pkg-config strata_client, or find_package(StrataClient) in CMake).
 *
 * The order of calls, each with the client that strata_connect gave:
 *
 *   strata_register*, strata_start, then per step: (strata_wait* forward), strata_begin_step,
 *   (strata_publish* backward), strata_finish_step; at the end strata_finish, after which weights
 *   are the job's final model.
 *
 * Calls that return a strata_code give STRATA_OK, or an error whose text strata_error_text returns.
 * STRATA_FAILED_PRECONDITION: the call was out of order, in another process than the one that
 * connected (after fork), or made while another thread was in one; nothing has changed.
 * STRATA_STOPPED: the job was stopped, or a peer process is gone; the program is to exit.
 *
 * Threads: any, one at a time per client.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STRATA_API __attribute__((visibility("default")))

/* Grows when a function or a field is added. Fields are only added at the end of a struct, and the
 * library reads as many as `size` says that the caller's has. */
#define STRATA_CLIENT_ABI 10

/* Returns the STRATA_CLIENT_ABI that the library was built with. */
STRATA_API uint32_t strata_client_abi(void);
/* Returns the library's version, as "0.1.0". */
STRATA_API const char* strata_version(void);

typedef enum strata_code {
  STRATA_OK = 0,
  STRATA_INVALID_ARGUMENT = 1,
  STRATA_FAILED_PRECONDITION = 2,
  STRATA_NOT_FOUND = 3,
  STRATA_RESOURCE_EXHAUSTED = 4,
  STRATA_STOPPED = 5,
  STRATA_INTERNAL = 6,
  STRATA_INTERRUPTED = 7,  /* see strata_on_wait */
  STRATA_NO_MORE_STEPS = 8 /* this rank leaves: see strata_client_views.h */
} strata_code;

/* Returns the calling thread's last error in one line, or "". Valid until its next one. */
STRATA_API const char* strata_error_text(void);
/* Since ABI 9. Returns 1 if that error is a gradient that is NaN or infinite, else 0. */
STRATA_API int strata_error_has_diverged(void);

typedef struct strata_client strata_client;

/* Joins the job as the rank that `launch_file` describes: the argument "{launch}" of the job's
 * program. Errors: STRATA_NOT_FOUND, STRATA_INVALID_ARGUMENT (the file), STRATA_STOPPED (the node's
 * aggregator). */
STRATA_API strata_code strata_connect(const char* launch_file, strata_client** client);
/* Makes a client that is the one rank of a job with `exchange: NONE`, without any cluster. `job` is
 * a job as protobuf text; its name, program, ranks and exchange are set. Errors:
 * STRATA_INVALID_ARGUMENT naming the field. */
STRATA_API strata_code strata_connect_alone(const char* job, strata_client** client);
/* Ends the client; null is fine. A rank that has not called strata_finish fails its job. In another
 * process than the one that connected only memory is freed. */
STRATA_API void strata_close(strata_client* client);

/* Says, with any number but 0, that the call which waits is to end. It does not call the client. */
typedef int (*strata_wait_check)(void* context);

/* Has every call that waits call `check`, on its thread and at least every 200 ms, and end with
 * STRATA_INTERRUPTED once that says so; null: none. Calls within and between steps may then be made
 * again, and go on where they were; where ranks' GPUs add up among themselves, only waits may.
 * After strata_start and strata_finish every call is STRATA_FAILED_PRECONDITION. */
STRATA_API strata_code strata_on_wait(strata_client* client, strata_wait_check check,
                                      void* context);
STRATA_API uint32_t strata_rank(const strata_client* client);
STRATA_API uint32_t strata_ranks(const strata_client* client);
STRATA_API uint32_t strata_local_rank(const strata_client* client);
STRATA_API uint32_t strata_local_ranks(const strata_client* client);
/* Returns the job with all defaults filled in, as JSON with the field names of job.proto. Valid as
 * long as the client. */
STRATA_API const char* strata_job_json(const strata_client* client);
/* Returns the run directory, "" if there is none. Valid as long as the client. */
STRATA_API const char* strata_run_dir(const strata_client* client);

/* A tensor of the model, fp32 in the arenas of weights and gradients. */
typedef struct strata_tensor {
  size_t size; /* sizeof(strata_tensor) */
  const char* name;
  const uint64_t* shape;
  uint32_t dimensions;    /* of `shape`; 0: one element */
  float lr_multiplier;    /* of the schedule's learning rate */
  float decay_multiplier; /* of the weight decay */
  int averaged;           /* not 0: what is published becomes its value, as a mean over samples */
} strata_tensor;

/* Adds a tensor and sets `index`, 0 for the first. All ranks add the same, in the order in which
 * backward finishes their gradients. Errors: STRATA_INVALID_ARGUMENT naming it. */
STRATA_API strata_code strata_register(strata_client* client, const strata_tensor* tensor,
                                       int32_t* index);
/* Ends the registration, so that weights and gradients have addresses: zeros. */
STRATA_API strata_code strata_allocate(strata_client* client);

typedef struct strata_facts {
  size_t size;                /* sizeof(strata_facts) */
  uint64_t samples_per_epoch; /* of all ranks; 0: unknown */
  uint64_t total_steps;       /* of each rank; 0: unknown */
  int takes_first_weights;    /* not 0: begin with rank 0's weights; else all offer the same */
  /* The program's optimizer as protobuf text, as "sgd { weight_decay: 0.1 }", where the job says
   * optimizer { from_program {} }; null: the job's. */
  const char* optimizer;
  int says_rates; /* not 0: strata_begin_step_at opens steps, with their learning rates */
  int can_resume, keeps_state; /* since ABI 4: see strata_client_checkpoints.h */
  /* Since ABI 7. The number of this rank's samples in every step, for jobs that must know it and do
   * not say program.samples_per_rank; 0: the program does not say. */
  uint32_t samples_per_rank;
  /* Since ABI 8. Not 0: a tensor that no rank publishes in a step stays as it is, with its
   * optimizer state, where pushes are FP32; else it has zero gradients. On a GPU the program writes
   * gradients of 0.0 for those of -0.0. */
  int marks_absent;
} strata_facts;

/* Offers the weights as the first ones, and blocks until every rank has and training begins. */
STRATA_API strata_code strata_start(strata_client* client, const strata_facts* facts);

/* From strata_start on, weights are read-only: makes a write to them end the process with a line on
 * stderr that names the tensor, before the SIGSEGV. Installs a handler of that signal, which hands
 * other faults on. */
STRATA_API strata_code strata_guard_weights(strata_client* client);

/* Return where the tensor lies in the node's arena of weights, read-only from strata_start on, and
 * in the rank's of gradients, for good; null before strata_allocate or if there is no such one. */
STRATA_API float* strata_weights(strata_client* client, int32_t tensor);
STRATA_API float* strata_gradients(strata_client* client, int32_t tensor);
/* Returns the tensor's elements; 0 if there is no such tensor. */
STRATA_API uint64_t strata_elements(const strata_client* client, int32_t tensor);

/* Opens a step in which this rank uses `samples` samples. Gradients are sums over them; with 0 they
 * count nothing. Where no rank has samples, the step changes no weight. */
STRATA_API strata_code strata_begin_step(strata_client* client, uint32_t samples);
/* Does the same where strata_facts has says_rates, with the step's learning rate, which replaces
 * what the job's schedule says. All ranks say the same. It travels as fp32. Errors:
 * STRATA_INVALID_ARGUMENT: it is no finite number >= 0 of fp32. */
STRATA_API strata_code strata_begin_step_at(strata_client* client, uint32_t samples, double rate);
/* Blocks until the tensor's weights are those that the step in hand starts from, or, between two
 * steps, the next one. */
STRATA_API strata_code strata_wait(strata_client* client, int32_t tensor);
STRATA_API strata_code strata_wait_all(strata_client* client);
/* The tensor's gradient is complete, and its weights are not read again in this step. */
STRATA_API strata_code strata_publish(strata_client* client, int32_t tensor);

typedef enum strata_dtype {
  STRATA_FLOAT32 = 0,
  STRATA_FLOAT64 = 1,
  STRATA_FLOAT16 = 2,
  STRATA_BFLOAT16 = 3
} strata_dtype;

/* In one pass: waits until the tensor's gradient memory is free, writes `values` times `scale`
 * there as fp32, and publishes. `values` holds all elements, one after the other. Errors:
 * STRATA_INVALID_ARGUMENT: a value is NaN or infinite, or not a number of fp32; the tensor is
 * named, and nothing is published. */
STRATA_API strata_code strata_publish_values(strata_client* client, int32_t tensor,
                                             const void* values, strata_dtype dtype, double scale);
/* Waits for the tensor's weights and writes them to `to`, which has room for all elements. */
STRATA_API strata_code strata_read_weights(strata_client* client, int32_t tensor, void* to,
                                           strata_dtype dtype);

/* Ends the step. Tensors that were not published have zero gradients, or, with marks_absent, none.
 */
STRATA_API strata_code strata_finish_step(strata_client* client);
/* No more steps: blocks until all nodes are done and the final weights are there. */
STRATA_API strata_code strata_finish(strata_client* client);
/* After strata_finish: makes the weights, where they lie, this process's own for as long as it
 * lives. What nobody writes to is not copied. STRATA_FAILED_PRECONDITION: they lie on a GPU. */
STRATA_API strata_code strata_keep_weights(strata_client* client);
/* Calls strata_finish when the process exits with status 0, once it is known to; no check of
 * strata_on_wait is called then. With any other status the rank has failed. */
STRATA_API strata_code strata_finish_at_exit(strata_client* client);

/* What the steps from first_step on, up to but not including end_step, were like on this rank. */
typedef struct strata_report {
  size_t size; /* sizeof(strata_report) */
  uint64_t first_step, end_step;
  uint64_t samples;
  double loss_sum;  /* over the steps */
  double wall_s;    /* seconds that they took */
  double trained_s; /* since the first step, without evaluations; 0: as the client counts it */
  int has_test;     /* not 0: test_accuracy and test_loss were measured */
  double test_accuracy, test_loss; /* NaN: not measured */
  int final;                       /* not 0: of the job's final model */
  /* What else was measured: `value_count` finite numbers, at most 32, under names of 1 to 64
   * letters, digits and characters of "._-/", each once. */
  const char* const* value_names;
  const double* values;
  uint32_t value_count;
  /* What this rank has learnt about its data since it started: the samples of an epoch, of all
   * ranks, and the number of epochs. 0: unknown. What strata_start was given comes first. */
  uint64_t samples_per_epoch;
  uint32_t epochs;
  /* In a job whose ranks take local steps, where first_step and end_step count exchanges: the steps
   * that this rank has made since the job began, and that it makes in all. 0: unknown. */
  uint64_t local_steps, local_steps_total;
} strata_report;

/* Sends a report, for the user to see. Errors: STRATA_INVALID_ARGUMENT naming the value. */
STRATA_API strata_code strata_send_report(strata_client* client, const strata_report* report);
/* Returns XXH3-64 of the memory. */
STRATA_API uint64_t strata_checksum(const void* data, size_t bytes);

/* A tensor, or an option of the optimizer, that must be the same on all ranks. */
typedef struct strata_state_item {
  const char* name; /* at most 256 bytes of it count */
  uint64_t checksum;
  const char* value; /* an option's, as text, of which 64 bytes count; null: a tensor */
} strata_state_item;

/* Where ranks change weights by an optimizer of their own: says what they have after `step` steps.
 * The job fails where another rank's of the same step differs, and names the first item that does.
 * All ranks say it after the same steps, with the same items, at most 4096. */
STRATA_API strata_code strata_send_state(strata_client* client, uint64_t step,
                                         const strata_state_item* items, uint32_t count);
/* Says in one line why this rank fails: the job's reason. Also within another thread's call. */
STRATA_API void strata_fail(strata_client* client, const char* reason);
/* Since ABI 9. Says, before strata_fail, that the rank fails because a loss, gradient or measured
 * value is NaN or infinite: the same job would fail again, and a comparison keeps the run as a
 * result. Also within another thread's call. */
STRATA_API void strata_has_diverged(strata_client* client);

#ifdef __cplusplus
}
#endif

#endif  // STRATA_WORKER_CLIENT_C_STRATA_CLIENT_H_

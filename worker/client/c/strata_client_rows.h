#ifndef STRATA_WORKER_CLIENT_C_STRATA_CLIENT_ROWS_H_
#define STRATA_WORKER_CLIENT_C_STRATA_CLIENT_ROWS_H_

/* Tables of rows: embeddings by id, each row with its optimizer's state. A table lives in this
 * process and needs no client, or it joins a job with servers, which then have its rows. Since ABI
 * 10.
 *
 * A step: strata_distinct_ids for the batch, strata_lookup_rows, then strata_push_rows with the
 * gradients of those rows, and strata_step_rows; in a job, within a step of the client,
 * strata_publish_rows in its place.
 *
 * A row has its initial values until it is first pushed; until then it takes no memory. Ids are at
 * least 0. Errors name the table: STRATA_INVALID_ARGUMENT (a null table, an id, a field),
 * STRATA_RESOURCE_EXHAUSTED.
 *
 * Threads: any; calls of the same table wait for each other. If its rows are on servers, a call
 * that comes during another one, as from a signal handler, fails with STRATA_FAILED_PRECONDITION.
 */

#include <stddef.h>
#include <stdint.h>

#include "strata_client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct strata_table strata_table;

/* The values of a row before its first push: a function of the seed, the id and the column. */
typedef enum strata_initial {
  STRATA_UNIFORM = 0,  /* in [-scale, scale) */
  STRATA_NORMAL = 1,   /* mean 0, standard deviation `scale`, none beyond 6 of them */
  STRATA_CONSTANT = 2, /* `scale` */
} strata_initial;

/* What becomes of a row that is pushed with gradient g. Rows that are not pushed stay as they are:
 * they do not decay, and their moments do not change. */
typedef enum strata_row_optimizer {
  STRATA_ROW_SGD = 0,
  STRATA_ROW_ADAGRAD = 1,         /* Duchi et al. 2011; as PyTorch's */
  STRATA_ROW_ROWWISE_ADAGRAD = 2, /* one accumulator a row: the sum of mean squares, as FBGEMM's */
  STRATA_ROW_ADAM = 3,            /* as PyTorch's SparseAdam */
  STRATA_ROW_FTRL = 4             /* McMahan et al. 2013; formula in proto/job.proto */
} strata_row_optimizer;

typedef struct strata_table_spec {
  size_t size;       /* sizeof(strata_table_spec) */
  const char* name;  /* 1 to 256 bytes */
  uint32_t columns;  /* weights in a row: 1 to 4096 */
  uint64_t capacity; /* rows, at least 1 */
  uint64_t seed;     /* of the initial values */
  strata_initial initial;
  float initial_scale; /* finite */
  strata_row_optimizer optimizer;
  /* Constants, all finite and at least 0. An optimizer reads only those that name it. */
  float weight_decay;        /* all: wd * w is added to g */
  float epsilon;             /* ADAGRAD, ROWWISE_ADAGRAD, ADAM; above 0 */
  float initial_accumulator; /* ADAGRAD, ROWWISE_ADAGRAD, FTRL */
  float beta1, beta2;        /* ADAM; below 1 */
  float l1, l2;              /* FTRL */
  float beta;                /* FTRL; above 0 */
} strata_table_spec;

/* What became of the rows of a call. */
typedef struct strata_row_counts {
  size_t size;      /* sizeof(strata_row_counts) */
  uint64_t updated; /* rows that were written */
  uint64_t stored;  /* those among them that were not stored before */
  uint64_t refused; /* new rows for which the table had no room: they keep their initial values */
} strata_row_counts;

/* Makes a table without stored rows. */
STRATA_API strata_code strata_table_create(const strata_table_spec* spec, strata_table** table);
/* Ends the table; null is fine. */
STRATA_API void strata_table_destroy(strata_table* table);
/* Return the stored rows, the bytes that they take, and the fp32 values of optimizer state in each;
 * 0 for null. */
STRATA_API uint64_t strata_table_rows(strata_table* table);
STRATA_API uint64_t strata_table_bytes(strata_table* table);
STRATA_API uint32_t strata_table_state_columns(strata_table* table);

/* Writes the distinct ids among `ids`, ascending, to `distinct`, which has room for `count`, and
 * their number to `distinct_count`; for each of `ids` its place among them to `places`. */
STRATA_API strata_code strata_distinct_ids(strata_table* table, const int64_t* ids, uint64_t count,
                                           int64_t* distinct, int64_t* places,
                                           uint64_t* distinct_count);
/* Writes the weights of each row to `rows`: count x columns values. Ids may be repeated. */
STRATA_API strata_code strata_lookup_rows(strata_table* table, const int64_t* ids, uint64_t count,
                                          float* rows);
/* The same for the rows of this step: those that strata_want_rows has named for it have the weights
 * that they came with, which lack the steps since. */
STRATA_API strata_code strata_take_rows(strata_table* table, const int64_t* ids, uint64_t count,
                                        float* rows);
/* Says which rows this rank takes strata_rows_lookahead() steps after this one, or, between two
 * steps, after the one to come. If servers have them they come with the answers to the step's
 * gradients, but for more than fit into rows.bytes_per_step or a message. Ids may be repeated. No
 * effect on a table in this process. */
STRATA_API strata_code strata_want_rows(strata_table* table, const int64_t* ids, uint64_t count);
/* Returns the job's rows.lookahead; 1: the table is in this process, or null. */
STRATA_API uint32_t strata_rows_lookahead(strata_table* table);
/* Adds gradients, count x columns values, to those of this step. Ids ascend, each once. Errors:
 * STRATA_INVALID_ARGUMENT: a value is NaN or infinite; nothing is added. */
STRATA_API strata_code strata_push_rows(strata_table* table, const int64_t* ids, uint64_t count,
                                        const float* gradients);
/* The gradient of sums of rows: adds bag i, of `bags` x columns values, to each row that
 * `places` names from ends[i - 1], or 0, up to ends[i]. `rows`: row_count x columns values. Errors:
 * STRATA_INVALID_ARGUMENT: ends descend, or a place is not below row_count. */
STRATA_API strata_code strata_spread_bags(strata_table* table, const float* bags,
                                          const int64_t* ends, uint64_t bag_count,
                                          const int64_t* places, float* rows, uint64_t row_count);
/* Drops the gradients that were pushed since the last step. */
STRATA_API strata_code strata_forget_rows(strata_table* table);
/* Updates the rows that were pushed. `counts` may be null. Errors: STRATA_INVALID_ARGUMENT: the
 * learning rate is not a finite number >= 0 of fp32. */
STRATA_API strata_code strata_step_rows(strata_table* table, double lr, strata_row_counts* counts);

/* Before strata_allocate: the job's servers have the table's rows, if it has servers; all ranks do
 * the same. From strata_start on, strata_lookup_rows blocks until it has their present weights. The
 * client lives as long as the table. Errors: STRATA_FAILED_PRECONDITION: the table has joined
 * before, or has rows of its own. */
STRATA_API strata_code strata_join_table(strata_client* client, strata_table* table);
/* Within a step, gives the servers the gradients that were pushed, times `scale`: what is given are
 * sums over this rank's samples. `lr`: the table's learning rate in this step, the same on all
 * ranks. Errors: STRATA_FAILED_PRECONDITION: the table has joined no job. */
STRATA_API strata_code strata_publish_rows(strata_table* table, double lr, double scale);

/* The whole table, to save it. Of a table that has joined a job, whose rows are elsewhere, these
 * are STRATA_FAILED_PRECONDITION. Returns its steps; write all stored ids, ascending; and the
 * optimizer state of stored rows, count x state columns values. Errors: STRATA_NOT_FOUND: a row is
 * not stored.
 */
STRATA_API uint64_t strata_table_steps(strata_table* table);
STRATA_API strata_code strata_stored_ids(strata_table* table, int64_t* ids, uint64_t room,
                                         uint64_t* count);
STRATA_API strata_code strata_read_row_state(strata_table* table, const int64_t* ids,
                                             uint64_t count, float* state);
/* Stores rows with these weights and, if `state` is not null, this state. Ids ascend, each once.
 * `counts` may be null. */
STRATA_API strata_code strata_store_rows(strata_table* table, const int64_t* ids, uint64_t count,
                                         const float* weights, const float* state,
                                         strata_row_counts* counts);
/* Says how many steps the table has made: Adam corrects its moments by them. */
STRATA_API strata_code strata_set_table_steps(strata_table* table, uint64_t steps);

#ifdef __cplusplus
}
#endif

#endif  // STRATA_WORKER_CLIENT_C_STRATA_CLIENT_ROWS_H_

#ifndef STRATA_WORKER_CLIENT_C_STRATA_CLIENT_VIEWS_H_
#define STRATA_WORKER_CLIENT_C_STRATA_CLIENT_VIEWS_H_

/* Who makes which step, beside strata_client.h. Since ABI 6.
 *
 * In jobs with `ranks_min` or `ranks_max` nodes may join and leave while training goes on, so that
 * each step has ranks of its own. A program that draws its samples by step and rank asks here which
 * part of a step is its own; so no sample is lost or used twice when the nodes change. Elsewhere
 * every step is of all ranks, so the same program trains any job:
 *
 *   strata_start, with can_resume not 0; then for each step from strata_first_step on, which is the
 *   job's step that this rank joins at: strata_ranks_at; where makes_it is 0: strata_finish.
 *
 * strata_begin_step asks this itself, and gives STRATA_NO_MORE_STEPS where this rank has made its
 * last step: nothing has changed, and strata_finish is to be called. The job goes on without it, so
 * its weights are then those of its last step, not the job's final ones.
 */

#include "strata_client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct strata_step_ranks {
  size_t size;    /* sizeof(strata_step_ranks), which the caller sets */
  int makes_it;   /* not 0: this rank does; 0: it has made its last step, and finishes */
  uint32_t rank;  /* its number among those that make the step; 0 where it does not */
  uint32_t ranks; /* how many they are */
  uint64_t rank_steps_before; /* that all ranks together have made before, each rank's counted */
} strata_step_ranks;

/* Sets `ranks` to who makes the step, which from then on does not change. Blocks while a change of
 * the nodes is agreed upon that may come with it. Errors: STRATA_FAILED_PRECONDITION, too: before
 * strata_start; STRATA_STOPPED; STRATA_INTERRUPTED, after which it may be called again. */
STRATA_API strata_code strata_ranks_at(strata_client* client, uint64_t step,
                                       strata_step_ranks* ranks);
/* The same for a step further on, whose data is to be read ahead: does not block. Sets `known` to 0
 * where it is not known yet; `ranks` stays as it is then. */
STRATA_API strata_code strata_ranks_at_if_known(strata_client* client, uint64_t step, int* known,
                                                strata_step_ranks* ranks);

#ifdef __cplusplus
}
#endif

#endif  // STRATA_WORKER_CLIENT_C_STRATA_CLIENT_VIEWS_H_

#ifndef STRATA_WORKER_CLIENT_C_STRATA_CLIENT_CHECKPOINTS_H_
#define STRATA_WORKER_CLIENT_C_STRATA_CLIENT_CHECKPOINTS_H_

/* What a program does in jobs with `checkpoint`, beside strata_client.h. Since ABI 4.
 *
 * strata_facts has `can_resume` not 0: the program begins with the step that strata_first_step
 * says, as if it had made those before it; jobs with `checkpoint` take no other programs. Where it
 * has `keeps_state` not 0, too, checkpoints hold the bytes that each rank gives:
 *
 *   strata_start; where strata_first_step is not 0: strata_read_state; then per step:
 *   ..., strata_finish_step, and where strata_checkpoint_due says so: strata_give_state.
 */

#include "strata_client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns not 0 where the job goes on from a checkpoint, whether it writes any or not. Since
 * ABI 5. */
STRATA_API int strata_goes_on(const strata_client* client);
/* Returns the first step that this process makes: 0, but where the job goes on from a checkpoint,
 * or this process takes the place of one that died, or joins a job that trains. From strata_start
 * on; 0 before. */
STRATA_API uint64_t strata_first_step(const strata_client* client);
/* Returns not 0 where this is the moment of a checkpoint whose state of this rank has not been
 * given: after strata_finish_step and before the next strata_begin_step, or before strata_finish.
 * Also 0 where the store is so slow that two states are not written yet: that checkpoint fails. */
STRATA_API int strata_checkpoint_due(const strata_client* client);
/* Gives the state, of which the library keeps a copy, and writes it while training goes on. Without
 * it the checkpoint fails, and training goes on. STRATA_FAILED_PRECONDITION: none is due. */
STRATA_API strata_code strata_give_state(strata_client* client, const void* state, size_t bytes);
/* Sets `state` and `bytes` to what a rank gave for the checkpoint that the job goes on from; valid
 * until the next call of this. Waits for the store. Errors: STRATA_NOT_FOUND: the job begins anew;
 * STRATA_INVALID_ARGUMENT: no such rank; STRATA_INTERNAL: it cannot be read: the program is to
 * exit, and where it is damaged, the job goes on from an earlier checkpoint. */
STRATA_API strata_code strata_read_state(strata_client* client, uint32_t rank, const void** state,
                                         size_t* bytes);

#ifdef __cplusplus
}
#endif

#endif  // STRATA_WORKER_CLIENT_C_STRATA_CLIENT_CHECKPOINTS_H_

#ifndef STRATA_WORKER_CLIENT_C_STRATA_CLIENT_DEVICES_H_
#define STRATA_WORKER_CLIENT_C_STRATA_CLIENT_DEVICES_H_

/* What a program does with its rank's GPU, beside strata_client.h. Programs that keep their tensors
 * on the host need none of it. */

#include "strata_client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Jobs with `device: GPU`. Says that the program can have its tensors on a device, whose memory the
 * host cannot touch; before strata_allocate, which fails where the job has GPUs and this was not
 * said. strata_publish_values and strata_read_weights, which are of the host, are refused then. */
STRATA_API strata_code strata_accept_device(strata_client* client);
/* Returns the CUDA device that the rank computes on, by its number in this process; -1: the job
 * wants none. */
STRATA_API int32_t strata_device_index(strata_client* client);
/* The default stream, which other libraries know as 0. */
#define STRATA_CUDA_DEFAULT_STREAM ((void*)1)
/* Makes strata_wait, strata_publish and strata_finish_step points in `cuda_stream`, a cudaStream_t
 * of that device which the program computes in: they no longer wait for it. What is queued after
 * strata_wait finds the weights there; the gradient is complete once what was queued before
 * strata_publish is done. The stream outlives the last step in it. Null: they wait again. Between
 * steps, unless it is in use already. Errors: STRATA_INVALID_ARGUMENT (no stream of the device),
 * STRATA_FAILED_PRECONDITION (no device, or within a step). */
STRATA_API strata_code strata_compute_in(strata_client* client, void* cuda_stream);

/* Since ABI 3, for programs that do not call CUDA themselves. */

/* Sets `cuda_stream` to the stream that strata_copy works in: that of strata_compute_in, else one
 * of the client's. It is valid until strata_close. Errors: STRATA_FAILED_PRECONDITION (no device).
 */
STRATA_API strata_code strata_device_stream(strata_client* client, void** cuda_stream);
/* Copies between any two of memory of the device and of the host, after what `ready_in`, a
 * cudaStream_t of that device, has been given until now (null: at once). In the stream of
 * strata_compute_in the copy is only queued, and the memory must stay until it is done; else it is
 * done when the call returns. From strata_connect on. Errors: STRATA_INVALID_ARGUMENT (no stream of
 * the device), STRATA_FAILED_PRECONDITION (no device). */
STRATA_API strata_code strata_copy(strata_client* client, void* to, const void* from, size_t bytes,
                                   void* ready_in);
/* Sets `memory` to as many bytes of the device, the client's until strata_close. Errors:
 * STRATA_RESOURCE_EXHAUSTED, STRATA_FAILED_PRECONDITION (no device). */
STRATA_API strata_code strata_device_memory(strata_client* client, size_t bytes, void** memory);

#ifdef __cplusplus
}
#endif

#endif  // STRATA_WORKER_CLIENT_C_STRATA_CLIENT_DEVICES_H_

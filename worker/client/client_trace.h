#ifndef STRATA_WORKER_CLIENT_CLIENT_TRACE_H_
#define STRATA_WORKER_CLIENT_CLIENT_TRACE_H_

namespace strata::client {

// What a program may say of its steps for the job's trace alone: Client::trace(). Costs nothing in
// jobs without one.
//
// Threads: the client's.
class ClientTrace {
 public:
  virtual ~ClientTrace() = default;

  // The forward pass is over. Without it the first Publish of a step counts as its end.
  virtual void BeginBackward() = 0;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CLIENT_TRACE_H_

#ifndef STRATA_WORKER_CLIENT_CLIENT_CHECKPOINTS_H_
#define STRATA_WORKER_CLIENT_CLIENT_CHECKPOINTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"

namespace strata::client {

// What a rank keeps of its own in its job's checkpoints: Client::checkpoints(). Where the program
// says JobFacts::keeps_state, a checkpoint is of use only with the state of every rank.
//
// Threads: the client's.
class ClientCheckpoints {
 public:
  virtual ~ClientCheckpoints() = default;

  // Whether this is the moment of a checkpoint, whose state has not been given: after FinishStep
  // and before the next BeginStep, or before Finish. The state is what the next step begins with.
  // False, too, where the store is so slow that two states are not written yet: the checkpoint
  // then fails, which the job's status says.
  virtual bool due() const = 0;
  // Gives the state, which is written while training goes on. Where one is due and none is given,
  // the checkpoint fails. Errors: FailedPrecondition: none is due.
  virtual absl::Status Give(std::string state) = 0;

  // Returns the state that a rank gave for the checkpoint that the job goes on from. Waits for the
  // store. Errors: NotFound: the job begins anew, or no ranks kept state; InvalidArgument: no such
  // rank; DataLoss: the object is damaged, and the job goes on from an earlier checkpoint;
  // Internal: the store's. After the last two the program exits.
  virtual absl::StatusOr<Bytes> Read(uint32_t rank) = 0;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CLIENT_CHECKPOINTS_H_

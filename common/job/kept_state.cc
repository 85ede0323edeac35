#include "common/job/kept_state.h"

#include "common/job/consistency.h"
#include "common/job/encoding.h"

namespace strata {

bool NodesKeepState(const proto::Job& job) {
  const bool by_servers = job.exchange() == proto::Job::PARAMETER_SERVER;
  // A ring encodes without feedback.
  return (by_servers && IsEncoded(job.push())) || AppliesOnNodes(job) || NodesMakeLocalSteps(job) ||
         job.consistency().lazy().double_buffering();
}

uint64_t ClocksPerCheckpoint(const proto::Job& job) {
  const uint64_t steps = StepsPerClock(job);
  return (job.checkpoint().every_steps() + steps - 1) / steps;
}

}  // namespace strata

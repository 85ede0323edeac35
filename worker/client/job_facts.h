#ifndef STRATA_WORKER_CLIENT_JOB_FACTS_H_
#define STRATA_WORKER_CLIENT_JOB_FACTS_H_

#include <cstdint>
#include <string>

namespace strata::client {

// What a program knows of its training, for the job's schedules.
struct JobFacts {
  uint64_t samples_per_epoch = 0;  // all ranks together; needed by schedules with warm-up or shape
  uint64_t total_steps = 0;        // per rank; 0: unknown
  // Every rank begins with rank 0's weights, whatever it offers; else all must offer the same. On
  // all ranks or none.
  bool takes_first_weights = false;
  // The optimizer, where the job says optimizer { from_program {} } and only there: protobuf text,
  // as "sgd { weight_decay: 0.1 }", with clip_norm if it is to be. The same on all ranks.
  std::string optimizer;
  // Each step has a learning rate of the program's, which BeginStepAt takes, in place of what the
  // job's schedule says. On all ranks or none.
  bool says_rates = false;
  // The program begins with the step that Client::first_step says, whichever it is, as if it had
  // made those before it: a job can go on from a checkpoint only then, and a node that dies can be
  // replaced. On all ranks or none.
  bool can_resume = false;
  // This rank has state of its own that checkpoints are to hold: see client_checkpoints.h. On all
  // ranks or none; means nothing in jobs without checkpoints, but that nodes cannot be replaced.
  bool keeps_state = false;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_JOB_FACTS_H_

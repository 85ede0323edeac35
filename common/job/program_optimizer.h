#ifndef STRATA_COMMON_JOB_PROGRAM_OPTIMIZER_H_
#define STRATA_COMMON_JOB_PROGRAM_OPTIMIZER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace strata {

// A program that has an optimizer of its own knows it, and the learning rate of each step, only
// when it runs. Its job says `optimizer { from_program {} }`, and is complete once the program has
// named the optimizer.

// Reads the optimizer that a program names, as protobuf text ("sgd { weight_decay: 0.1 }"), and
// fills in its defaults. Errors: InvalidArgument, one line.
absl::StatusOr<proto::Optimizer> ParseOptimizer(const std::string& text);

// Returns the optimizer as one line of protobuf text.
std::string OptimizerText(const proto::Optimizer& optimizer);

// Puts what the program has named, if it has (else null), into a valid job whose defaults are
// filled in, and checks the job again; `says_rates` says that each step has a rate of the
// program's. Errors: InvalidArgument, one line that names the field, or what program and job are to
// agree on.
absl::Status TakeProgramOptimizer(const proto::Optimizer* named, bool says_rates, proto::Job* job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_PROGRAM_OPTIMIZER_H_

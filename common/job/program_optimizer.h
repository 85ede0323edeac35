#ifndef STRATA_COMMON_JOB_PROGRAM_OPTIMIZER_H_
#define STRATA_COMMON_JOB_PROGRAM_OPTIMIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// Puts the samples that the program says each rank has in every step into the job, where clipping
// or LARS on the nodes must know them and the job does not say them. 0: the program does not say.
// REQUIRES: as of TakeProgramOptimizer, which is called after it.
void TakeProgramSamples(uint32_t samples, const proto::Optimizer* named, proto::Job* job);
// Returns whether a job failed with an error of TakeProgramOptimizer which says that the program
// itself decides what the job sets: no other value of the field would help.
bool SaysProgramDecides(absl::string_view reason);

// Refuses what a program's job sets although neither the program nor its exchange reads it. `job`
// is as written, defaults not filled in, and has the settings ("path=value", as of ApplySettings);
// `is_of_program` says whether it ran a program before them. A setting is refused whatever its
// value, a field of the job where it differs from its default. A C or C++ program that names its
// optimizer may leave rates to `schedule`, which only TakeProgramOptimizer can tell. Errors:
// InvalidArgument, one line that names the field.
absl::Status CheckProgramReads(bool is_of_program, const std::vector<std::string>& settings,
                               const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_PROGRAM_OPTIMIZER_H_

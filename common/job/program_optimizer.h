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

// A program with an optimizer of its own knows it, and the learning rate of each step, only when it
// runs. Its job says `optimizer { from_program {} }`, and is complete once the program has named
// the optimizer.

// Reads the optimizer that a program names, as protobuf text ("sgd { weight_decay: 0.1 }"), and
// fills in its defaults. Errors: InvalidArgument, one line.
absl::StatusOr<proto::Optimizer> ParseOptimizer(const std::string& text);

// Returns the optimizer as one line of protobuf text.
std::string OptimizerText(const proto::Optimizer& optimizer);

// Merges the program's optimizer, if it has named one (otherwise null), into a valid job whose
// defaults are filled in, and checks the job again; `says_rates`: the program gives a rate for each
// step. Errors: InvalidArgument, one line that names the field, or the disagreement of program and
// job.
absl::Status TakeProgramOptimizer(const proto::Optimizer* named, bool says_rates, proto::Job* job);

// Sets the number of samples that the program says each rank has in every step, if clipping or LARS
// on the nodes needs it and the job does not give it. 0: the program does not say.
// REQUIRES: as of TakeProgramOptimizer, which is called after it.
void TakeProgramSamples(uint32_t samples, const proto::Optimizer* named, proto::Job* job);
// Returns whether a job failed with an error of TakeProgramOptimizer which says that the program
// itself decides a field that the job sets: no other value of the field would help.
bool SaysProgramDecides(absl::string_view reason);

// Refuses settings of a program's job that neither the program nor its exchange reads. `job` is as
// written, without defaults, and includes the settings ("path=value", as of ApplySettings);
// `is_of_program`: whether it ran a program before them. A setting is refused whatever its value, a
// field of the job if it differs from its default. A C or C++ program that names its optimizer may
// leave rates to `schedule`, which only TakeProgramOptimizer can tell. Errors: InvalidArgument, one
// line that names the field.
absl::Status CheckProgramReads(bool is_of_program, const std::vector<std::string>& settings,
                               const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_PROGRAM_OPTIMIZER_H_

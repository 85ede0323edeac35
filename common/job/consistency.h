#ifndef STRATA_COMMON_JOB_CONSISTENCY_H_
#define STRATA_COMMON_JOB_CONSISTENCY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/optimizer.h"
#include "proto/job.pb.h"

namespace strata {

inline constexpr uint32_t kStalenessMax = 1024, kLocalStepsMax = 65536;

// The mode of that name, as job.proto lists them at `preset`. Errors: InvalidArgument: no such
// name, or not the argument that it wants.
absl::StatusOr<proto::Consistency> ParsePreset(const std::string& name);

// Returns the settings (ApplySettings) that a mode's name on a command line stands for: "lazy" with
// its defaults, "ring", or a preset, optionally with its kind before it, as in "lazy:ssp(3)".
absl::StatusOr<std::vector<std::string>> SettingsOfMode(const std::string& mode);

// Replaces a preset by what it stands for, and keeps its name. An unknown preset is left as it is.
void ExpandPreset(proto::Consistency* consistency);
// Expands the preset and fills in the defaults.
void FillConsistency(proto::Consistency* consistency);
// Checks `consistency` by itself, with its defaults filled in. Errors: InvalidArgument.
absl::Status CheckConsistency(const proto::Consistency& consistency);

// "sync", "lazy(2)", "lazy(2, on arrival)", "lazy(0, 16 local steps, outer 0.7, momentum 0.9)",
// "double buffering", "async", "async(inverse staleness)".
std::string ModeName(const proto::Consistency& consistency);
// The name of the preset that the mode was given as, else ModeName; so, too, where another setting
// has changed what the preset stands for.
std::string ShownModeName(const proto::Consistency& consistency);
// Returns the mode without the name that it was given by: two that do the same are equal then.
proto::Consistency WithoutName(proto::Consistency consistency);
// Returns the preset that the name of a mode on a command line names; "": none, as of "ring".
std::string PresetOfMode(const std::string& mode);

// All functions below take jobs with their defaults filled in.

// Returns whether nodes, or ranks with optimizer.mean, apply an optimizer to weights of their own
// and exchange those.
bool HasLocalSteps(const proto::Job& job);
// Returns whether nodes, not ranks, do so.
bool NodesMakeLocalSteps(const proto::Job& job);
// Steps of a node per clock of the exchange.
uint64_t StepsPerClock(const proto::Job& job);
// Returns how many steps a rank's program makes for each that it makes with the job: the local
// steps that ranks take by themselves (`optimizer { mean {} }`), else 1. Records and checkpoints
// count the job's; what users see counts the program's.
uint64_t ProgramStepsPerStep(const proto::Job& job);
// Returns whether whoever keeps weights for all nodes only averages gradients, and each node
// applies the optimizer to weights of its own, because it needs norms over all of them: LARS, and
// clipping of the mean gradient.
bool AppliesOnNodes(const proto::Job& job);
// Returns whether a clock is answered when all nodes have pushed it, so that all of them get the
// same versions: what a ring can do.
bool IsInStep(const proto::Consistency& consistency);
// Returns how an async mode corrects stale gradients, or nothing if it does not.
std::optional<DelayCompensation> MakeDelayCompensation(const proto::Consistency& consistency);
// Returns whether nodes keep state of their own from one clock to the next, which differs from node
// to node and which checkpoints hold: what pushes have left out, weights of local steps, an
// optimizer that nodes apply, gradients that double buffering has under way.
bool NodesKeepState(const proto::Job& job);
// Returns whether ranks alone have the weights, the same on each, and the optimizer's state: rank 0
// writes them to checkpoints, as shard 0.
bool RanksKeepWeights(const proto::Job& job);
// Returns the clocks of the exchange from one checkpoint to the next; 0: the job writes none.
uint64_t ClocksPerCheckpoint(const proto::Job& job);
// Returns whether sums of gradients reach the optimizer as they are, signs of zeros included, so
// that -0.0 can say that an element has no gradient (JobRecord.marks_absent).
bool MayMarkAbsent(const proto::Job& job);
// Returns the optimizer that is applied where weights are kept for all nodes: `outer`, or the job's
// own.
OptimizerParams SharedOptimizer(const proto::Job& job);
proto::Schedule SharedSchedule(const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_CONSISTENCY_H_

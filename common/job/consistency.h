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

// Returns the mode of that name, as listed in job.proto at `preset`. Errors: InvalidArgument:
// unknown name, or wrong argument.
absl::StatusOr<proto::Consistency> ParsePreset(const std::string& name);

// Returns the settings (ApplySettings) for a mode's name on a command line: "lazy" with its
// defaults, "ring", or a preset, optionally with its kind before it, as in "lazy:ssp(3)".
absl::StatusOr<std::vector<std::string>> SettingsOfMode(const std::string& mode);

// Replaces a preset by its settings, and keeps its name. An unknown preset is left unchanged.
void ExpandPreset(proto::Consistency* consistency);
// Expands the preset and fills in the defaults.
void FillConsistency(proto::Consistency* consistency);
// Checks `consistency` by itself, with its defaults filled in. Errors: InvalidArgument.
absl::Status CheckConsistency(const proto::Consistency& consistency);

// "sync", "lazy(2)", "lazy(2, on arrival)", "lazy(0, 16 local steps, outer 0.7, momentum 0.9)",
// "double buffering", "async", "async(inverse staleness)".
std::string ModeName(const proto::Consistency& consistency);
// Returns the name of the preset that was given for the mode, otherwise ModeName; also if another
// setting has overridden one of the preset's.
std::string ShownModeName(const proto::Consistency& consistency);
// Returns that of a job, and of its rows where they have another one: "sync, rows async".
std::string ShownModeName(const proto::Job& job);
// Returns the mode without its preset name, so that modes with the same effect compare equal.
proto::Consistency WithoutName(proto::Consistency consistency);
// Returns the preset in a mode's name on a command line; "": none, as for "ring".
std::string PresetOfMode(const std::string& mode);

// Returns the field below `consistency` that rows do not go with, as "lazy.quorum"; "": none.
std::string DoesNotGoWithRows(const proto::Consistency& consistency);

// All functions below take jobs with their defaults filled in.

// Returns whether nodes, or ranks with optimizer.mean, apply an optimizer to weights of their own
// and exchange those.
bool HasLocalSteps(const proto::Job& job);
// Returns whether nodes, not ranks, do so.
bool NodesMakeLocalSteps(const proto::Job& job);
// Steps of a node per clock of the exchange.
uint64_t StepsPerClock(const proto::Job& job);
// Returns how many steps a rank's program makes per step of the job: the local steps that ranks
// take by themselves (`optimizer { mean {} }`), otherwise 1. Records and checkpoints count the
// job's; what users see counts the program's.
uint64_t ProgramStepsPerStep(const proto::Job& job);
// Returns whether the keeper of the common weights only averages gradients, and each node applies
// the optimizer to weights of its own, because it needs norms over all of them: LARS, and clipping
// of the mean gradient.
bool AppliesOnNodes(const proto::Job& job);
// Returns whether a clock is answered when all nodes have pushed it, so that all of them get the
// same versions: the modes that a ring can do.
bool IsInStep(const proto::Consistency& consistency);
// Returns how an async mode corrects stale gradients, or nothing if it does not.
std::optional<DelayCompensation> MakeDelayCompensation(const proto::Consistency& consistency);
// Returns whether nodes keep state of their own between clocks, which differs from node to node and
// is part of checkpoints: what pushes have left out, weights of local steps, an optimizer that
// nodes apply, gradients in flight with double buffering.
bool NodesKeepState(const proto::Job& job);
// Returns whether only ranks have the weights, the same on each, and the optimizer's state: rank 0
// writes them to checkpoints, as shard 0.
bool RanksKeepWeights(const proto::Job& job);
// Returns the clocks of the exchange between checkpoints; 0: the job writes none.
uint64_t ClocksPerCheckpoint(const proto::Job& job);
// Returns whether sums of gradients reach the optimizer unchanged, signs of zeros included, so that
// -0.0 can mark an element without a gradient (JobRecord.marks_absent).
bool MayMarkAbsent(const proto::Job& job);
// Returns the optimizer that is applied to the common weights: `outer`, or the job's own.
OptimizerParams SharedOptimizer(const proto::Job& job);
proto::Schedule SharedSchedule(const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_CONSISTENCY_H_

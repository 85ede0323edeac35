#ifndef STRATA_CLI_CHECKPOINT_RENDER_CHECKPOINTS_H_
#define STRATA_CLI_CHECKPOINT_RENDER_CHECKPOINTS_H_

#include <string>
#include <vector>

#include "cli/checkpoint/checkpoint_list.h"

namespace strata::cli {

// A table of checkpoints; and JSON, where what a manifest that cannot be read would say is null.
std::string CheckpointsText(const std::vector<CheckpointEntry>& entries);
std::string CheckpointsJson(const std::vector<CheckpointEntry>& entries);

}  // namespace strata::cli

#endif  // STRATA_CLI_CHECKPOINT_RENDER_CHECKPOINTS_H_

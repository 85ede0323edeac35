#ifndef STRATA_CLI_RENDER_RENDER_MEMORY_H_
#define STRATA_CLI_RENDER_RENDER_MEMORY_H_

#include <string>

#include "proto/control.pb.h"

namespace strata::cli {

// The memory formula of a job, part by part, in bytes and in multiples of the model's size: of the
// node, of its GPUs and of the shard that may take most, and the sums over all. Empty where no
// parts are known.
std::string MemoryTable(const proto::JobStatus& job);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_MEMORY_H_

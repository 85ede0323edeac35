#ifndef STRATA_COMMON_CHECKPOINT_PART_NAME_H_
#define STRATA_COMMON_CHECKPOINT_PART_NAME_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace strata {

// Whose state an object of a checkpoint holds.
enum class PartKind { kShard, kNode, kRank };
// Returns "shard", "node" or "rank".
const char* WordFor(PartKind kind);

// The object of one shard, node or rank of the job.
struct PartName {
  PartKind kind = PartKind::kShard;
  uint32_t number = 0;

  auto operator<=>(const PartName&) const = default;
};

// Returns the part's name of an object, within its checkpoint: "shard-3-7.0", of job 7's first
// attempt. No two attempts of jobs write to the same object.
std::string ToText(const PartName& part, uint32_t job, uint32_t attempt);
// Reads the name of an object: "clock-.../shard-3-7.0", also without the job's. None: it is no
// part's.
std::optional<PartName> ParsePartName(const std::string& object);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_PART_NAME_H_

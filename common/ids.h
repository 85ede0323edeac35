#ifndef STRATA_COMMON_IDS_H_
#define STRATA_COMMON_IDS_H_

#include <compare>
#include <cstdint>
#include <ostream>

#include "absl/strings/str_format.h"

namespace strata {

// An integer that identifies one kind of object and converts to no other kind. `Tag` is any type.
template <typename Tag, typename Int>
class Id {
 public:
  using Value = Int;

  constexpr Id() = default;
  constexpr explicit Id(Int value) : value_(value) {}

  constexpr Int value() const { return value_; }
  constexpr auto operator<=>(const Id&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.value_; }

 private:
  Int value_ = 0;
};

// A job, unique in its cluster forever; from 1.
using JobId = Id<struct JobIdTag, uint32_t>;
// A logical node of one job, from 0; the job's view says which daemon runs it.
using NodeId = Id<struct NodeIdTag, uint32_t>;
// A global rank of one job, from 0.
using RankId = Id<struct RankIdTag, uint32_t>;
// A chunk of one job's arena, from 0, in arena order.
using ChunkId = Id<struct ChunkIdTag, uint32_t>;
// A shard of one job, from 0: an index into its placement.
using ShardId = Id<struct ShardIdTag, uint32_t>;

}  // namespace strata

#endif  // STRATA_COMMON_IDS_H_

#ifndef STRATA_TESTS_SIM_CHECK_NEXT_COPY_H_
#define STRATA_TESTS_SIM_CHECK_NEXT_COPY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/wire/frame.h"
#include "server/shard/copy/chunk_copy.pb.h"

namespace strata::sim {

// What JobChecker knows of a copy that is filled beside the two of a shard, and is to be the backup
// next: what it has by a chunk's copy, and what it has followed since.
class NextCopy {
 public:
  // `retired`: nodes that the one who fills it knows to have retired. `process`, who is filled, is
  // 0 until it is known.
  NextCopy(uint32_t generation, uint64_t process, std::set<uint32_t> retired)
      : generation_(generation), process_(process), retired_(std::move(retired)) {}

  uint32_t generation() const { return generation_; }
  uint64_t process() const { return process_; }
  void set_process(uint64_t process) { process_ = process; }

  // The copy of a chunk is said. One that is said again changes nothing.
  void OnCopySaid(uint32_t chunk, const proto::ChunkCopy& head);
  // It has taken a frame that it was said. Returns what is wrong with that; "": nothing.
  std::string OnTaken(const wire::Frame& frame);
  bool IsWhole(size_t chunks) const { return whole_ == chunks; }
  uint64_t taken() const { return taken_; }

  // Whether the change is one that is in no copy of a chunk, and that it does not have yet.
  bool Lacks(const wire::Header& change) const;
  // Whether the copy of the chunk has it.
  bool IsInCopy(const wire::Header& change) const;
  // The model has taken this change.
  void Forget(const wire::Header& change);
  // Changes that it has and the model does not, in order.
  const std::deque<wire::Frame>& ahead() const { return ahead_; }

 private:
  struct SaidChunk {
    std::vector<uint64_t> received;  // by node
    uint64_t gate = 0;               // clocks before this one are complete
    bool seeded = false;
    uint64_t parts_left = 0;
  };

  uint32_t generation_;
  uint64_t process_;
  std::set<uint32_t> retired_;
  std::map<uint32_t, SaidChunk> said_;  // by chunk
  size_t whole_ = 0;
  uint64_t taken_ = 0;
  std::deque<wire::Frame> ahead_;
};

// Whether two frames say the same change.
bool IsSameChange(const wire::Header& a, const wire::Header& b);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_NEXT_COPY_H_

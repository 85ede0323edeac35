#ifndef STRATA_SERVER_COORDINATOR_SERVICE_SEEN_BLOCKS_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_SEEN_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {

// A log of registrations in numbered blocks, so that one more registration writes one small value.
// An entry replaces earlier ones of its daemon; the obsolete entries are dropped when everything is
// rewritten in blocks of higher numbers. Pure; a value.
class SeenBlocks {
 public:
  using Entry = SeenRegistrations::Entry;
  static constexpr size_t kBlockEntries = 256;
  // Entries above which everything is rewritten.
  static constexpr size_t kLogMax = 2 * SeenRegistrations::kMax;

  // The effect of one append.
  struct Change {
    std::map<uint64_t, std::string> blocks;  // by number: to write
    uint64_t first = 0;                      // blocks below it are to be deleted
  };

  // Adds a stored block. REQUIRES: numbers ascend. Errors: DataLoss.
  absl::Status Restore(uint64_t number, const std::string& value);
  // Only the last SeenRegistrations::kMax entries count.
  Change Append(std::vector<Entry> entries);
  // Returns the newest entry of each daemon, up to SeenRegistrations::kMax, the oldest first.
  std::vector<Entry> Newest() const;

 private:
  void Add(const Entry& entry, Change& change);

  std::map<uint64_t, std::vector<Entry>> blocks_;
  uint64_t next_ = 1;  // number
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_SEEN_BLOCKS_H_

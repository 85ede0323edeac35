#ifndef STRATA_SERVER_COORDINATOR_MEMBERS_SEEN_REGISTRATIONS_H_
#define STRATA_SERVER_COORDINATOR_MEMBERS_SEEN_REGISTRATIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace strata::server {

// The highest attempt of every daemon process that has registered, so that a copy of an earlier
// registration is known as one, also long after that process and after the coordinator's restart.
// Bounded: the process that registered longest ago is forgotten first. One owner.
class SeenRegistrations {
 public:
  // More than the daemons that a coordinator remembers, several times.
  static constexpr size_t kMax = 16384;
  struct Entry {
    uint64_t daemon_id = 0;
    uint32_t attempt = 0;
  };

  explicit SeenRegistrations(size_t max = kMax) : max_(max) {}

  // Takes in what the store held, the oldest first. REQUIRES: nothing was noted before.
  void Restore(const std::vector<Entry>& entries);
  // Returns 0 when no attempt of the process is known.
  uint32_t NewestAttempt(uint64_t daemon_id) const;
  void Note(uint64_t daemon_id, uint32_t attempt);
  // Returns what the store does not have yet, the oldest first; until Saved.
  std::vector<Entry> Unsaved() const;
  void Saved() { unsaved_.clear(); }

 private:
  struct Seen {
    uint32_t attempt = 0;
    uint64_t order = 0;
  };

  const size_t max_;
  uint64_t next_order_ = 1;
  std::map<uint64_t, Seen> seen_;           // by daemon_id
  std::map<uint64_t, uint64_t> daemon_of_;  // by order
  std::set<uint64_t> unsaved_;              // orders
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_MEMBERS_SEEN_REGISTRATIONS_H_

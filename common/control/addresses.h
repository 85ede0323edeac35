#ifndef STRATA_COMMON_CONTROL_ADDRESSES_H_
#define STRATA_COMMON_CONTROL_ADDRESSES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace strata::control {

// If several coordinators stand by for the leader, a daemon or command knows all their addresses
// and searches them for the leader. Pure.

constexpr size_t kAddressesMax = 16;

// Splits "HOST:PORT,HOST:PORT" into its parts; "unix:/PATH" and "HOST:PORT" stay whole.
std::vector<std::string> SplitAddresses(const std::string& coordinator);

// A standby's answer to each call, with the code Unavailable: "HOST:PORT leads", or "nobody leads
// yet" if `leader` is empty.
std::string StandbyText(const std::string& leader);
bool IsStandbyText(const std::string& why);
// Returns the address that such an answer names.
std::optional<std::string> LeaderIn(const std::string& why);

// Returns whether a coordinator with this `epoch` no longer leads, as far as a process that knows
// of `newest` (0: none) can tell.
constexpr bool WasDeposed(uint64_t epoch, uint64_t newest) { return epoch < newest; }

// The pause after all addresses have been tried.
inline constexpr absl::Duration kPauseBetweenRounds = absl::Milliseconds(200);

// Chooses the address to try: each in turn, beginning with the reported leader.
class AddressRound {
 public:
  // REQUIRES: SplitAddresses(coordinator) is not empty.
  explicit AddressRound(const std::string& coordinator);

  const std::string& current() const { return addresses_[current_]; }
  bool is_one() const { return addresses_.size() == 1; }
  // The current address does not serve, for this reason; empty: no new reason is known. Returns
  // true if all have been tried once: then it is time for a pause, and a new round begins.
  bool OnFailed(const std::string& why);
  // The current address serves: the next round also begins with it.
  void OnServed();
  // Returns whether an address answered as a standby in the last round: another one may lead soon.
  bool knows_standby() const { return knows_standby_; }
  // Why none served: the reason, and with several addresses each one's: "a:1: reason; b:1: ...".
  std::string Reasons() const;

 private:
  std::optional<size_t> Find(const std::string& address) const;

  std::vector<std::string> addresses_;
  std::vector<std::string> reasons_;  // by address, the newest; empty: not tried
  std::set<size_t> tried_;            // in this round
  size_t current_ = 0;
  bool standby_in_round_ = false;
  bool knows_standby_ = false;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_ADDRESSES_H_

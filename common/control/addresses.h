#ifndef STRATA_COMMON_CONTROL_ADDRESSES_H_
#define STRATA_COMMON_CONTROL_ADDRESSES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace strata::control {

// Where several coordinators stand by for the one that leads, a daemon or command knows all their
// addresses and looks for the leader among them. Pure.

constexpr size_t kAddressesMax = 16;

// "HOST:PORT,HOST:PORT" as its parts; "unix:/PATH" and "HOST:PORT" stay whole.
std::vector<std::string> SplitAddresses(const std::string& coordinator);

// What one that stands by answers to each call, with the code Unavailable: "HOST:PORT leads" or
// "nobody leads yet", where `leader` is empty.
std::string StandbyText(const std::string& leader);
bool IsStandbyText(const std::string& why);
// Whom such an answer names.
std::optional<std::string> LeaderIn(const std::string& why);

// Whether a coordinator that names `epoch` leads no longer, as far as one knows who has been told
// of `newest` (0: of none).
constexpr bool WasDeposed(uint64_t epoch, uint64_t newest) { return epoch < newest; }

// Which address is to be tried: one after the other, but first the one that is said to lead.
class AddressRound {
 public:
  // REQUIRES: SplitAddresses(coordinator) is not empty.
  explicit AddressRound(const std::string& coordinator);

  const std::string& current() const { return addresses_[current_]; }
  bool is_one() const { return addresses_.size() == 1; }
  // The present one does not serve, for this reason; empty: it is not known anew. Returns whether
  // all have been tried once: then it is time for a pause, and a new round begins.
  bool OnFailed(const std::string& why);
  // The present one serves: it is the first of the next round, too.
  void OnServed();
  // Whether somebody has said in the last round that it stands by: another one may lead soon.
  bool knows_standby() const { return knows_standby_; }
  // Why none served: the reason, and with several addresses that of each: "a:1: reason; b:1: ...".
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

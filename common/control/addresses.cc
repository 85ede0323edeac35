#include "common/control/addresses.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/os/unix_socket.h"
#include "common/require.h"

namespace strata::control {
namespace {

constexpr char kLeads[] = " leads";
constexpr char kNobody[] = "nobody leads yet";

}  // namespace

std::vector<std::string> SplitAddresses(const std::string& coordinator) {
  if (UnixPath(coordinator)) return {coordinator};
  return absl::StrSplit(coordinator, ',');
}

std::string StandbyText(const std::string& leader) {
  return leader.empty() ? kNobody : absl::StrCat(leader, kLeads);
}

bool IsStandbyText(const std::string& why) { return why == kNobody || LeaderIn(why).has_value(); }

std::optional<std::string> LeaderIn(const std::string& why) {
  absl::string_view address = why;
  if (!absl::ConsumeSuffix(&address, kLeads) || address.empty()) return std::nullopt;
  for (const char c : address) {
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) return std::nullopt;
  }
  return std::string(address);
}

AddressRound::AddressRound(const std::string& coordinator)
    : addresses_(SplitAddresses(coordinator)), reasons_(addresses_.size()) {
  STRATA_REQUIRE(!addresses_.empty());
}

std::optional<size_t> AddressRound::Find(const std::string& address) const {
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (addresses_[i] == address) return i;
  }
  return std::nullopt;
}

bool AddressRound::OnFailed(const std::string& why) {
  if (!why.empty()) reasons_[current_] = why;
  tried_.insert(current_);
  standby_in_round_ |= IsStandbyText(why);
  const std::optional<std::string> leader = LeaderIn(why);
  const std::optional<size_t> named = leader.has_value() ? Find(*leader) : std::nullopt;
  const bool is_over = tried_.size() == addresses_.size();
  if (is_over) {
    tried_.clear();
    knows_standby_ = standby_in_round_;
    standby_in_round_ = false;
  }
  size_t next = (current_ + 1) % addresses_.size();
  while (tried_.count(next) > 0) next = (next + 1) % addresses_.size();
  current_ = named.has_value() && tried_.count(*named) == 0 ? *named : next;
  return is_over;
}

void AddressRound::OnServed() {
  tried_.clear();
  reasons_.assign(addresses_.size(), "");
  standby_in_round_ = knows_standby_ = false;
}

std::string AddressRound::Reasons() const {
  if (is_one()) return reasons_[0];
  std::string text;
  for (size_t i = 0; i < addresses_.size(); ++i) {
    if (reasons_[i].empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", addresses_[i], ": ", reasons_[i]);
  }
  return text;
}

}  // namespace strata::control

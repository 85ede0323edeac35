#ifndef STRATA_TESTS_SIM_CLUSTER_EVENT_LOG_H_
#define STRATA_TESTS_SIM_CLUSTER_EVENT_LOG_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace strata::sim {

// Everything that happens in one run: always as a hash, to see that a seed decides all of it, and
// as text where somebody will read it: one line per event, with the virtual time in ms.
class EventLog {
 public:
  explicit EventLog(bool keep_text = false) : keep_text_(keep_text) {}

  // `text` is called only where text is kept.
  template <typename Text>
  void Add(absl::Time now, uint64_t what, Text text) {
    Mix(static_cast<uint64_t>(absl::ToUnixNanos(now)));
    Mix(what);
    if (!keep_text_) return;
    absl::StrAppendFormat(&text_, "%12.3f  %s\n",
                          absl::ToDoubleMilliseconds(now - absl::UnixEpoch()), std::string(text()));
  }

  uint64_t hash() const { return hash_; }
  const std::string& text() const { return text_; }

 private:
  void Mix(uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15;
    hash_ ^= hash_ >> 29;
  }

  const bool keep_text_;
  uint64_t hash_ = 0x5354524154410001;
  std::string text_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_EVENT_LOG_H_

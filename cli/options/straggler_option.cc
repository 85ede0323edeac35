#include "cli/options/straggler_option.h"

#include <cmath>
#include <cstdint>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace strata::cli {
namespace {

constexpr char kForm[] = "as in node=1,slow=4x or node=1,delay=30ms+-10ms";

absl::Status Refuse(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, ", ", kForm));
}

absl::StatusOr<std::map<std::string, std::string>> PartsOf(const std::string& text) {
  std::map<std::string, std::string> parts;
  for (const auto part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const bool known = pair.first == "node" || pair.first == "slow" || pair.first == "delay";
    if (!known) return Refuse(absl::StrFormat("\"%s\" is not node, slow or delay", part));
    if (!parts.insert(pair).second) {
      return Refuse(absl::StrFormat("%s stands there twice", pair.first));
    }
  }
  if (parts.count("node") == 0) return Refuse("node is missing");
  if (parts.size() == 1) return Refuse("slow or delay is missing");
  return parts;
}

// Whole milliseconds.
absl::StatusOr<uint32_t> MillisecondsOf(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() ||
      duration > absl::Hours(1)) {
    return Refuse(absl::StrFormat("delay=%s: not a duration", text));
  }
  return static_cast<uint32_t>(std::lround(absl::ToDoubleMilliseconds(duration)));
}

}  // namespace

absl::StatusOr<std::string> SettingOfStraggler(const std::string& text) {
  const auto parts = PartsOf(text);
  if (!parts.ok()) return parts.status();
  uint32_t node = 0;
  if (!absl::SimpleAtoi(parts->at("node"), &node)) {
    return Refuse(absl::StrFormat("node=%s: not a number", parts->at("node")));
  }
  std::string setting = absl::StrFormat("debug.delays={node: %d", node);
  if (const auto slow = parts->find("slow"); slow != parts->end()) {
    float factor = 0;
    if (!absl::SimpleAtof(absl::StripSuffix(slow->second, "x"), &factor) || !(factor >= 1)) {
      return Refuse(absl::StrFormat("slow=%s: not a number from 1 on", slow->second));
    }
    absl::StrAppend(&setting, " slow: ", factor);
  }
  if (const auto delay = parts->find("delay"); delay != parts->end()) {
    const std::string spread = absl::StrReplaceAll(delay->second, {{"±", "+-"}});
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(spread, absl::MaxSplits("+-", 1));
    const auto ms = MillisecondsOf(pair.first);
    if (!ms.ok()) return ms.status();
    const auto jitter_ms = MillisecondsOf(pair.second.empty() ? "0" : pair.second);
    if (!jitter_ms.ok()) return jitter_ms.status();
    absl::StrAppendFormat(&setting, " delay_ms: %d jitter_ms: %d", *ms, *jitter_ms);
  }
  return setting + "}";
}

}  // namespace strata::cli

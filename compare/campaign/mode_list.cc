#include "compare/campaign/mode_list.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/job/consistency.h"
#include "compare/campaign/split_outside.h"

namespace strata::compare {
namespace {

constexpr char kExample[] = "sync,lazy:ssp(3),async,ring";

}  // namespace

absl::StatusOr<Mode> ParseMode(const std::string& name) {
  const std::vector<std::string> parts = SplitOutside(name, [&name](size_t i) {
    return name[i] == '+' && (i + 1 == name.size() || absl::ascii_isalpha(name[i + 1]));
  });
  const auto refuse = [&name](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("mode ", name, ": ", why));
  };
  absl::StatusOr<std::vector<std::string>> settings = SettingsOfMode(parts[0]);
  if (!settings.ok()) return refuse(settings.status().message());
  Mode mode{name, *std::move(settings)};
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      return refuse(absl::StrCat("\"+", parts[i], "\" is not +FIELD=VALUE"));
    }
    mode.settings.push_back(parts[i]);
  }
  return mode;
}

absl::StatusOr<std::vector<Mode>> ParseModes(const std::string& text) {
  std::vector<Mode> modes;
  if (absl::StripAsciiWhitespace(text).empty()) {
    return absl::InvalidArgumentError(absl::StrCat("no mode to compare, as in ", kExample));
  }
  for (const std::string& part : SplitOutside(text, [&](size_t i) { return text[i] == ','; })) {
    const std::string name(absl::StripAsciiWhitespace(part));
    if (name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\": an empty mode between commas"));
    }
    const bool twice = std::any_of(modes.begin(), modes.end(),
                                   [&name](const Mode& mode) { return mode.name == name; });
    if (twice) return absl::InvalidArgumentError(absl::StrCat("mode ", name, " is there twice"));
    absl::StatusOr<Mode> mode = ParseMode(name);
    if (!mode.ok()) return mode.status();
    modes.push_back(*std::move(mode));
  }
  return modes;
}

std::string ModeFileName(const std::string& mode) {
  std::string name;
  for (const char c : mode) {
    if (absl::ascii_isalnum(c) || c == '.' || c == '-') {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return std::string(absl::StripSuffix(name, "_"));
}

std::string RunName(const std::string& mode, uint64_t seed) {
  return absl::StrCat(ModeFileName(mode), "-seed", seed);
}

}  // namespace strata::compare

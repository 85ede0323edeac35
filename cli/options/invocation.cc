#include "cli/options/invocation.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/options/terminal.h"
#include "common/log.h"

namespace strata::cli {

int PrintError(const std::string& text, int exit_status) {
  if (CurrentLogFormat() == LogFormat::kJson) {
    WriteJsonError(text);
    return exit_status;
  }
  std::string line = absl::StrReplaceAll(text, {{"\n", " "}, {"\r", " "}});
  PrintF(stderr, "strata: error: %s\n", line);
  return exit_status;
}

int PrintError(const absl::Status& status) {
  bool input = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  return PrintError(std::string(status.message()), input ? kExitUsage : kExitFailed);
}

namespace {

// The least number of characters to insert, delete, replace or swap with the next one.
size_t EditsBetween(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& best = edits[i][j];
      if (i == 0 || j == 0) {
        best = i + j;
        continue;
      }
      best = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1,
                       edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swaps = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swaps) best = std::min(best, edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string DidYouMean(const std::string& word, const std::vector<std::string>& names) {
  constexpr size_t kWordMax = 64;
  if (word.size() > kWordMax) return "";
  // One slip in each three letters.
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  std::string nearest;
  for (const std::string& name : names) {
    const size_t edits = EditsBetween(word, name);
    if (edits >= least) continue;
    least = edits;
    nearest = name;
  }
  return nearest.empty() ? "" : absl::StrCat(", did you mean ", nearest, "?");
}

std::string DidYouMeanOption(const std::string& word, const CLI::App& command) {
  if (!absl::StartsWith(word, "--")) return "";
  std::vector<std::string> names;
  for (const CLI::Option* option :
       command.get_options([](const CLI::Option* each) { return !each->get_group().empty(); })) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return DidYouMean(word.substr(0, word.find('=')), names);
}

}  // namespace strata::cli

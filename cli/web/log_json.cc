#include "cli/web/log_json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const LogChoice& choice) {
  if (choice.rank.has_value()) return absl::StrCat(choice.job, ":rank:", *choice.rank);
  return absl::StrCat(choice.job, choice.aggregators ? ":aggregators" : "");
}

}  // namespace

std::optional<LogChoice> ParseLogChoice(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  LogChoice choice;
  if (!absl::SimpleAtoi(parts[0], &choice.job)) return std::nullopt;
  if (parts.size() == 1) return choice;
  if (parts.size() == 2 && parts[1] == "aggregators") {
    choice.aggregators = true;
    return choice;
  }
  uint32_t rank = 0;
  if (parts.size() != 3 || parts[1] != "rank" || !absl::SimpleAtoi(parts[2], &rank)) {
    return std::nullopt;
  }
  choice.rank = rank;
  return choice;
}

std::string LogDocument(const LogChoice& choice, const LogNews& news) {
  Json json = {{"choice", Text(choice)}, {"anew", news.anew}, {"passed_over", news.passed_over}};
  json["lines"] = Json::array();
  for (const LogLine& line : news.lines) {
    Json one = Json::array({line.process, line.text});
    if (line.is_problem) one.push_back(true);
    json["lines"].push_back(std::move(one));
  }
  json["problem"] = news.problem;
  json["ended"] = news.ended;
  // What is not UTF-8 becomes U+FFFD.
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace strata::cli

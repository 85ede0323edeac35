#include "common/checkpoint/part_name.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace strata {

const char* WordFor(PartKind kind) {
  switch (kind) {
    case PartKind::kShard:
      return "shard";
    case PartKind::kNode:
      return "node";
    case PartKind::kRank:
      return "rank";
  }
  return "";
}

std::string ToText(const PartName& part, uint32_t job, uint32_t attempt) {
  return absl::StrFormat("%s-%d-%d.%d", WordFor(part.kind), part.number, job, attempt);
}

std::optional<PartName> ParsePartName(const std::string& object) {
  const std::vector<std::string> words = absl::StrSplit(object.substr(object.rfind('/') + 1), '-');
  PartName part;
  if (words.size() < 2 || words.size() > 3) return std::nullopt;
  if (!absl::SimpleAtoi(words[1], &part.number)) return std::nullopt;
  for (const PartKind kind : {PartKind::kShard, PartKind::kNode, PartKind::kRank}) {
    part.kind = kind;
    if (words[0] == WordFor(kind)) return part;
  }
  return std::nullopt;
}

}  // namespace strata

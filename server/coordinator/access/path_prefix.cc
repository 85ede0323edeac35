#include "server/coordinator/access/path_prefix.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace strata::server {
namespace {

constexpr absl::string_view kBucket = "s3://";

}  // namespace

absl::StatusOr<std::string> NormalPath(absl::string_view path) {
  if (absl::StrContains(path, '\0')) return absl::InvalidArgumentError("it holds a zero byte");
  const bool in_bucket = absl::StartsWith(path, kBucket);
  if (!in_bucket && !absl::StartsWith(path, "/")) {
    return absl::InvalidArgumentError("it is neither absolute nor s3://BUCKET/PREFIX");
  }
  std::string normal = in_bucket ? "s3:/" : "";
  const std::vector<absl::string_view> parts =
      absl::StrSplit(in_bucket ? absl::StripPrefix(path, kBucket) : path, '/');
  if (in_bucket && (parts[0].empty() || parts[0] == ".")) {
    return absl::InvalidArgumentError("it names no bucket");
  }
  for (const absl::string_view part : parts) {
    if (part == "..") return absl::InvalidArgumentError("it has a part \"..\"");
    if (!part.empty() && part != ".") absl::StrAppend(&normal, "/", part);
  }
  return normal.empty() ? "/" : normal;
}

bool LiesBelow(absl::string_view path, absl::string_view prefix) {
  // All of the file system is one.
  if (prefix == "/") return absl::StartsWith(path, "/");
  return absl::ConsumePrefix(&path, prefix) && (path.empty() || path[0] == '/');
}

}  // namespace strata::server
